/**
 * Which part of the log is on the page: the newest, which grows with what happens, or another one that somebody reads.
 * Either holds a bounded number of events, so that a page is as light with a hundred thousand of them.
 */
import { ownTask } from "../dom.js";
import { call } from "../rest.js";

/** @typedef {import("./view.js").View} View @typedef {import("./state.js").LogEvent} LogEvent @typedef {import("./state.js").State} State */

const PAGE = 160;
/** Events of the part that is shown. */
const MOST = 1_600;
/** And so many are left of the newest part when it is cut. */
const KEPT = 800;
const WORDS_PAGE = 200;
/** So many of them are looked through for a message that waited long. */
const WORDS_PAGES = 20;
/** Among so many calls before a settlement its start is found. */
const CALLS = 20;

export class Pages {
  /**
   * @param {{ session: string, oldest: number, live: View, timeline: import("./timeline.js").Timeline, scroller: HTMLElement,
   *   older: HTMLElement, later: HTMLElement, readState: () => State }} options `oldest`: seq of the first event of `live`
   */
  constructor({ session, oldest, live, timeline, scroller, older, later, readState }) {
    this.session = session;
    this.live = live;
    this.oldest = oldest;
    this.timeline = timeline;
    this.readState = readState;
    /** Counts where one went: the last place is the one that counts, whatever an edge loads meanwhile. */
    this.trips = 0;
    /** What another part shows; empty: the newest is shown. @type {LogEvent[]} */
    this.events = [];
    const isWhole = () => !timeline.partial;
    this.older = new Edge(older, scroller, "Earlier turns", isWhole, () => this.#loadOlder());
    this.later = new Edge(later, scroller, "Later turns", isWhole, () => this.#loadLater());
    timeline.bound = () => this.#bound();
    timeline.onWhole = () => [this.older, this.later].forEach((edge) => edge.lookAgain());
    this.#show();
  }

  /** Back to the newest, and to its end. */
  toLive() {
    this.trips += 1;
    this.timeline.atEnd = true; // before it is drawn: who reads further up would keep all that came meanwhile, and not follow
    if (this.events.length) this.#useLive();
    this.timeline.toEnd();
  }

  /** Show a turn, wherever it is. @param {string} turn @param {number} seq of its first event @returns {Promise<boolean>} false: somebody went elsewhere meanwhile */
  async jump(turn, seq) {
    const trip = (this.trips += 1);
    if (this.#first <= seq && this.#showTurn(turn)) return true;
    if (seq >= this.oldest) {
      this.#useLive(turn);
      return this.#showTurn(turn);
    }
    const [before, from] = await Promise.all([this.#read(`before=${seq}&limit=${PAGE / 4}&order=desc`), this.#read(`after=${seq - 1}&limit=${PAGE}`)]);
    if (trip !== this.trips) return false;
    const events = [...before.reverse(), ...from];
    const part = this.live.part(events);
    await ownTask();
    if (trip !== this.trips) return false;
    this.#usePart(events, { part, turn });
    return this.#showTurn(turn);
  }

  /** Show a turn of which no more is known than its id, also one of a sub-agent. @param {string} turn */
  async find(turn) {
    if (this.#showTurn(turn)) return;
    const [found] = (await call("GET", `/sessions/${this.session}/turns?turn=${encodeURIComponent(turn)}`)).items;
    if (found) await this.jump(turn, found.seq);
  }

  /** A sub-agent's turn stands in its card. @param {string} turn @returns {boolean} whether it is there */
  #showTurn(turn) {
    if (this.timeline.show(turn)) return true;
    const loop = this.timeline.view.turns.get(turn)?.loop;
    if (loop) this.timeline.showAgent(loop);
    return Boolean(loop);
  }

  /** An agent's card stands in the newest part. @param {string} loop */
  showAgent(loop) {
    this.trips += 1;
    if (this.events.length) this.#useLive();
    this.timeline.showAgent(loop);
  }

  get #first() {
    return this.events[0]?.seq ?? this.oldest;
  }

  async #loadOlder() {
    const { events: shown } = this;
    const first = this.#first;
    const items = (await this.#read(`before=${first}&limit=${PAGE}&order=desc`)).reverse();
    if (this.events !== shown || this.#first !== first) return; // another part is shown by now
    if (!this.events.length && this.live.size + items.length <= MOST) {
      this.live.prepend(items);
      this.oldest = items[0]?.seq ?? 1;
      this.#useLive();
    } else this.#usePart([...items, ...(shown.length ? shown : this.live.events(this.oldest))].slice(0, MOST));
  }

  async #loadLater() {
    const { events: shown } = this;
    const items = await this.#read(`after=${shown[shown.length - 1].seq}&limit=${PAGE}`);
    if (this.events !== shown) return;
    this.#cut(); // room for what is read now
    const events = [...shown, ...items];
    const older = events.filter((event) => event.seq < this.oldest);
    if (older.length === events.length && items.length) {
      this.#usePart(events.slice(-MOST));
      return;
    }
    const joined = older.slice(-KEPT);
    this.live.prepend(joined);
    this.oldest = joined[0]?.seq ?? this.oldest;
    this.#useLive();
  }

  /** Before each drawing: the newest part is cut; who follows the end loses the oldest, who reads further up keeps what is there. */
  #bound() {
    if (this.live.size <= MOST) return;
    if (!this.events.length && !this.timeline.atEnd) {
      this.events = this.live.events(this.oldest);
      this.timeline.use(this.live.part(this.events), false); // before it forgets what they say
    }
    this.#cut();
    this.#show();
  }

  /** The newest part loses its oldest events. */
  #cut() {
    if (this.live.size > KEPT) this.oldest = this.live.keep(KEPT, this.readState(), this.oldest);
  }

  /** @param {LogEvent[]} events @param {{ part?: View, turn?: string }} [options] `part`: made of them already; `turn`: the one that is wanted */
  #usePart(events, { part = this.live.part(events), turn } = {}) {
    this.events = events;
    this.#cut();
    this.timeline.use(part, false, turn);
    this.#show();
    this.timeline.draw();
    void this.#findWords(part, events[0].seq);
  }

  /** @param {string} [turn] the one that is wanted */
  #useLive(turn) {
    this.events = [];
    this.timeline.use(this.live, true, turn);
    this.#show();
    this.timeline.draw();
  }

