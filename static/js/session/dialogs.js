/** The dialogs of a session page: people, the code that opens it on a phone, the keys, the drawer. */
import { button, byId, el, fill, openDialog } from "../dom.js";
import { Refused, call } from "../rest.js";
import { counting } from "../words.js";
import { face } from "./presence.js";

/** @typedef {{ person: string, name: string, role: string }} Member */

/** How long a sign-in code works. */
const CODE_MS = 120_000;

/** @param {string} id @returns {HTMLDialogElement} */
const dialog = (id) => /** @type {HTMLDialogElement} */ (byId(id));

/** @param {string} session @param {() => void} onKeys */
export function listenDialogs(session, onKeys) {
  for (const opener of document.querySelectorAll("[data-opens]")) {
    opener.addEventListener("click", () => open(/** @type {HTMLElement} */ (opener).dataset.opens || "", session));
  }
  for (const closer of document.querySelectorAll("[data-closes]")) {
    closer.addEventListener("click", () => closer.closest("dialog")?.close());
  }
  addEventListener("keydown", (event) => {
    if (event.key === "?" && !typing(event.target) && !document.querySelector("dialog[open]")) onKeys();
  });
}

/** @param {EventTarget | null} target */
export const typing = (target) => target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");

/** @param {string} id @param {string} session */
function open(id, session) {
  if (id === "phone") showCode(session);
  if (id === "people") void new People(session).show();
  openDialog(dialog(id));
}

/** A fresh code each time: it works once, and for two minutes. @param {string} session */
function showCode(session) {
  const place = dialog("phone");
  const image = /** @type {HTMLImageElement} */ (place.querySelector("img"));
  const left = /** @type {HTMLElement} */ (place.querySelector("[data-left]"));
  const fresh = /** @type {HTMLElement} */ (place.querySelector("[data-fresh]"));
  const renew = () => {
    const until = Date.now() + CODE_MS;
    image.src = `/s/${session}/qr.svg?${until}`;
    clearInterval(Number(place.dataset.timer));
    place.dataset.timer = String(setInterval(() => {
      const rest = until - Date.now();
      left.textContent = rest > 0 ? `Works once, for ${counting(rest)} more.` : "This code no longer works.";
      image.hidden = rest <= 0;
      if (rest <= 0) clearInterval(Number(place.dataset.timer));
    }, 500));
    image.hidden = false;
    left.textContent = "Works once, for 2 min.";
  };
  image.onerror = () => {
    left.textContent = "The code could not be made. Is the server reachable?";
    image.hidden = true;
  };
  fresh.onclick = renew;
  place.onclose = () => {
    clearInterval(Number(place.dataset.timer));
    image.removeAttribute("src");
  };
  renew();
}

class People {
  /** @param {string} session */
  constructor(session) {
    this.path = `/sessions/${session}/members`;
    this.place = dialog("people");
    this.list = /** @type {HTMLElement} */ (this.place.querySelector("[data-members]"));
    this.says = /** @type {HTMLElement} */ (this.place.querySelector("[data-says]"));
    const form = this.place.querySelector("form");
    this.mayChange = Boolean(form);
    if (form) form.onsubmit = (event) => {
      event.preventDefault();
      void this.#add(form);
    };
  }

  async show() {
    this.#tell("");
    try {
      const { items } = await call("GET", this.path);
      fill(this.list, ...items.map((/** @type {Member} */ member) => this.#row(member)));
    } catch (error) {
      this.#tell(/** @type {Refused} */ (error).detail);
    }
  }

  /** @param {Member} member */
  #row({ person, name, role }) {
    return el("li", { class: "member" }, face({ id: person, name }), el("bdi", { class: "strong" }, name), el("span", { class: "muted small" }, role === "observer" ? "observer, watches only" : role),
      this.mayChange && button(`Remove ${name}`, () => void this.#try(() => call("DELETE", `${this.path}/${person}`)), { kind: "quiet push", iconName: "close" }));
  }

  /** @param {HTMLFormElement} form */
  async #add(form) {
    const fields = new FormData(form);
    const done = await this.#try(() => call("POST", this.path, { body: { person: String(fields.get("person")).trim(), role: fields.get("role") } }));
    if (done) form.reset();
  }

  /** @param {() => Promise<unknown>} act @returns {Promise<boolean>} */
  async #try(act) {
    try {
      await act();
    } catch (error) {
      this.#tell(/** @type {Refused} */ (error).detail);
      return false;
    }
    await this.show();
    return true;
  }

  /** @param {string} text */
  #tell(text) {
    fill(this.says, text && el("p", { class: "says", "data-is": "bad", role: "alert" }, text));
  }
}
