/** What this session is allowed: the agent's mode with its choice, and the standing answers with who gave them. */
import { button, el, fill, write } from "../dom.js";
import { actorName, modeWords, plain, ruleSentence } from "../words.js";
import { inWords, who } from "./answered.js";
import { when } from "./items.js";
import { primary } from "./state.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View */

/** The agent's mode in words, and the dialog that changes it. */
export class Mode {
  /** @param {{ place: HTMLElement, dialog: HTMLDialogElement | null, change: (mode: string) => void }} options `dialog`: for those who may */
  constructor({ place, dialog, change }) {
    this.place = place;
    this.dialog = dialog;
    this.current = "";
    dialog?.querySelector("form")?.addEventListener("submit", (event) => {
      const chosen = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("mode"));
      if (chosen !== this.current) change(chosen);
    });
  }

  /** @param {State} state */
  draw(state) {
    const loop = primary(state);
    if (!loop) return;
    this.current = loop.mode;
    const later = loop.turn && !loop.turn.mark && loop.turn.mode !== loop.mode;
    write(this.place, `${modeWords(loop.mode)}${later ? ", from its next step on" : ""}`);
    if (!this.dialog || this.dialog.open) return; // a choice somebody is making is not changed under the finger
    for (const choice of /** @type {NodeListOf<HTMLInputElement>} */ (this.dialog.querySelectorAll("input[name=mode]"))) choice.checked = choice.value === loop.mode;
  }
}

/** What was answered for the whole session. */
export class Rules {
  /** @param {{ place: HTMLElement, view: View, revoke: ((rule: string) => Promise<void>) | null }} options `revoke`: for those who may */
  constructor({ place, view, revoke }) {
    this.place = place;
    this.view = view;
    this.revoke = revoke;
    this.drawn = "";
    /** @type {Set<string>} on their way out */
    this.leaving = new Set();
  }

  /** @param {State} state */
  draw(state) {
    const mayRevoke = this.revoke !== null && state.status === "open";
    const mark = JSON.stringify([state.rules.map(({ id }) => id), [...this.leaving], mayRevoke]);
    if (mark === this.drawn) return;
    this.drawn = mark;
    if (state.rules.length) fill(this.place, ...state.rules.map(({ id }) => this.#row(id, mayRevoke)));
    else fill(this.place, el("li", { class: "muted" }, "Nothing. An approval can be answered for the whole session; what was allowed so is listed here."));
  }

  /** @param {string} id @param {boolean} mayRevoke */
  #row(id, mayRevoke) {
    const rule = this.view.rules.get(id);
    if (!rule) return el("li", {}, "…");
    const label = `Take back: ${plain(ruleSentence(rule))}, allowed by ${plain(actorName(rule.by))}`;
    const back = mayRevoke && button(label, () => void this.#revoke(id), { kind: "quiet push", iconName: "close", title: "Ask again" });
    if (back) back.disabled = this.leaving.has(id);
    return el("li", { "data-rule": id }, el("div", {}, el("span", {}, ...inWords(rule)), el("small", {}, who(rule.by), ", ", when(rule.at))), back);
  }

  /** @param {string} id */
  async #revoke(id) {
    this.leaving.add(id);
    await this.revoke?.(id);
    this.leaving.delete(id);
    this.drawn = "";
  }
}
