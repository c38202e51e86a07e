/**
 * Stop many: which sessions and whose is said before anything happens, and exactly these are stopped. As with a single
 * Stop (`session/stop.js`), a press counts within five seconds or never: it is not kept on this device, and a late arrival
 * is refused by the server (`not_after`). What was accepted is asked for under the same command id until all have ended.
 */
import { byId, el, fill, openDialog, write } from "../dom.js";
import { sampleServerTime, serverNow } from "../clock.js";
import { Refused, call, commandId } from "../rest.js";
import { REASONS, count, hue } from "../words.js";
import { drawState } from "./rows.js";

/** @typedef {import("./rows.js").Row & { started_by: string }} Stoppable */
/** @typedef {{ id: string, stopped: boolean, joined?: boolean, turns: string[], note?: string | null, background?: unknown[], code?: string, detail?: string, data?: any }} Outcome */

const DEADLINE_MS = 5_000;
const ASK_MS = 400;
const AGAIN_MS = 1_000;

/** By kind: how many of them there were. The server says the same in `pages/words.py`. */
const KINDS = /** @type {Record<string, string>} */ ({
  stopped: "stopped", joined: "had been asked to stop already", background: "had only background processes, ended now", waited: "had not started",
  over: "had ended by itself", closing: "closing already", going: "still stopping", refused: "not stopped",
});

/** What came of one session's stop: its kind, and the words for it alone. @param {Outcome} item @returns {[string, string]} */
export function outcome({ code, detail, joined, note, background }) {
  if (code === "deadline") return ["going", "stopping …"];
  if (code) return ["refused", `not stopped: ${detail}`];
  if (joined) return ["joined", "was being stopped already, and has ended"];
  if (note === "idle" && background?.length) return ["background", "its background processes were ended"];
  if (note === "idle" || note === "turn_over") return ["over", "had ended by itself"];
  if (note === "not_started") return ["waited", "had not started, what waited is paused"];
  if (note === "closing") return ["closing", "is closing already"];
  return ["stopped", note ? "stopped, not all of it is known to have ended" : "stopped"];
}

/** @param {Outcome[]} items */
export function summary(items) {
  const kinds = items.map((item) => outcome(item)[0]);
  const said = Object.entries(KINDS).map(([kind, words]) => [kinds.filter((one) => one === kind).length, words]);
  return said.filter(([n]) => n).map(([n, words]) => `${n} ${words}`).join(", ") || "Nothing was running";
}

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

