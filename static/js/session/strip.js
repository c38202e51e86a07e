/** The status strip: the state in words with a clock that counts, the connection, the title. */
import { setAttribute, write } from "../dom.js";
import { actorName, clockTime, count as countOf, counting, doing, duration } from "../words.js";
import { count, shownNow, since, stopCounting } from "../clock.js";
import { primary } from "./state.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View @typedef {import("./socket.js").Status} Status */
/** @typedef {{ is: string, words: () => string, spoken?: string, held?: boolean }} Described `spoken`: without the clock that counts in `words`; `held`: they say what is paused */

/** What is set aside and what waits. @param {State} state */
export function waiting(state) {
  const loops = Object.values(state.loops);
  const inbox = loops.flatMap((loop) => loop.inbox);
  const steers = loops.flatMap((loop) => loop.steers);
  return {
    held: [...inbox, ...steers].filter((entry) => entry.held).length,
    inputs: inbox.filter((entry) => !entry.held).length,
    steers: steers.filter((entry) => !entry.held).length,
  };
}

/**
 * The approvals that are open: where a person is needed. What is being stopped asks no more.
 * @param {State} state
 * @returns {{ loop: import("./state.js").Loop, turn: import("./state.js").Turn, call: import("./state.js").Call }[]}
 */
export function asked(state) {
  return Object.values(state.loops).flatMap((loop) => {
    const { turn } = loop;
    const open = turn && !turn.mark ? (turn.calls || []).filter((call) => call.answer === "open") : [];
    return open.map((call) => ({ loop, turn: /** @type {import("./state.js").Turn} */ (turn), call }));
  });
}

/** What becomes of a request that has not ended everything yet. @param {State} state */
export const stopping = (state) => Object.values(state.requests)[0] || null;

/**
 * What is happening right now, in a person's words.
 * @param {State} state
 * @param {View} view
 * @returns {Described}
 */
export function describe(state, view) {
  if (state.status === "closed") return { is: "closed", words: () => "Closed" };
  const request = stopping(state);
  if (request) return { is: "stopping", spoken: `Stopping, asked by ${actorName(request.actor)}`, words: () => `Stopping, asked by ${actorName(request.actor)} ${duration(Math.floor(since(request.at_ms) / 100) * 100)} ago` };
  if (state.status === "closing") return { is: "stopping", words: () => "Closing" };
  const running = asked(state)[0]?.loop || Object.values(state.loops).find((loop) => loop.turn);
  if (running?.turn) return describePhase(view.turns.get(running.turn.id)?.phase || null, running.turn);
  const { held, inputs, steers } = waiting(state);
  if (inputs && primary(state)?.status === "idle") return { is: "idle", words: () => "Waiting for a worker" };
  if (held) return { is: "idle", held: true, words: () => `Nothing running, ${countOf(held, "message")} paused` };
  if (steers) return { is: "idle", words: () => `Nothing running, ${countOf(steers, "message")} for the next turn` };
  return { is: "idle", words: () => "Nothing running" };
}

/** @param {import("./view.js").Phase | null} phase @param {import("./state.js").Turn} turn @returns {Described} */
function describePhase(phase, turn) {
  if (!phase) return { is: "running", spoken: "Running", words: () => `Running, ${counting(since(turn.at_ms))}` };
  if (phase.is === "retry") {
    const next = Date.parse(phase.nextAt || "");
    const left = () => (Number.isFinite(next) ? `, next try in ${counting(Math.max(0, next - shownNow()) + 999)}` : "");
    return { is: "running", spoken: "The model did not answer", words: () => `The model did not answer${left()}` };
  }
  if (phase.is === "waiting") return { is: "idle", words: () => "Waiting for a worker" };
  if (phase.is === "gate") return { is: "waiting", counts: true, words: () => `Waiting for approval, ${counting(since(phase.at))}` };
  const doingNow = phase.is === "tool" ? doing(phase.tool || "a tool") : phase.is === "next" ? "Working" : phase.writing ? "Writing" : "Thinking";
  return { is: "running", spoken: doingNow, words: () => `${doingNow}, ${counting(since(phase.at))}` };
}

const CONNECTIONS = /** @type {Record<Status, [string, string]>} */ ({
  connecting: ["Connecting", ""], updating: ["Updating", "lost"], live: ["Live", "live"], reconnecting: ["Reconnecting", "lost"], offline: ["Offline", "lost"],
  signed_out: ["Signed out", "lost"], not_allowed: ["No longer allowed", "lost"], gone: ["No such session", "lost"],
});
/** Short losses of the connection do not grey out what was true a second ago. */
const STALE_AFTER_MS = 1_000;

/** What is shown is old news: the connection is away for longer than a moment. @param {Status} status @param {number} lostAt */
export const isStale = (status, lostAt) => status !== "live" && (status === "updating" || performance.now() - lostAt > STALE_AFTER_MS) && lostAt > 0;

export class Strip {
  /** @param {{ title: HTMLElement, state: HTMLElement, paused: HTMLElement, connection: HTMLElement, announce: HTMLElement }} parts */
  constructor({ title, state, paused, connection, announce }) {
    this.title = title;
    this.state = state;
    this.paused = paused;
    this.words = /** @type {HTMLElement} */ (state.firstElementChild);
    this.connection = connection;
    this.announce = announce;
    this.said = "";
  }

  /**
   * `delayed`: the server has lost its bell, so what is shown is true but comes a little late.
   * @param {{ state: State, view: View, title: string, status: Status, delayed: boolean, confirmedAt: number, lostAt: number }} now
   */
  draw({ state, view, title, status, delayed, confirmedAt, lostAt }) {
    const described = describe(state, view);
    write(this.title, title);
    this.state.dataset.is = described.is;
    const stale = isStale(status, lostAt);
    setAttribute(this.state, "data-stale", stale);
    // What was true is said as that: with its time and without a clock that goes on counting (D37).
    const words = stale ? () => `At ${clockTime(confirmedAt, true)}: ${lower(described.words())}` : described.words;
    if (described.spoken !== undefined && !stale) count(this.words, words);
    else {
      stopCounting(this.words);
      write(this.words, words());
    }
    this.#drawPaused(waiting(state).held, described);
    const [text, is] = status === "live" && delayed ? ["Live updates delayed", "delayed"] : CONNECTIONS[status];
    write(this.connection, text);
    this.connection.dataset.is = is;
    if (!stale) this.#say(described);
  }

  /** What a stop set aside stays in sight, also while something else runs. @param {number} held @param {Described} described */
  #drawPaused(held, described) {
    this.paused.hidden = !held || Boolean(described.held);
    write(this.paused, `${held} paused`);
  }

  /** Spoken once per change of kind, never per second. @param {Described} described */
  #say(described) {
    const spoken = described.spoken ?? described.words();
    if (spoken === this.said) return;
    this.said = spoken;
    write(this.announce, spoken);
  }
}

/** @param {string} text */
const lower = (text) => text.charAt(0).toLowerCase() + text.slice(1);
