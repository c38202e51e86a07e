/**
 * The timeline: draws what the view stamped anew, once per frame, without ever drawing the whole again, and hardly more in a
 * frame than leaves room for a key or a press. Text the reader has scrolled up to stays where it is; at the end, it
 * follows.
 */
import { write } from "../dom.js";
import { Blocks } from "./blocks.js";

/** @typedef {import("./view.js").View} View */

const NEAR_END_PX = 48;
/** For drawing in one frame, of which the browser's own layout takes as long again; the rest comes in the next ones. */
const FRAME_MS = 30;

export class Timeline {
  /**
   * @param {{ place: HTMLElement, column: HTMLElement, view: View, pill: HTMLButtonElement, more: HTMLElement,
   *   asks: HTMLElement, context: import("./items.js").Context, onDrawn: () => void, onEnd: () => void }} options `onEnd`: somebody wants the newest
   */
  constructor({ place, column, view, pill, more, asks, context, onDrawn, onEnd }) {
    this.place = place;
    this.column = column;
    this.view = view;
    this.pill = pill;
    this.more = more;
    /** What is pinned at the end. */
    this.asks = asks;
    this.blocks = new Blocks(context);
    this.onDrawn = onDrawn;
    /** The newest part is shown, whose end can be followed. */
    this.follows = true;
    /** Called before each drawing, to keep what is shown bounded. */
    this.bound = () => {};
    /** Called when all of it is drawn. */
    this.onWhole = () => {};
    /** What somebody went to while not all is drawn: it stays where it is while the rest comes. @type {{ element: Element, block: ScrollLogicalPosition, top: number } | null} */
    this.shown = null;
    /** The block of a new part that somebody goes to. @type {string | undefined} */
    this.wanted = undefined;
    /** Blocks that are no news, until they are drawn. */
    this.known = keys(view);
    this.news = false;
    this.drawn = this.blocks.drawn;
    this.unseen = 0;
    this.scheduled = false;
    this.atEnd = true;
    this.lastTop = 0;
    /** What was there before is not news: nothing is spoken until the page has caught up. */
    this.speaks = false;
    place.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    document.addEventListener("visibilitychange", () => document.hidden && this.scheduled && this.#soon());
    const fitted = new ResizeObserver(() => this.atEnd && this.toEnd());
    for (const element of [place, column]) fitted.observe(element); // also what grows after it was drawn: pictures, what comes into sight
    pill.addEventListener("click", () => onEnd());
    column.addEventListener("click", (event) => this.#unfolded(event));
    this.covered = 0;
    this.pinned = 0;
  }

  /**
   * Something stands over the top of the timeline: there is room to scroll from under it, and what one reads stays where
   * it is on the screen, at the end as elsewhere. Where it stood there as the page began, nobody had read anything yet:
   * what has room below it begins there.
   * @param {number} px its height; 0: nothing @param {boolean} [read] false: the page begins
   */
  cover(px, read = true) {
    const more = px - this.covered;
    if (!more) return;
    if (!this.covered) this.column.toggleAttribute("data-read", read);
    const { scrollTop } = this.place; // before the browser fits it to the new height
    this.covered = px;
    this.#keepRoom("--covered", px);
    if (this.atEnd) this.toEnd();
    else this.place.scrollTop = scrollTop + more;
  }

  /**
   * Something stands pinned at the end of the timeline: at the end one sees it whole, and the pill stands above it.
   * @param {number} px its height; 0: nothing
   */
  pin(px) {
    this.pinned = px;
    this.#keepRoom("--pinned", px);
    this.pill.toggleAttribute("data-asked", px > 0 && !this.asks.classList.contains("read"));
    if (this.atEnd) this.toEnd();
    this.#lift();
  }

  /** The pill stands above what is pinned, which is less than all of it. */
  #lift() {
    const top = this.asks.querySelector(".ask")?.getBoundingClientRect().top;
    this.#keepRoom("--shown", top === undefined ? 0 : Math.round(this.asks.getBoundingClientRect().bottom - top));
  }

  /** Told to those that keep it, as nobody inherits it: or the style of all that is drawn would be made anew. @param {string} name @param {number} px */
  #keepRoom(name, px) {
    for (const element of [this.place, this.column, this.pill, this.asks]) element.style.setProperty(name, `${px}px`);
  }

  /** Something happened: draw on the next frame. */
  schedule() {
    this.news = true;
    this.#next();
  }

  /** A hidden page has no frames: then soon. */
  #next() {
    if (this.scheduled) return;
    this.scheduled = true;
    if (document.hidden) this.#soon();
    else requestAnimationFrame(() => this.#frame());
  }

