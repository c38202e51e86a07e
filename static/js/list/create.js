/** Where sessions begin: the form, which loses nothing that was typed, and the demonstration. */
import { byId, el, fill, openDialog } from "../dom.js";
import { Refused, call, commandId } from "../rest.js";

const DEMONSTRATION = "Show me what you can do: run a few commands, change a file, and tell me what you are doing as you go.";
const DRAFT = `steerweb:new-session:${byId("list").dataset.me}`; // each person's own, whoever signs in here
/** What is kept of the form until its session exists. */
const KEPT = ["text", "model", "workspace", "instructions", "mode"];

/** @typedef {{ session: string, input: string }} Ids */

/** @returns {Ids} */
const newIds = () => ({ session: commandId(), input: commandId() });

/**
 * Make a session, send its first message, go there. Each command has its id from the start, so that pressing again after
 * a lost answer makes nothing twice.
 * @param {Record<string, string>} body @param {string} text @param {Ids} ids @param {() => void} [begun]
 */
async function begin(body, text, ids, begun = () => {}) {
  const made = await call("POST", "/sessions", { id: ids.session, body });
  await call("POST", `/sessions/${made.id}/inputs`, { id: ids.input, body: { text } });
  begun();
  location.assign(`/s/${made.id}`);
}

export function listenDemonstration() {
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("demonstrate"));
  const ids = newIds();
  button?.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await begin({ model: "demo:", title: "Demonstration" }, DEMONSTRATION, ids);
    } catch (error) {
      fill(byId("says"), el("p", { class: "says", "data-is": "bad", role: "alert" }, /** @type {Refused} */ (error).detail));
      button.disabled = false;
    }
  });
}

/** What this browser kept, or nothing where it keeps nothing. @returns {Record<string, string>} */
function readDraft() {
  try {
    return JSON.parse(localStorage.getItem(DRAFT) || "{}");
  } catch {
    return {};
  }
}

/** @param {Record<string, string> | null} draft */
function keepDraft(draft) {
  try {
    if (draft) localStorage.setItem(DRAFT, JSON.stringify(draft));
    else localStorage.removeItem(DRAFT);
  } catch {
    // a browser that keeps nothing: what is typed lives as long as its page
  }
}

export function listenCreate() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("create"));
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
  const says = /** @type {HTMLElement} */ (dialog.querySelector("[data-says]"));
  const start = /** @type {HTMLButtonElement} */ (form.querySelector(".btn.main"));
  const field = (/** @type {string} */ name) => /** @type {HTMLInputElement | RadioNodeList | null} */ (form.elements.namedItem(name));
  const draft = readDraft();
  let ids = newIds();
  let body = "";
  // The demonstration runs freely as it is harmless; everything else asks, unless somebody chooses otherwise.
  let chosen = Boolean(draft.mode);
  for (const name of KEPT) {
    const place = field(name);
    if (draft[name] && place) place.value = draft[name];
  }
  usualMode();

  function usualMode() {
    const usual = /** @type {HTMLInputElement} */ (field("model")).value.trim().startsWith("demo:") ? "auto" : "ask";
    if (!chosen) /** @type {RadioNodeList} */ (field("mode")).value = usual;
  }

  const fields = () => /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
  form.addEventListener("input", (event) => {
    const name = /** @type {HTMLInputElement} */ (event.target).name;
    chosen ||= name === "mode";
    usualMode();
    const { mode, ...typed } = fields();
    keepDraft({ ...typed, ...(chosen && { mode }) });
    clear(name);
  });
  byId("new-session").addEventListener("click", () => openDialog(dialog));
  dialog.querySelector("[data-closes]")?.addEventListener("click", () => dialog.close());

  /** @param {string} name */
  function clear(name) {
    const place = field(name);
    if (!(place instanceof HTMLElement)) return;
    place.removeAttribute("aria-invalid");
    place.parentElement?.querySelector(".wrong")?.remove();
  }

  /** What is wrong, at its field where it has one. @param {Refused} error */
  function tell({ detail, data }) {
    const place = field(String(data.field || ""));
    if (!(place instanceof HTMLElement)) {
      fill(says, el("p", { class: "says", "data-is": "bad", role: "alert" }, detail));
      return;
    }
    place.setAttribute("aria-invalid", "true");
    place.setAttribute("aria-describedby", `wrong-${place.name}`);
    place.after(el("small", { class: "wrong", id: `wrong-${place.name}`, role: "alert" }, detail));
    place.focus();
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { text, ...rest } = fields();
    const asked = Object.fromEntries(Object.entries(rest).filter(([, value]) => value.trim()));
    // What changed is another command. A session that exists already, while its message was refused, is not made again.
    if (body !== JSON.stringify(asked)) ids = newIds();
    else ids.input = commandId();
    body = JSON.stringify(asked);
    start.disabled = true;
    fill(says);
    for (const name of KEPT) clear(name);
    try {
      await begin(asked, text, ids, () => keepDraft(null));
    } catch (error) {
      tell(/** @type {Refused} */ (error));
      start.disabled = false;
    }
  });
}