  #show() {
    this.older.show(this.#first > 1);
    this.later.show(this.events.length > 0);
  }

  /** @param {string} query @returns {Promise<LogEvent[]>} */
  async #read(query) {
    return (await call("GET", `/sessions/${this.session}/events?${query}`)).items;
  }

  /** Words that were said before the newest part began. */
  findWords() {
    return this.#findWords(this.live, this.oldest);
  }

  /**
   * Turns may open with messages that were queued long before, agents with tasks, and processes run on from then: fetch their words.
   * @param {View} view @param {number} first seq of what it shows
   */
  async #findWords(view, first) {
    const loops = Object.values(this.readState().loops);
    const wordless = () => [...view.turns.values()].some((turn) => turn.items.some((item) => item.kind === "said" && item.text === undefined));
    const lacks = () => view.lacksAuthor || wordless() || loops.some((loop) => loop.parent !== null && loop.status !== "closed" && !view.tasks.has(loop.id));
    const unnamed = loops.flatMap((loop) => loop.background).filter(({ turn, call: id }) => !view.background.has(`${turn} ${id}`));
    for (const { seq } of unnamed) {
      const near = await this.#read(`before=${seq + 1}&limit=${CALLS}&order=desc&types=ToolStarted,ToolSettled`).catch(() => []);
      view.learn(near.reverse());
      this.timeline.draw();
    }
    const types = "InputQueued,InputChanged,SteerQueued,LoopStarted";
    for (let read = 0, before = first; lacks() && before > 1 && read < WORDS_PAGES && [this.live, this.timeline.view].includes(view); read += 1) {
      const found = (await this.#read(`before=${before}&limit=${WORDS_PAGE}&order=desc&types=${types}`).catch(() => [])).reverse();
      view.learn(found);
      this.timeline.draw();
      before = found[0]?.seq ?? 1;
    }
  }
}

/** Where the part ends that is shown: more comes as one scrolls near, or presses. */
class Edge {
  /**
   * @param {HTMLElement} place @param {HTMLElement} scroller @param {string} words
   * @param {() => boolean} isWhole all that is there is drawn: what is not yet makes an edge seem near @param {() => Promise<void>} load
   */
  constructor(place, scroller, words, isWhole, load) {
    this.place = place;
    this.words = words;
    this.isWhole = isWhole;
    this.read = load;
    this.loading = false;
    this.button = /** @type {HTMLButtonElement} */ (place.querySelector("button"));
    this.button.addEventListener("click", () => void this.load());
    this.near = false;
    new IntersectionObserver((entries) => {
      this.near = entries[entries.length - 1].isIntersecting;
      this.#look();
    }, { root: scroller, rootMargin: "400px 0px" }).observe(place);
  }

  async load() {
    if (this.loading || this.place.hidden) return;
    this.loading = true;
    this.button.textContent = `Loading ${this.words.toLowerCase()}`;
    try {
      await this.read();
      this.button.textContent = this.words;
    } catch (error) {
      console.debug(error);
      this.button.textContent = `${this.words} could not be loaded. Try again`;
      this.near = false;
    } finally {
      this.loading = false;
    }
    this.lookAgain(); // what came may not have filled the screen
  }

  #look() {
    if (this.near && this.isWhole()) void this.load();
  }

  /** Once the observer has told where it is by now. */
  lookAgain() {
    if (this.near) requestAnimationFrame(() => setTimeout(() => this.#look()));
  }

  /** @param {boolean} more */
  show(more) {
    this.place.hidden = !more;
  }
}
