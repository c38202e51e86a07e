/** The column beside the timeline: the turns to jump to, all of them. */
import { button, el, fill } from "../dom.js";
import { actorName, byPerson } from "../words.js";
import { call } from "../rest.js";
import { waitsForWorker } from "./blocks.js";
import { primary } from "./state.js";
import { asked, delegated } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View @typedef {import("./view.js").TurnView} TurnView */
/** @typedef {{ turn: string, index: number | null, seq: number, dot: string, words: string, current: boolean,
 *   stop: { seq: number, words: string } | null }} Row `stop`: how it was interrupted, where that stands */

/** Turns that nobody stopped. */
const LOST = /** @type {Record<string, string>} */ ({ worker_lost: "worker died", worker_shutdown: "worker shut down", closing: "closed" });
const STATUS = /** @type {Record<string, [string, string]>} */ ({ running: ["live", "running"], stopping: ["stop", "stopping"], done: ["done", "done"], failed: ["none", "failed"], stopped: ["stop", "stopped"] });
const ENDS = /** @type {Record<string, string>} */ ({ TurnDone: "done", TurnFailed: "failed", TurnInterrupted: "stopped" });
/** From so many turns on one goes to a number rather than down a list. */
const MANY = 30;
const PAGE = 200;

export class Side {
  /** @param {{ place: HTMLElement, session: string, jump: (turn: string, seq: number, end?: boolean) => Promise<void> }} options `end`: to the turn's end */
  constructor({ place, session, jump }) {
    this.session = session;
    this.jump = jump;
    /** @type {Map<string, Row>} in the order of their numbers */
    this.rows = new Map();
    this.turns = 0;
    this.drawn = "";
    this.says = el("p", { class: "muted small", role: "status" });
    this.number = /** @type {HTMLInputElement} */ (el("input", { type: "number", min: "1", required: true, inputmode: "numeric", "aria-label": "Number of the turn", placeholder: "Number" }));
    this.form = el("form", { class: "goto field", hidden: true, on: { submit: (event) => this.#goTo(event) } }, this.number, el("button", { class: "btn" }, "Go"));
    this.earlier = button("Earlier turns", () => this.#loadEarlier(), { kind: "quiet" });
    this.list = el("div");
    fill(place, this.form, this.says, this.earlier, this.list);
  }

  /** @param {State} state @param {View} view the newest part */
  draw(state, view) {
    const asking = new Set(asked(state).map(({ turn }) => turn.id));
    if (asking.size && allAsk(state)) asking.add(primary(state)?.turn?.id || "");
    this.turns = primary(state)?.turns || 0;
    for (const block of view.blocks) if (block.kind === "turn") this.rows.set(block.key, rowOf(block.turn, asking.has(block.key)));
    this.#drawRows();
  }

  #drawRows() {
    const rows = [...this.rows.values()];
    const mark = JSON.stringify([rows, this.turns]);
    if (mark === this.drawn) return;
    this.drawn = mark;
    this.form.hidden = this.turns < MANY;
    this.number.max = String(this.turns);
    this.number.title = `1 to ${this.turns}`;
    this.earlier.hidden = (rows.find((row) => row.index !== null)?.index ?? 1) <= 1;
    const focused = this.list.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.row : null;
    fill(this.list, ...rows.flatMap((row) => this.#drawRow(row)));
    if (focused) /** @type {HTMLElement | null} */ (this.list.querySelector(`[data-row="${focused}"]`))?.focus({ preventScroll: true });
    else this.list.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  /** A turn, and below it what interrupted it. @param {Row} row @returns {HTMLElement[]} */
  #drawRow({ turn, index, seq, dot, words, current, stop }) {
    const name = index === null ? "…" : `Turn ${index}`;
    const row = el(
      "button", { type: "button", class: "row", "data-row": turn, "aria-current": current, on: { click: () => this.#try(() => this.jump(turn, seq)) } },
      el("i", { class: `dot ${dot}` }), el("span", {}, name), el("small", {}, stop ? "" : words),
    );
    if (!stop) return [row];
    const end = el(
      "button", { type: "button", class: "row cut", "data-row": `${turn} end`, "aria-label": `${name}: ${stop.words}`, on: { click: () => this.#try(() => this.jump(turn, stop.seq, true)) } },
      el("small", {}, stop.words),
    );
    return [row, end];
  }

  /** @param {SubmitEvent} event */
  #goTo(event) {
    event.preventDefault();
    const index = this.number.valueAsNumber;
    const known = [...this.rows.values()].find((row) => row.index === index);
    if (known) return this.#try(() => this.jump(known.turn, known.seq));
    return this.#try(async () => {
      const [row] = (await this.#read(index + 1, 1)).items;
      if (row) await this.jump(row.turn, row.seq);
    });
  }

  #loadEarlier() {
    const first = [...this.rows.values()].find((row) => row.index !== null)?.index;
    return this.#try(async () => {
      const { items } = await this.#read(first || this.turns + 1, PAGE);
      const known = [...this.rows];
      this.rows = new Map([...items.reverse().map((/** @type {any} */ each) => [each.turn, outlined(each)]), ...known]);
      this.#drawRows();
    });
  }

  /** @param {number} before @param {number} limit */
  #read(before, limit) {
    return call("GET", `/sessions/${this.session}/turns?before=${before}&limit=${limit}`);
  }

  /** @param {() => Promise<void>} act */
  async #try(act) {
    this.says.textContent = "";
    try {
      await act();
    } catch (error) {
      this.says.textContent = `That part could not be loaded: ${/** @type {Error} */ (error).message}`;
    }
  }
}

/** The main agent does nothing but wait for those below it, and none of them can go on without an approval. @param {State} state */
function allAsk(state) {
  const asking = new Set(asked(state).map(({ loop }) => loop.id));
  const works = (/** @type {import("./state.js").Turn | null | undefined} */ turn) => Boolean(turn && !delegated(turn));
  return Object.values(state.loops).every((loop) => asking.has(loop.id) || !works(loop.turn));
}

/** @param {TurnView} turn @param {boolean} asks @returns {Row} */
function rowOf(turn, asks) {
  const [dot, words] = asks ? ["wait", "asks"] : waitsForWorker(turn) ? ["none", "waits"] : STATUS[turn.status];
  const stop = turn.end?.type === "TurnInterrupted" ? { seq: turn.end.seq, words: endWords(turn.end.data.cause, turn.end.actor) } : null;
  return { turn: turn.id, index: turn.index, seq: turn.events[0]?.seq || 0, dot, words, current: turn.status === "running" || turn.status === "stopping", stop };
}

/** @param {any} item of the outline @returns {Row} */
function outlined({ turn, index, seq, end, ended_seq: ended, cause, by }) {
  const [dot, words] = STATUS[ENDS[end] || "running"];
  return { turn, index, seq, dot, words, current: !end, stop: cause ? { seq: ended, words: endWords(cause, by) } : null };
}

/** @param {string} cause @param {any} actor */
const endWords = (cause, actor) => (byPerson(cause) ? `stopped, ${actorName(actor)}` : LOST[cause] || "stopped");
