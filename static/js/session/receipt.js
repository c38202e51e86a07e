/**
 * The stop receipt: one event, the same on every screen. Asked, then the worker got it, then everything ended; it never
 * says stopped before the terminal event says so.
 */
import { button, el, fill, setAttribute } from "../dom.js";
import { REASONS, actorName, apart, count as countOf, duration, fromDevice, startOf } from "../words.js";
import { count, since } from "../clock.js";
import { when } from "./items.js";
import { background } from "./agents.js";
import { doubts, endedWords, gotIt, isOver, numbersOf, unproven } from "./stops.js";
import { firstPaused, textOf } from "./queue.js";
import { waiting } from "./strip.js";

/** @typedef {import("./view.js").StopView} StopView @typedef {import("./state.js").State} State @typedef {import("./stops.js").Numbers} Numbers */
/** @typedef {{ held: number, next: string, left: number, runs: boolean, waits: { inputs: number, all: number }, doubt: boolean }} Paused how many messages, the start of the one
 *   that would go on first, how many processes run in the background, whether any agent runs, and how many messages wait for a turn, and at all */

/** How long a receipt that nobody put away stays once something runs again. */
const LINGER_MS = 12_000;
/** A stop that ended this recently is still shown by a page that is opened now. */
const RECENT_MS = 60_000;

export class Receipt {
  /**
   * @param {{ place: HTMLElement, you: { id: string, can: string[] }, actions: { sendNext: () => void, giveBack: () => void,
   *   giveReason: (turn: string, reason: string) => Promise<boolean> } }} options `giveReason`: whether it was done
   */
  constructor({ place, you, actions }) {
    this.place = place;
    this.you = you;
    this.actions = actions;
    /** @type {Set<string>} stops whose receipt was put away on this page */
    this.dismissed = new Set();
    /** @type {Set<string>} stops whose receipt one has unfolded on a small screen */
    this.opened = new Set();
    this.drawn = "";
    this.typing = "";
    /** The stop whose reason one corrects. */
    this.changing = "";
    this.redraw = () => {};
    /** The one delegate that the stop is about; empty: all agents. */
    this.only = "";
  }

  /** @param {{ state: State, view: import("./view.js").View }} now */
  draw({ state, view }) {
    this.redraw = () => this.draw({ state, view });
    const stop = [...view.stops.values()].filter(({ event }) => event.data.turns.length && !event.data.cause).pop(); // nobody asked for what ended with its parent
    const shown = stop && this.#wanted(stop, state) ? stop : null;
    this.place.hidden = !shown;
    if (!shown) {
      this.drawn = "";
      return;
    }
    const { scope } = shown.event.data;
    this.only = scope === "session" || scope === view.main ? "" : view.nameOf(scope);
    const { held, inputs, steers } = waiting(state);
    const waits = { inputs, all: held + inputs + steers };
    const next = startOf(textOf(view, firstPaused(state)?.id || ""));
    const reason = this.#reasonOf(shown, view);
    const left = background(state).length;
    const runs = Object.values(state.loops).some((loop) => loop.turn);
    const mark = JSON.stringify([shown.event.seq, [...shown.acknowledged], shown.ends.map((end) => end.seq), numbersOf(shown), doubts(view, shown), held, next, left, runs, reason, waits]);
    if (mark === this.drawn) return;
    this.drawn = mark;
    const back = this.#focused();
    fill(this.place, this.#element(shown, { held, next, left, runs, waits, doubt: doubts(view, shown) }, reason));
    back();
  }

  /** Whoever writes a reason while the receipt is drawn anew goes on writing, or can change what they have written. @returns {() => void} gives the focus back */
  #focused() {
    const input = document.activeElement;
    if (!input?.closest(".why, .reasons") || !this.place.contains(input)) return () => {};
    const typed = input instanceof HTMLInputElement ? [input.selectionStart, input.selectionEnd] : null;
    return () => {
      const now = /** @type {HTMLInputElement | HTMLButtonElement | null} */ (this.place.querySelector(".why button, .reasons input"));
      now?.focus({ preventScroll: true });
      if (typed && now instanceof HTMLInputElement) now.setSelectionRange(typed[0], typed[1]);
    };
  }

