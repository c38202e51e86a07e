/**
 * The timeline: draws what the view stamped anew, once per frame, without ever drawing the whole again. Text the reader
 * has scrolled up to stays where it is; at the end, it follows.
 */
import { el, fill, setAttribute, write } from "../dom.js";
import { actorName, counting, duration, hue, money } from "../words.js";
import { count, since, stopCounting } from "../clock.js";
import { DRAWINGS, when } from "./items.js";

/** @typedef {import("./view.js").View} View @typedef {import("./view.js").TurnView} TurnView @typedef {import("./view.js").Item} Item */

const NEAR_END_PX = 48;
/** Turns and notes kept on the page; older ones come back when one scrolls up. */
const KEPT_BLOCKS = 400;

export class Timeline {
  /**
   * @param {{ place: HTMLElement, column: HTMLElement, view: View, pill: HTMLButtonElement, more: HTMLElement,
   *   context: import("./items.js").Context, onDrawn: () => void, onTrimmed: (oldest: number) => void }} options
   */
  constructor({ place, column, view, pill, more, context, onDrawn, onTrimmed }) {
    this.place = place;
    this.column = column;
    this.view = view;
    this.pill = pill;
    this.more = more;
    this.context = context;
    this.onDrawn = onDrawn;
    this.onTrimmed = onTrimmed;
    /** @type {Map<string, BlockDom>} */
    this.drawn = new Map();
    this.unseen = 0;
    this.scheduled = false;
    this.atEnd = true;
    this.lastTop = 0;
    place.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.atEnd && this.toEnd()).observe(place);
    pill.addEventListener("click", () => this.toEnd());
    column.addEventListener("click", (event) => this.#unfolded(event));
    this.covered = 0;
    this.pinned = 0;
  }

  /**
   * Something stands over the top of the timeline: there is room to scroll from under it, and what one reads stays where
   * it is on the screen, at the end as elsewhere.
   * @param {number} px its height; 0: nothing
   */
  cover(px) {
    const more = px - this.covered;
    if (!more) return;
    const { scrollTop } = this.place; // before the browser fits it to the new height
    this.covered = px;
    this.place.style.setProperty("--covered", `${px}px`);
    if (this.atEnd) this.toEnd();
    else this.place.scrollTop = scrollTop + more;
  }

  /**
   * Something stands pinned at the end of the timeline: at the end one sees it whole, and the pill stands above it.
   * @param {number} px its height; 0: nothing
   */
  pin(px) {
    this.pinned = px;
    this.place.style.setProperty("--pinned", `${px}px`);
    if (this.atEnd) this.toEnd();
  }

