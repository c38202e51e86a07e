/** Blocks in order, the main agent's or a delegate's: each is made once and then redrawn where it was stamped anew. */
import { el, fill, setAttribute, write } from "../dom.js";
import { actorName, counting, duration, hue, money } from "../words.js";
import { count, since, stopCounting } from "../clock.js";
import { agentCard } from "./agent_card.js";
import { DRAWINGS, when } from "./items.js";

/** @typedef {import("./view.js").Block} Block @typedef {import("./view.js").TurnView} TurnView @typedef {import("./view.js").Item} Item */

export class Blocks {
  /** @param {import("./items.js").Context} context */
  constructor(context) {
    this.context = context;
    /** @type {Map<string, BlockDom>} */
    this.drawn = new Map();
  }

  /**
   * Put every block at its place, and draw the notes among them.
   * @param {Block[]} blocks @param {HTMLElement} column @param {Element | null} [before] what the first one stands behind
   * @returns {Block[]} those that are new
   */
  place(blocks, column, before = null) {
    const wanted = new Set();
    const added = [];
    for (const block of blocks) {
      wanted.add(block.key);
      const known = this.drawn.get(block.key);
      const dom = known || new BlockDom(block, this.context);
      if (!known) {
        this.drawn.set(block.key, dom);
        added.push(block);
      }
      if (block.kind === "note") dom.drawNote(block.item);
      /** @type {Element | null} */
      const next = before ? before.nextElementSibling : column.firstElementChild;
      if (next !== dom.element) before ? before.after(dom.element) : column.prepend(dom.element);
      before = dom.element;
    }
    for (const [key, dom] of this.drawn) {
      if (wanted.has(key)) continue;
      dom.element.remove();
      this.drawn.delete(key);
    }
    return added;
  }

  /** Draw all of them. @param {Block[]} blocks @param {HTMLElement} column */
  draw(blocks, column) {
    this.place(blocks, column);
    for (const block of blocks) if (block.kind === "turn") this.drawn.get(block.key)?.drawTurn(block.turn);
  }
}

/** Nobody has it, and no delegate works for it. @param {TurnView} turn */
export const waitsForWorker = (turn) => turn.status === "running" && turn.phase?.is === "waiting" && !turn.items.some((item) => item.child && item.state === "running");

/** One block on the page: a turn with its items, or a note between turns. */
export class BlockDom {
  /** @param {import("./view.js").Block} block @param {import("./items.js").Context} context */
  constructor(block, context) {
    this.context = context;
    /** @type {Map<string, { drawing: import("./items.js").Drawing, stamp: number }>} */
    this.items = new Map();
    if (block.kind === "note") {
      this.note = DRAWINGS.note(context);
      this.noted = -1;
      this.element = this.note.element;
    } else {
      this.header = el("header");
      this.element = el("section", { class: "turn", id: `turn-${block.key}`, tabindex: "-1" }, this.header);
    }
    this.headed = "";
    this.drawnStamp = -1;
  }

  /** @param {Item} item */
  drawNote(item) {
    if (item.stamp === this.noted) return;
    this.noted = item.stamp;
    this.note?.draw(item);
  }

  /**
   * @param {TurnView} turn @param {number} [until] by `performance.now()`: what is left then waits for the next time
   * @param {boolean} [up] from its last item up
   * @returns {{ added: number, whole: boolean }} how many items are new, and whether nothing is left
   */
  drawTurn(turn, until = Infinity, up = false) {
    if (turn.stamp === this.drawnStamp) return { added: 0, whole: true };
    this.#drawHeader(turn);
    let added = 0;
    let left = turn.items.length;
    /** @type {Element | null} the one drawn before this one */
    let beside = up ? null : /** @type {Element} */ (this.header);
    let drawn = 0;
    for (const item of up ? [...turn.items].reverse() : turn.items) {
      if (drawn > 1 && performance.now() > until) break; // what takes long each time keeps nothing else away
      const known = this.items.get(item.key);
      const entry = known || { drawing: this.#drawing(item), stamp: -1 };
      if (!known) {
        this.items.set(item.key, entry);
        added += 1;
      }
      if (entry.stamp !== item.stamp) {
        entry.drawing.draw(item);
        entry.stamp = item.stamp;
        drawn += 1;
      }
      this.#put(entry.drawing.element, beside, up);
      beside = entry.drawing.element;
      left -= 1;
    }
    if (left) return { added, whole: false };
    this.drawnStamp = turn.stamp;
    if (this.items.size > turn.items.length) this.#dropGone(turn);
    return { added, whole: true };
  }

  /** @param {Element} element @param {Element | null} beside what it stands behind, or before; null: it is the last one @param {boolean} before */
  #put(element, beside, before) {
    if (!before) {
      if (beside?.nextElementSibling !== element) beside?.after(element);
    } else if (beside ? beside.previousElementSibling !== element : this.element.lastElementChild !== element) this.element.insertBefore(element, beside);
  }

  /** A delegate's card holds a timeline of its own. @param {Item} item @returns {import("./items.js").Drawing} */
  #drawing(item) {
    return item.tool === "delegate" ? agentCard(this.context, new Blocks(this.context)) : DRAWINGS[item.kind](this.context);
  }

  /** @param {TurnView} turn */
  #dropGone(turn) {
    for (const [key, entry] of this.items) {
      if (turn.keys.has(key)) continue;
      entry.drawing.element.remove();
      this.items.delete(key);
    }
  }

  /** @param {TurnView} turn */
  #drawHeader(turn) {
    const header = /** @type {HTMLElement} */ (this.header);
    const mark = [turn.index, turn.by?.id, turn.at, turn.status, turn.endedAt, turn.cost, turn.headless, turn.goesOn].join("|");
    if (mark === this.headed) return;
    this.headed = mark;
    const length = el("span", { class: "num" });
    if (turn.goesOn) stopCounting(length);
    else if (turn.at && !turn.endedAt) count(length, () => waitsForWorker(turn) ? "waits for a worker" : `${turn.status === "stopping" ? "stopping, " : "running "}${counting(since(/** @type {string} */ (turn.at)))}`);
    else if (turn.at && turn.endedAt) write(length, duration(turn.end?.data.duration_ms ?? Date.parse(turn.endedAt) - Date.parse(turn.at)));
    else stopCounting(length);
    fill(
      header,
      el("b", {}, turn.index === null ? "Turn" : `Turn ${turn.index}`),
      turn.by && el("bdi", { class: turn.by.kind === "above" ? "strong" : `who ${hue(turn.by.id)}` }, actorName(turn.by)),
      turn.at && when(turn.at),
      length,
      money(turn.cost) !== "" && el("span", { class: "num" }, money(turn.cost)),
      (turn.at === null || turn.headless) && el("span", {}, "its beginning is further up"),
      turn.goesOn && el("span", {}, "it goes on further down"),
    );
    setAttribute(/** @type {Element} */ (this.element), "data-is", turn.goesOn ? "part" : turn.status);
    setAttribute(/** @type {Element} */ (this.element), "aria-label", turn.index === null ? "A turn" : `Turn ${turn.index}`);
  }
}
