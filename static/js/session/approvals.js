/**
 * The open approvals, at the end of the timeline and pinned above the dock while one reads further up. They are drawn
 * from the log alone: an answer takes a card away on every screen, whoever gave it.
 */
import { el, write } from "../dom.js";
import { Refused } from "../rest.js";
import { apart } from "../words.js";
import { Card } from "./approval_card.js";
import { asked } from "./strip.js";
import { callKey } from "./view_rules.js";

/** So many stand pinned in brief, as the stylesheet has it; the others are counted. */
const PINNED = 3;

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View */

export class Approvals {
  /**
   * @param {{ place: HTMLElement, mayAnswer: boolean, connection: import("./socket.js").Connection, view: View,
   *   context: import("./items.js").Context, show: () => void, tell: (text: string) => void, keep: (text: string) => boolean, leave: () => void }} options
   *   `show`: go to where the cards stand, `tell`: say something that needs no card, `keep`: put words in the message box if it is empty, `leave`: where the
   *   focus goes from a card that goes away
   */
  constructor({ place, mayAnswer, connection, view, context, show, tell, keep, leave }) {
    this.place = place;
    this.mayAnswer = mayAnswer;
    this.connection = connection;
    this.view = view;
    this.context = context;
    this.show = show;
    this.tell = tell;
    this.keep = keep;
    this.leave = leave;
    /** @type {Map<string, Card>} by gate */
    this.cards = new Map();
    /** Of how many cards there is no more than this while they are pinned. */
    this.rest = el("p", { class: "rest muted small" });
  }

  /** @param {State} state */
  draw(state) {
    const open = asked(state);
    const gates = new Set(open.map(({ call }) => call.gate || ""));
    for (const [gate, card] of this.cards) if (!gates.has(gate)) this.#gone(gate, card);
    for (const { loop, turn, call } of open) {
      const gate = call.gate || "";
      if (this.cards.has(gate)) continue;
      const item = this.view.turns.get(turn.id)?.keys.get(callKey(turn.step, call.call));
      const card = new Card({
        gate, tool: call.tool, item, agent: loop.parent ? this.view.nameOf(loop.id) : "", context: this.context,
        answer: this.mayAnswer ? (answered, choice) => void this.#answer(answered, choice) : null, forget: (id) => this.connection.forget(id), show: this.show,
      });
      this.cards.set(gate, card);
      this.place.append(card.element);
    }
    this.place.hidden = !open.length;
    const more = this.cards.size - PINNED;
    write(this.rest, more > 0 ? `and ${more} more` : "");
    if (more > 0) this.place.append(this.rest);
    else this.rest.remove();
  }

  /** To one card, or the first, for somebody at a keyboard or from a notification. @param {string} [gate] */
  focus(gate = "") {
    this.show();
    const card = this.cards.get(gate) || [...this.cards.values()][0];
    if (this.cards.size > 1) card?.element.scrollIntoView({ block: "nearest" });
    card?.element.focus({ preventScroll: true });
  }

  /** To the first card; from one of them to the one after it, so that an answer is for the one that has the focus. */
  focusNext() {
    const gates = [...this.cards.keys()];
    const at = gates.findIndex((gate) => this.cards.get(gate)?.element.contains(document.activeElement));
    this.focus(gates[(at + 1) % gates.length]);
  }

  /** A card goes; the words typed in it do not. While an answer is on its way, its outcome decides about them. @param {string} gate @param {Card} card */
  #gone(gate, card) {
    const focused = card.element.contains(document.activeElement);
    this.cards.delete(gate);
    const [next] = this.cards.values();
    if (focused) next ? next.element.focus({ preventScroll: true }) : this.leave();
    card.element.remove();
    if (!card.sent && card.typed) this.tell(`That is not asked any more. ${this.#keepNote(card)}`);
  }

  /** @param {Card} card @param {import("./approval_card.js").Choice} choice */
  async #answer(card, choice) {
    const frame = card.begin(choice);
    try {
      await this.connection.send(frame);
      card.received();
      if (!frame.message && card.typed) this.tell(`Allowed. ${this.#keepNote(card)}`);
    } catch (error) {
      const refused = /** @type {Refused} */ (error);
      card.refused(refused);
      if (refused.code === "gate_closed") this.tell(`${lateWords(refused)} Your answer changed nothing.${card.typed ? ` ${this.#keepNote(card)}` : ""}`);
    }
  }

  /** What was typed and has no card to stand in. @param {Card} card @returns {string} where it is */
  #keepNote(card) {
    const text = card.typed;
    card.typed = "";
    return this.keep(text) ? "Your note was not sent, it stands in the message box." : `Your note was not sent: “${apart(text)}”`;
  }
}

/** Who answered what before. @param {Refused} refused */
function lateWords({ data, detail }) {
  const by = typeof data.by === "string" ? apart(data.by) : "";
  if (by && data.decision === "allow") return `${by} has allowed it already.`;
  if (by && data.decision === "deny") return `${by} has denied it already.`;
  const why = /** @type {Record<string, string>} */ ({ stop: "It was stopped meanwhile.", steer: "An urgent message came first.", mode: "The mode was changed meanwhile." });
  return why[String(data.reason)] || detail;
}
