/** Older parts of the timeline, a page at a time as one scrolls up, and words that were said before the loaded part. */
import { call } from "../rest.js";

const PAGE = 400;
const WORDS_PAGE = 200;
/** Among so many calls before a settlement its start is found. */
const CALLS = 20;

export class Older {
  /**
   * @param {{ session: string, oldest: number, more: boolean, place: HTMLElement, scroller: HTMLElement, view: import("./view.js").View, draw: () => void }} options
   */
  constructor({ session, oldest, more, place, scroller, view, draw }) {
    this.session = session;
    this.oldest = oldest;
    this.place = place;
    this.view = view;
    this.draw = draw;
    this.loading = false;
    this.button = /** @type {HTMLButtonElement} */ (place.querySelector("button"));
    this.button.addEventListener("click", () => void this.load());
    this.#set(more);
    new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && void this.load(), { root: scroller, rootMargin: "400px 0px 0px" }).observe(place);
  }

  /** The page let go of its oldest part. @param {number} oldest */
  trimmed(oldest) {
    this.oldest = oldest;
    this.#set(true);
  }

  async load() {
    if (this.loading || this.place.hidden) return;
    this.loading = true;
    this.button.textContent = "Loading earlier turns";
    try {
      const { items, next } = await call("GET", `/sessions/${this.session}/events?before=${this.oldest}&limit=${PAGE}&order=desc`);
      const column = this.place.parentElement;
      column?.setAttribute("aria-live", "off"); // older turns are no news
      setTimeout(() => column?.setAttribute("aria-live", "polite"), 500);
      if (items.length) {
        this.oldest = items[items.length - 1].seq;
        this.view.prepend(items.reverse());
      }
      this.#set(items.length === PAGE && this.oldest > 1 && next !== null);
      this.draw();
    } catch {
      this.button.textContent = "Earlier turns could not be loaded. Try again";
      return;
    } finally {
      this.loading = false;
    }
    this.button.textContent = "Earlier turns";
  }

  /**
   * Turns may open with messages that were queued long before, agents with tasks, and processes run on from then: fetch their words.
   * @param {import("./state.js").State} state
   */
  async findWords(state) {
    const missing = [...this.view.turns.values()].some((turn) => turn.items.some((item) => item.kind === "said" && item.text === undefined));
    const loops = Object.values(state.loops);
    const nameless = loops.some((loop) => loop.parent !== null && !this.view.tasks.has(loop.id));
    const unnamed = loops.flatMap((loop) => loop.background).filter(({ turn, call: id }) => !this.view.background.has(`${turn} ${id}`));
    for (const { seq } of unnamed) {
      const { items } = await call("GET", `/sessions/${this.session}/events?before=${seq + 1}&limit=${CALLS}&order=desc&types=ToolStarted,ToolSettled`).catch(() => ({ items: [] }));
      this.view.learn(items.reverse());
      this.draw();
    }
    if ((!missing && !nameless && !this.view.lacksAuthor) || this.place.hidden) return;
    const types = "InputQueued,InputChanged,SteerQueued,LoopStarted";
    const found = await call("GET", `/sessions/${this.session}/events?before=${this.oldest}&limit=${WORDS_PAGE}&order=desc&types=${types}`).catch(() => ({ items: [] }));
    this.view.learn(found.items.reverse());
    this.draw();
  }

  /** @param {boolean} more */
  #set(more) {
    this.place.hidden = !more;
  }
}