  /** @param {StopView} stop @param {State} state */
  #wanted(stop, state) {
    const { request, turns } = stop.event.data;
    if (this.dismissed.has(request)) return false;
    if (state.requests[request]) return true;
    const last = stop.ends[stop.ends.length - 1];
    if (!last) return false;
    const age = since(last.at);
    const runsAgain = Object.values(state.loops).some((loop) => loop.turn && !turns.includes(loop.turn.id));
    return age < (runsAgain ? LINGER_MS : RECENT_MS) || (!runsAgain && this.drawn !== "");
  }

  /** @param {StopView} stop @param {import("./view.js").View} view @returns {string} */
  #reasonOf(stop, view) {
    const later = stop.ends.map((end) => view.turns.get(end.turn || "")?.reason).find(Boolean);
    const reason = later || stop.event.data.reason;
    return typeof reason === "string" ? reason : "";
  }

  /** @param {StopView} stop @param {Paused} paused @param {string} reason */
  #element(stop, paused, reason) {
    const numbers = numbersOf(stop);
    const over = isOver(stop);
    const receipt = el("section", { class: "receipt", "aria-label": "Stop receipt" }, this.#stages(stop, over, numbers, paused), this.#whatWaits(stop, over, numbers, paused));
    if (over && !unproven(numbers) && !numbers.ending) receipt.prepend(this.#brief(stop, receipt, numbers, paused));
    if (over) {
      receipt.dataset.seq = String(stop.ends[stop.ends.length - 1].seq);
      receipt.append(this.#reason(stop, reason));
    } else if (reason) receipt.append(why(reason));
    receipt.append(button("Close the receipt", () => this.#dismiss(stop), { kind: "quiet close", iconName: "close" }));
    setAttribute(receipt, "data-over", over);
    return receipt;
  }

  /** Its one line on a small screen, until one wants more. @param {StopView} stop @param {HTMLElement} receipt @param {Numbers} numbers @param {Paused} paused */
  #brief(stop, receipt, numbers, paused) {
    const { request } = stop.event.data;
    const what = this.only ? `${this.only.charAt(0).toUpperCase()}${this.only.slice(1)} has ended` : this.#ended(stop, paused);
    const more = button("", () => {
      if (!this.opened.delete(request)) this.opened.add(request);
      show();
    }, { kind: "quiet brief" });
    fill(more, el("span", {}, `${what}, stopped by ${actorName(stop.event.actor)}: ${endedWords(numbers)}`)); // one piece: the line itself is laid out as a row
    const show = () => {
      setAttribute(receipt, "data-open", this.opened.has(request));
      more.setAttribute("aria-expanded", String(this.opened.has(request)));
    };
    show();
    return more;
  }

  /** That all is over, which it is not where something was kept on purpose (E13). @param {StopView} stop @param {Paused} paused */
  #ended({ event }, { left }) {
    return event.data.keep_background && left ? "All agents ended" : "Everything ended";
  }

  /** @param {StopView} stop @param {boolean} over @param {Numbers} numbers @param {Paused} paused */
  #stages(stop, over, numbers, paused) {
    const { event, acknowledged } = stop;
    const got = [...acknowledged.values()];
    const heard = over ? numbers.acknowledged_ms !== null : got.length > 0 && got.length >= event.data.turns.length;
    const all = over && !numbers.ending; // what ran in the background ends with it (E13)
    const hit = Object.values(event.data.phases || {}).includes("gate") && ", while it waited for approval";
    return el(
      "ol", {},
      stage("Asked", true, el("span", {}, `${actorName(event.actor)}${fromDevice(event.actor) && `,${fromDevice(event.actor)}`}, `, when(event.at, true), hit)),
      stage(heard ? "Worker got it" : "On its way to the worker", heard, over ? words(gotIt(numbers)) : heard ? words(duration(Math.max(...got))) : counted(event.at)),
      stage(!all ? "Ending what runs" : unproven(numbers) ? "The turn ended" : this.only ? "It has ended" : this.#ended(stop, paused), all, all ? words(endedWords(numbers)) : counted(event.at)),
    );
  }

  /** @param {StopView} stop @param {boolean} over @param {Numbers} numbers @param {Paused} paused */
  #whatWaits(stop, over, numbers, { held, next, left, runs, waits, doubt }) {
    const { event } = stop;
    const kept = event.data.keep_background && left ? `${countOf(left, "process runs", "processes run")} on in the background, as asked. ` : "";
    if (this.only && !held && !unproven(numbers)) return el("p", {}, `Only ${this.only}${over ? " was stopped" : ""}${runs ? "; the other agents go on" : ""}.`, over && kept && ` ${kept}`);
    if (!over) return el("p", {}, before(event.data.queue, waits));
    const line = el("p", {}, doubt ? el("b", { class: "bad" }, held ? "Processes may still be running, so everything that waits is paused. " : "Processes may still be running. ") : null, kept, after(held, waits.inputs));
    if (!held || !this.you.can.includes("release")) return line;
    return el("div", { class: "acts start" }, line,
      button("Send next", this.actions.sendNext, { name: `Send next: ${next}` }),
      button(held === 1 ? "Give back" : "Give all back", this.actions.giveBack, { name: held === 1 ? `Give back: ${next}` : `Give all back: ${held} paused messages, to their authors` }),
      button(held === 1 ? "Leave it paused" : "Leave them paused", () => this.#dismiss(stop)));
  }

  /** Why, afterwards, by whoever pressed. @param {StopView} stop @param {string} reason */
  #reason(stop, reason) {
    const turn = stop.ends[stop.ends.length - 1].turn; // the agent's own end comes after those below it
    const { request } = stop.event.data;
    const mine = stop.event.actor.id === this.you.id && Boolean(turn);
    if (reason && (!mine || this.changing !== request)) {
      const change = mine && button("Change", () => {
        this.changing = request;
        this.typing = reason;
        this.drawn = "";
        this.redraw();
        this.place.querySelector("input")?.select();
      }, { kind: "quiet", name: "Change the reason" });
      return change ? el("div", { class: "acts start why" }, why(reason), change) : why(reason);
    }
    if (!mine || !turn) return "";
    const give = async (/** @type {string} */ words) => {
      if (!words.trim()) return;
      if (words.trim() !== reason && !(await this.actions.giveReason(turn, words.trim()))) return; // what one wrote stays
      this.changing = this.typing = "";
      this.drawn = "";
      this.redraw();
    };
    const input = el("input", {
      "aria-label": "Another reason", placeholder: "Another reason", maxlength: "400", dir: "auto", value: this.typing,
      on: {
        input: () => (this.typing = input.value),
        keydown: (event) => {
          if (event.key === "Enter" && !event.isComposing) void give(input.value);
          if (event.key !== "Escape" || !this.changing) return;
          event.stopPropagation(); // it leaves the correction, and stops nothing
          this.changing = this.typing = this.drawn = "";
          this.redraw();
        },
      },
    });
    return el("div", { class: "reasons", role: "group", "aria-label": "Why did you stop it?" }, el("span", {}, "Why?"), ...REASONS.map((words) => button(words, () => void give(words))), input);
  }

  /** @param {StopView} stop */
  #dismiss(stop) {
    this.dismissed.add(stop.event.data.request);
    this.place.hidden = true;
    this.drawn = "";
  }
}