  /** Draw on the next frame (a hidden page has no frames: then soon). */
  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const draw = () => {
      this.scheduled = false;
      this.draw();
    };
    if (document.hidden) setTimeout(draw, 100);
    else requestAnimationFrame(draw);
  }

  draw() {
    this.#keepingPlace(() => {
      if (this.atEnd) this.#trim();
      this.#placeBlocks();
      for (const id of this.view.dirty) {
        const turn = this.view.turns.get(id);
        if (turn) this.unseen += this.drawn.get(id)?.drawTurn(turn) || 0;
      }
      this.view.dirty.clear();
    });
    this.#showPill();
    this.onDrawn();
  }

  toEnd() {
    this.place.scrollTop = this.place.scrollHeight;
    this.#scrolled();
  }

  /** @param {string} key of a block */
  show(key) {
    const block = this.drawn.get(key);
    if (!block) return;
    block.element.scrollIntoView({ block: "start" });
    block.element.focus({ preventScroll: true });
  }

  /** Whoever opens a long text reads it from there: new things do not take one to the end. @param {Event} event */
  #unfolded(event) {
    if (!(/** @type {Element} */ (event.target).closest(".fold, summary"))) return;
    requestAnimationFrame(() => {
      const { scrollTop, scrollHeight, clientHeight } = this.place;
      this.atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
      this.#showPill();
    });
  }

  #placeBlocks() {
    const wanted = new Set();
    let before = /** @type {Element} */ (this.more);
    for (const block of this.view.blocks) {
      wanted.add(block.key);
      let dom = this.drawn.get(block.key);
      if (!dom) {
        dom = new BlockDom(block, this.context);
        this.drawn.set(block.key, dom);
        if (block.kind === "turn") this.view.dirty.add(block.key);
        else if (!block.item.hidden) this.unseen += 1;
      }
      if (block.kind === "note") dom.drawNote(block.item);
      if (before.nextElementSibling !== dom.element) before.after(dom.element);
      before = dom.element;
    }
    for (const [key, dom] of this.drawn) {
      if (wanted.has(key)) continue;
      dom.element.remove();
      this.drawn.delete(key);
    }
  }

  #trim() {
    const oldest = this.view.trim(KEPT_BLOCKS);
    if (oldest) this.onTrimmed(oldest);
  }

  /** @param {() => void} change what is seen stays at its place, or follows the end */
  #keepingPlace(change) {
    const anchor = this.atEnd ? null : this.#anchor();
    const before = anchor?.getBoundingClientRect().top || 0;
    change();
    if (this.atEnd) this.place.scrollTop = this.place.scrollHeight;
    else if (anchor?.isConnected) this.place.scrollTop += anchor.getBoundingClientRect().top - before;
  }

  /** The first thing in sight. @returns {Element | null} */
  #anchor() {
    const top = this.place.getBoundingClientRect().top + this.covered;
    const below = (/** @type {Element} */ element) => element.getBoundingClientRect().bottom > top;
    const block = [...this.column.children].find((child) => child !== this.more && child.id !== "asks" && below(child));
    return [...(block?.children || [])].find(below) || block || null;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.place;
    if (scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.atEnd = true;
    else if (scrollTop < this.lastTop) this.atEnd = false; // only a reader scrolls up; a growing dock does not
    this.lastTop = scrollTop;
    this.place.toggleAttribute("data-up", scrollHeight - scrollTop - clientHeight > this.pinned); // what is pinned is out of sight where it stands
    if (this.atEnd) this.unseen = 0;
    this.#showPill();
  }

  #showPill() {
    if (this.atEnd) this.unseen = 0;
    this.pill.hidden = this.atEnd;
    if (!this.atEnd) write(this.pill, this.unseen ? `${this.unseen} new` : "To the newest");
  }
}

/** One block on the page: a turn with its items, or a note between turns. */
class BlockDom {
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
  }

  /** @param {Item} item */
  drawNote(item) {
    if (item.stamp === this.noted) return;
    this.noted = item.stamp;
    this.note?.draw(item);
  }

  /** @param {TurnView} turn @returns {number} how many items are new */
  drawTurn(turn) {
    this.#drawHeader(turn);
    let added = 0;
    let before = /** @type {Element} */ (this.header);
    for (const item of turn.items) {
      const known = this.items.get(item.key);
      const entry = known || { drawing: DRAWINGS[item.kind](this.context), stamp: -1 };
      if (!known) {
        this.items.set(item.key, entry);
        added += 1;
      }
      if (entry.stamp !== item.stamp) {
        entry.drawing.draw(item);
        entry.stamp = item.stamp;
      }
      if (before.nextElementSibling !== entry.drawing.element) before.after(entry.drawing.element);
      before = entry.drawing.element;
    }
    if (this.items.size > turn.items.length) this.#dropGone(turn);
    return added;
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
    const mark = [turn.index, turn.by?.id, turn.at, turn.status, turn.endedAt, turn.cost, turn.headless].join("|");
    if (mark === this.headed) return;
    this.headed = mark;
    const length = el("span", { class: "num" });
    if (turn.at && !turn.endedAt) count(length, () => `${turn.status === "stopping" ? "stopping, " : "running "}${counting(since(/** @type {string} */ (turn.at)))}`);
    else if (turn.at && turn.endedAt) write(length, duration(turn.end?.data.duration_ms ?? Date.parse(turn.endedAt) - Date.parse(turn.at)));
    else stopCounting(length);
    fill(
      header,
      el("b", {}, turn.index === null ? "Turn" : `Turn ${turn.index}`),
      turn.by && el("bdi", { class: `who ${hue(turn.by.id)}` }, actorName(turn.by)),
      turn.at && when(turn.at),
      length,
      money(turn.cost) !== "" && el("span", { class: "num" }, money(turn.cost)),
      (turn.at === null || turn.headless) && el("span", {}, "its beginning is further up"),
    );
    setAttribute(/** @type {Element} */ (this.element), "data-is", turn.status);
    setAttribute(/** @type {Element} */ (this.element), "aria-label", turn.index === null ? "A turn" : `Turn ${turn.index}`);
  }
}