class StopMany {
  /** @param {"mine" | "all"} scope @param {string} me */
  constructor(scope, me) {
    this.scope = scope;
    this.me = me;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("halt"));
    this.form = /** @type {HTMLFormElement} */ (this.dialog.querySelector("form"));
    const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (this.dialog.querySelector(name));
    this.title = part("h2");
    this.about = part("[data-about]");
    this.rows = part("[data-rows]");
    this.why = part("[data-why]");
    this.says = part("[data-says]");
    this.go = /** @type {HTMLButtonElement} */ (part("[data-go]"));
    this.leave = part("[data-leave]");
    /** @type {Stoppable[]} */
    this.sessions = [];
    this.open = true;
  }

  async show() {
    this.form.reset();
    this.form.onsubmit = (event) => {
      event.preventDefault();
      void this.#press();
    };
    this.dialog.onclose = () => (this.open = false);
    this.#head("Looking what is at work", "");
    fill(this.rows);
    fill(this.says);
    this.why.hidden = this.go.hidden = true;
    this.rows.hidden = true;
    write(this.leave, "Do not stop");
    openDialog(this.dialog);
    try {
      this.sessions = (await call("GET", `/interrupt?scope=${this.scope}`)).sessions;
    } catch (error) {
      this.#head("Nothing was stopped", "");
      this.#tell(/** @type {Refused} */ (error).detail, "bad");
      return;
    }
    const n = this.sessions.length;
    if (!n) {
      this.#head("Nothing to stop", this.scope === "mine" ? "None of the sessions you started is at work." : "None of the sessions you may stop is at work.");
      write(this.leave, "Close");
      return;
    }
    this.#head(`Stop ${count(n, "session")}?`, `${this.scope === "mine" ? "Those that you started." : "All that you may stop, also those that others started."} What waits in them is paused.`);
    fill(this.rows, ...this.sessions.map((row) => this.#row(row)));
    this.rows.hidden = this.why.hidden = this.go.hidden = false;
    this.go.disabled = false;
    write(this.go, `Stop ${count(n, "session")}`);
    this.go.focus();
  }

  /** @param {string} title @param {string} about */
  #head(title, about) {
    write(this.title, title);
    write(this.about, about);
    this.about.hidden = !about;
  }

  /** @param {Stoppable} row */
  #row(row) {
    const state = el("span", { class: "state" }, el("span", { class: "num" }));
    drawState(state, row);
    const by = row.created_by === this.me ? "you" : row.started_by;
    return el("li", { "data-id": row.id }, el("div", { class: "name" }, el("span", { dir: "auto" }, row.title)),
      el("span", { class: "muted" }, "started by ", el("bdi", { class: `who ${hue(row.created_by || "")}` }, by)), state);
  }

  async #press() {
    const reason = String(new FormData(this.form).get("reason") || "").trim();
    const body = { scope: this.scope, sessions: this.sessions.map((row) => row.id), otherwise: "hold", ...(reason && { reason }) };
    this.go.disabled = true;
    this.#tell("Asking …", "");
    let command = commandId();
    const end = performance.now() + DEADLINE_MS;
    try {
      let items = await this.#send(command, body, end);
      const late = items.find((item) => item.code === "too_late");
      if (late && items.every((item) => item.code === "too_late") && performance.now() < end) {
        // The answer is here in time, so this device's idea of the server's clock was wrong: the press still counts.
        sampleServerTime(late.data?.now_ms, true);
        command = commandId();
        items = await this.#send(command, body, end);
      }
      await this.#follow(command, body, items);
    } catch (error) {
      const { code, detail } = /** @type {Refused} */ (error);
      const words = code === "unreachable" ? "NOT sent. The server did not answer, so nothing was stopped by this press, and it will not be sent by itself later." : `Not stopped. ${detail}`;
      this.#tell(words, "bad");
      this.go.disabled = false;
      write(this.go, "Try again");
    }
  }

  /** @param {string} id @param {Record<string, unknown>} body @param {number} end by `performance.now` @returns {Promise<Outcome[]>} */
  async #send(id, body, end) {
    const left = Math.max(0, end - performance.now());
    const not_after = new Date(serverNow() + left).toISOString();
    return (await call("POST", "/interrupt", { id, body: { ...body, not_after, wait: 0 }, timeout: left })).sessions;
  }

  /** It is accepted: ask until everything has ended. @param {string} id @param {Record<string, unknown>} body @param {Outcome[]} items */
  async #follow(id, body, items) {
    this.why.hidden = this.go.hidden = true;
    write(this.leave, "Close");
    this.leave.focus();
    this.#progress(items);
    while (this.open && items.some((item) => item.code === "deadline")) {
      await pause(ASK_MS);
      try {
        items = (await call("POST", "/interrupt", { id, body: { ...body, wait: 0 } })).sessions;
        this.#progress(items);
      } catch (error) {
        if (/** @type {Refused} */ (error).code === "unauthenticated") throw error;
        this.#tell("The connection is lost. The stop was accepted and goes on; how it ends is not known here yet.", "wait");
        await pause(AGAIN_MS);
      }
    }
  }

  /** @param {Outcome[]} items */
  #progress(items) {
    const going = items.filter((item) => item.code === "deadline").length;
    const done = items.length - going;
    for (const item of items) {
      const row = this.rows.querySelector(`[data-id="${CSS.escape(item.id)}"]`);
      const [kind, words] = outcome(item);
      const place = row?.lastElementChild;
      if (place && place.textContent !== words) place.replaceWith(el("span", { class: `came ${kind}` }, words));
    }
    this.#head(going ? `Stopping: ${done} of ${items.length} done` : "Done", "");
    this.#tell(`${summary(items)}.`, items.some((item) => outcome(item)[0] === "refused") ? "bad" : "");
  }

  /** @param {string} text @param {string} is */
  #tell(text, is) {
    const old = this.says.firstElementChild;
    if (old instanceof HTMLElement && old.dataset.is === is) write(old, text);
    else fill(this.says, el("p", { class: "says", "data-is": is }, text));
  }
}

/** The links ask in a dialog instead of on a page of their own. @param {string} me */
export function listenStops(me) {
  fill(byId("reasons"), ...REASONS.map((value) => el("option", { value })));
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-stops]"))) {
    link.setAttribute("role", "button");
    link.setAttribute("aria-haspopup", "dialog");
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      void new StopMany(/** @type {"mine" | "all"} */ (link.dataset.stops), me).show();
    });
    link.addEventListener("keydown", (event) => {
      if (event.key === " ") {
        event.preventDefault();
        link.click();
      }
    });
  }
}