/** @param {string} reason */
const why = (reason) => el("p", { class: "prose" }, `Why: “${apart(reason)}”`);

/** @param {string} name @param {boolean} done @param {HTMLElement} value */
const stage = (name, done, value) => el("li", { "data-done": done }, el("b", {}, name), value);

/** @param {string} text */
const words = (text) => el("span", { class: "num" }, text);

/** Counts up until the next thing is known. @param {string} at */
function counted(at) {
  const element = el("span", { class: "num" });
  count(element, () => `${duration(Math.floor(since(at) / 100) * 100)} so far`);
  return element;
}

/** What comes after the end, of what waits. @param {string} queue @param {Paused["waits"]} waits */
function before(queue, { inputs, all }) {
  if (!(queue === "run" ? inputs : all)) return "When it has ended, nothing starts by itself.";
  if (queue === "run") return "When it has ended, the next waiting message starts.";
  if (queue === "clear") return "When it has ended, waiting messages go back to their authors.";
  return "When it has ended, waiting messages stay paused and nothing starts by itself.";
}

/** @param {number} held @param {number} inputs what waits and is not paused */
function after(held, inputs) {
  if (held) return `${countOf(held, "message stays", "messages stay")} paused, nothing starts by itself.`;
  if (inputs) return `${countOf(inputs, "message waits", "messages wait")} and will start without anybody’s doing.`;
  return "The conversation and all finished steps are kept. No message waits.";
}
