/**
 * One approval: what wants to run in full, why it asks, and the answers. While an answer is on its way nothing else can
 * be pressed; a refused one leaves everything as it was, the note too.
 *
 * @typedef {{ decision: "allow" | "allow_rule" | "deny", rule?: { kind: string, value: string } }} Choice
 */
import { button, el, fill, setAttribute, write } from "../dom.js";
import { count, since, stopCounting } from "../clock.js";
import { Refused, commandId } from "../rest.js";
import { callInFull, callLine, counting, mayIt, plain, ruleSentence, ruleWords, whyItAsks } from "../words.js";
import { inWords } from "./answered.js";
import { diffOf, drawDiff } from "./diff.js";
import { sizesOf, words } from "./items.js";

/** An answer usually takes some milliseconds; only a wait longer than this is worth words. */
const SLOW_MS = 600;
/** What the server takes of a note, in bytes of UTF-8; characters are at least as many bytes. */
const NOTE_CHARS = 2_000;

export class Card {
  /**
   * @param {{ gate: string, tool: string, item: import("./items.js").Item | undefined, agent: string, context: import("./items.js").Context,
   *   answer: ((card: Card, choice: Choice) => void) | null, forget: (id: string) => void, show: () => void }} options `agent`: whose call
   *   it is, where that is not the main one; `answer`: null for those who only watch; `show`: go where it stands in full
   */
  constructor({ gate, tool, item, agent, context, answer, forget, show }) {
    this.gate = gate;
    this.forget = forget;
    this.approval = item?.approval;
    /** The answer that is on its way. @type {{ id: string, slow: number } | null} */
    this.sent = null;
    this.age = el("span", { class: "push muted num" });
    this.says = el("div", { class: "stack" });
    const question = el("b", { id: `ask-${gate}` }, agent ? `${agent.charAt(0).toUpperCase()}${agent.slice(1)} asks: ${mayIt(tool)}` : mayIt(tool));
    this.element = el("section", { class: "ask", role: "group", tabindex: "-1", "aria-labelledby": question.id }, el("header", {}, question, this.age),
      el("div", { class: "brief" }, el("code", { dir: "auto" }, lineOf(tool, item).split("\n", 1)[0]), button("Show", show, { name: `Show what it asks: ${plain(mayIt(tool))}` })),
      ...what(tool, item, context),
      el("p", { class: "muted small" }, whyItAsks(this.approval?.question)));
    this.note = el("input", { "aria-label": "A note to the agent, sent with a denial", placeholder: "Why not? (optional)", maxlength: NOTE_CHARS, dir: "auto", autocomplete: "off", enterkeyhint: "send" });
    if (answer) this.element.append(...this.#answers((choice) => this.sent || answer(this, choice)), this.says);
    this.#drawAge();
  }

  get typed() {
    return this.note.value.trim();
  }

  set typed(text) {
    this.note.value = text;
  }

  /** @param {(choice: Choice) => void} give */
  #answers(give) {
    const press = (/** @type {Choice} */ choice) => (/** @type {Event} */ event) => {
      this.pressed = /** @type {HTMLElement} */ (event.currentTarget);
      give(choice);
    };
    const offers = (this.approval?.offers || []).filter((/** @type {any} */ { value }) => typeof value === "string");
    const once = button("Allow once", press({ decision: "allow" }), { kind: "main" });
    const always = offers.map((/** @type {{ kind: string, value: string }} */ rule) => {
      const exactly = rule.kind === "command";
      const choice = button("", press({ decision: "allow_rule", rule }), { name: plain(`Always in this session: ${exactly ? "exactly this command" : ruleSentence(rule)}`) });
      fill(choice, el("span", {}, ...(exactly ? ["exactly this command"] : inWords(rule))));
      return choice;
    });
    const deny = el("button", { type: "submit", class: "btn" }, "Deny");
    const denial = el("form", { class: "deny", on: { submit: (event) => {
      event.preventDefault();
      this.pressed = deny;
      give({ decision: "deny" });
    } } }, this.note, deny);
    this.buttons = [once, ...always, deny];
    return [
      el("div", { class: "acts" }, once, always.length > 0 && el("div", { class: "always", role: "group", "aria-label": "Always in this session" }, el("span", { class: "muted small" }, "Always in this session"), ...always)),
      denial,
    ];
  }

  /** The answer as a command; one at a time. @param {Choice} choice @returns {Record<string, any>} */
  begin({ decision, rule }) {
    const id = commandId();
    this.sent = { id, slow: window.setTimeout(() => this.#slow(id), SLOW_MS) };
    fill(this.says);
    this.#draw();
    return { t: "resolve", id, gate: this.gate, decision, ...(rule && { rule: { kind: rule.kind, value: rule.value } }), ...(decision === "deny" && this.typed && { message: this.typed }) };
  }

  /** Its event takes the card away; until then nothing can be pressed. */
  received() {
    clearTimeout(this.sent?.slow);
    fill(this.says);
  }

  /** @param {Refused} error */
  refused(error) {
    this.#back();
    if (error.code !== "gate_closed") fill(this.says, el("div", { class: "says", "data-is": "bad", role: "alert" }, `Not answered. ${error.detail}`));
  }

  #back() {
    clearTimeout(this.sent?.slow);
    this.sent = null;
    fill(this.says);
    this.#draw();
  }

  /** @param {string} id */
  #slow(id) {
    if (this.sent?.id !== id) return;
    const back = button("Do not send it", () => {
      this.forget(id);
      this.#back();
    });
    fill(this.says, el("div", { class: "warn calm", role: "status" }, el("span", {}, "Not received yet. Your answer is sent again as soon as the connection is back."), back));
  }

  #draw() {
    for (const one of this.buttons || []) {
      setAttribute(one, "aria-disabled", this.sent && "true");
      setAttribute(one, "data-pressed", Boolean(this.sent) && one === this.pressed);
    }
    this.note.readOnly = Boolean(this.sent);
    this.#drawAge();
  }

  #drawAge() {
    const { at } = this.approval || {};
    stopCounting(this.age);
    if (this.sent) write(this.age, "your answer is on its way");
    else if (at) count(this.age, () => `asked ${counting(since(at))} ago`);
  }
}

/**
 * What wants to run: a command, or a file and what becomes of it.
 * @param {string} tool @param {import("./items.js").Item | undefined} item @param {import("./items.js").Context} context
 * @returns {HTMLElement[]}
 */
function what(tool, item, context) {
  const line = lineOf(tool, item);
  const diff = diffOf(tool, item?.args);
  if (diff?.length) return [el("div", { class: "of" }, el("code", { dir: "auto" }, line), el("span", { class: "sizes num" }, ...sizesOf(diff))), drawDiff(diff, true)];
  const inFull = tool === "shell" ? "" : callInFull(tool, item?.args);
  const code = (/** @type {string} */ text) => {
    const pre = el("pre", { class: "command", dir: "auto", tabindex: "0", "aria-label": "In full" });
    words(pre, text, context);
    return pre;
  };
  if (!inFull) return [code(line)];
  return [el("code", { dir: "auto" }, line), code(inFull)];
}

/** As one would type it; where the call was asked for before the loaded part began, the narrowest rule says it, too. @param {string} tool @param {import("./items.js").Item | undefined} item @returns {string} */
function lineOf(tool, item) {
  if (item?.args !== undefined) return callLine(tool, item.args);
  const rule = item?.approval?.offers?.[0];
  return rule ? ruleWords(rule).join(" ") : "What it is stands further up.";
}