  #soon() {
    setTimeout(() => this.#frame(), 100);
  }

  #frame() {
    if (!this.scheduled) return; // drawn by now: the page was hidden meanwhile
    this.scheduled = false;
    const { news } = this;
    this.news = false;
    this.#draw();
    if (news) this.onDrawn();
  }

  /** Draw now what is in sight; the rest, and what stands around it, on the next frames. */
  draw() {
    this.#draw();
    this.schedule();
  }

  /** Whether something is yet to be drawn. */
  get partial() {
    return this.view.dirty.size > 0;
  }

  #draw() {
    this.#keepingPlace(() => {
      this.bound();
      this.#placeBlocks();
      const wanted = this.wanted && this.drawn.get(this.wanted);
      if (wanted) this.shown = { element: wanted.element, block: "start", top: 0 };
      this.wanted = undefined;
      this.#drawStamped();
    });
    this.#showPill();
    if (this.partial) this.#next();
    else this.#whole();
  }

  #whole() {
    if (this.shown) {
      this.shown = null;
      this.#scrolled();
    }
    this.known.clear();
    if (this.speaks && this.column.getAttribute("aria-live") === "off") setTimeout(() => this.partial || this.column.setAttribute("aria-live", "polite"), 500);
    this.onWhole();
  }

  /** The page has caught up: what comes from now on is news. */
  speak() {
    this.speaks = true;
    if (!this.partial) this.#whole();
  }

  /** What is in sight first: from the end up, or from where one reads on, and then what is above. */
  #drawStamped() {
    const until = performance.now() + FRAME_MS;
    const { dirty } = this.view;
    const blocks = this.view.blocks.flatMap((block) => (block.kind === "turn" && dirty.has(block.key) ? [block] : []));
    const shown = this.atEnd ? blocks.length : Math.max(0, blocks.findIndex((block) => this.#isBelow(block.key)));
    for (const id of [...dirty]) if (!this.drawn.has(id)) dirty.delete(id);
    const order = [...blocks.slice(shown).map((block) => ({ block, up: false })), ...blocks.slice(0, shown).reverse().map((block) => ({ block, up: true }))];
    let drawn = 0;
    for (const { block: { key, turn }, up } of order) {
      const { added, whole } = /** @type {import("./blocks.js").BlockDom} */ (this.drawn.get(key)).drawTurn(turn, until, up);
      if (!this.known.has(key)) this.unseen += added;
      if (whole) dirty.delete(key);
      drawn += 1;
      if (drawn > 1 && performance.now() > until) break; // what takes long each time keeps nothing else away
    }
  }

  /** At or below the first thing in sight, or what is shown. @param {string} key */
  #isBelow(key) {
    const element = this.drawn.get(key)?.element;
    if (!element) return false;
    const from = this.shown?.element;
    if (from) return element.contains(from) || Boolean(from.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING);
    return element.getBoundingClientRect().bottom > this.place.getBoundingClientRect().top + this.covered;
  }

  /**
   * Show another part, drawn with the next drawing.
   * @param {View} view @param {boolean} follows it is the newest @param {string} [from] the turn that is wanted: it is drawn first
   */
  use(view, follows, from) {
    this.view = view;
    this.follows = follows;
    this.wanted = from;
    this.known = keys(view);
    this.column.setAttribute("aria-live", "off"); // what comes is no news
    if (!follows) this.atEnd = false;
    for (const id of view.turns.keys()) view.dirty.add(id);
  }

  toEnd() {
    this.shown = null;
    this.#fitEnd();
    this.#scrolled();
  }

  /** No reader has scrolled up where less was drawn than before, though the event that tells comes once there is more again. */
  #fitEnd() {
    this.place.scrollTop = this.place.scrollHeight;
    this.lastTop = this.place.scrollTop;
  }

  /** @param {string} key of a block @returns {boolean} whether it is there */
  show(key) {
    const block = this.drawn.get(key);
    if (!block) return false;
    this.#goTo(block.element, "start");
    /** @type {HTMLElement} */ (block.element).focus({ preventScroll: true });
    return true;
  }

  /** What ended a turn that is there. @param {string} turn */
  showEnd(turn) {
    this.#drawNow(turn);
    const [end] = [...(this.drawn.get(turn)?.element.querySelectorAll(":scope > .rule") || [])].slice(-1);
    if (end) this.#goTo(end, "center");
  }

  /** The card of a delegate, unfolded with all it stands in. @param {string} loop */
  showAgent(loop) {
    const path = [];
    let top = "";
    for (let id = loop, place = this.view.places.get(id); place; id = place.parent, place = this.view.places.get(id)) {
      path.unshift(id);
      top = place.turn;
    }
    this.#drawNow(top);
    for (const id of path) this.#open(id, top);
    const card = document.getElementById(`agent-${loop}`);
    if (!card) return;
    this.#goTo(card, "start");
    card.focus({ preventScroll: true });
  }

  /** @param {Element} element @param {ScrollLogicalPosition} block */
  #goTo(element, block) {
    this.atEnd = false; // before anything is drawn again: no scroll event has told it yet
    this.shown = { element, block, top: 0 };
    this.#toShown();
    if (!this.partial) this.shown = null;
    this.#scrolled();
  }

  #toShown() {
    if (!this.shown?.element.isConnected) return;
    this.shown.element.scrollIntoView({ block: this.shown.block });
    this.shown.top = this.place.scrollTop;
  }

  /** All of a turn that is there. @param {string} id */
  #drawNow(id) {
    const turn = this.view.turns.get(id);
    if (turn && this.view.dirty.delete(id)) this.drawn.get(id)?.drawTurn(turn);
  }

  /** @param {string} loop @param {string} top the turn its card stands in */
  #open(loop, top) {
    const agent = this.view.agents.get(loop);
    const work = /** @type {HTMLDetailsElement | null | undefined} */ (document.getElementById(`agent-${loop}`)?.querySelector(":scope > .work"));
    if (!agent || !work) return;
    work.open = true;
    this.view.touchAgent(agent);
    this.#drawNow(top);
  }

  /** Whoever opens a long text reads it from there: new things do not take one to the end. @param {Event} event */
  #unfolded(event) {
    if (!(/** @type {Element} */ (event.target).closest(".fold, summary"))) return;
    requestAnimationFrame(() => {
      const { scrollTop, scrollHeight, clientHeight } = this.place;
      this.atEnd = this.follows && scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
      this.#showPill();
    });
  }

  #placeBlocks() {
    for (const block of this.blocks.place(this.view.blocks, this.column, this.more)) {
      if (block.kind === "turn") this.view.dirty.add(block.key);
      else if (!block.item.hidden && !this.known.has(block.key)) this.unseen += 1;
    }
  }

  /** @param {() => void} change what is seen stays at its place, or follows the end */
  #keepingPlace(change) {
    const anchor = this.atEnd || this.shown || this.wanted ? null : this.#anchor(); // what is wanted takes the place of what is in sight
    const before = anchor?.getBoundingClientRect().top || 0;
    change();
    if (this.atEnd) this.#fitEnd();
    else if (this.shown) this.#toShown();
    else if (anchor?.isConnected) this.place.scrollTop += anchor.getBoundingClientRect().top - before;
  }

  /** The first thing in sight, also within the card of a delegate. @returns {Element | null} */
  #anchor() {
    const top = this.place.getBoundingClientRect().top + this.covered;
    const below = (/** @type {Element} */ element) => element.getBoundingClientRect().bottom > top;
    let found = [...this.column.children].find((child) => child !== this.more && !["asks", "later"].includes(child.id) && below(child)) || null;
    while (found?.matches(".turn, .agent, .work, .inside")) {
      const inner = [...found.children].find((child) => child.localName !== "header" && below(child)); // a header moves with what comes before its steps
      if (!inner) break;
      found = inner;
    }
    return found;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.place;
    if (this.shown && Math.abs(scrollTop - this.shown.top) > 1) this.shown = null; // the reader went elsewhere
    if (this.shown) this.atEnd = false; // what is below may not be drawn yet
    else if (this.follows && scrollHeight - scrollTop - clientHeight < NEAR_END_PX) this.atEnd = true;
    else if (scrollTop < this.lastTop) this.atEnd = false; // only a reader scrolls up; a growing dock does not
    this.lastTop = scrollTop;
    const up = scrollHeight - scrollTop - clientHeight > this.pinned; // what is pinned is out of sight where it stands
    if (up !== this.asks.hasAttribute("data-up")) {
      this.asks.toggleAttribute("data-up", up);
      this.#lift();
    }
    if (this.atEnd) this.unseen = 0;
    this.#showPill();
  }

  #showPill() {
    if (this.atEnd) this.unseen = 0;
    this.pill.hidden = this.atEnd;
    if (!this.atEnd) write(this.pill, this.unseen ? `${this.unseen} new` : "To the newest");
  }
}

/** @param {View} view */
const keys = (view) => new Set(view.blocks.map((block) => block.key));
