/** The status strip: the state in words with a clock that counts, the connection, the title. */
import { setAttribute, write } from "../dom.js";
import { actorName, approvals, clockTime, count as countOf, counting, doing, duration } from "../words.js";
import { count, shownNow, since, stopCounting } from "../clock.js";
import { primary } from "./state.js";
import { doubtful } from "./stops.js";
import { callKey } from "./view_rules.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View @typedef {import("./socket.js").Status} Status */
/** @typedef {{ is: string, words: () => string, spoken?: string, held?: boolean }} Described `spoken`: without the clock that counts in `words`; `held`: they say what is paused */

/** What is set aside and what waits. @param {State} state */
export function waiting(state) {
  const loops = Object.values(state.loops);
  const inbox = loops.flatMap((loop) => loop.inbox.filter((entry) => !isTask(loop, entry)));
  const steers = loops.flatMap((loop) => loop.steers);
  return {
    held: [...inbox, ...steers].filter((entry) => entry.held).length,
    inputs: inbox.filter((entry) => !entry.held).length,
    steers: steers.filter((entry) => !entry.held).length,
  };
}

/** A delegate's task is no message. @param {import("./state.js").Loop} loop @param {import("./state.js").Input} entry */
export const isTask = (loop, entry) => loop.parent !== null && entry.agency === "machine";

/**
 * The approvals that are open: where a person is needed, the one that waits longest first. What is being stopped asks no more.
 * @param {State} state
 * @returns {{ loop: import("./state.js").Loop, turn: import("./state.js").Turn, call: import("./state.js").Call }[]}
 */
export function asked(state) {
  return Object.values(state.loops).flatMap((loop) => {
    const { turn } = loop;
    const open = turn && !turn.mark ? (turn.calls || []).filter((call) => call.answer === "open") : [];
    return open.map((call) => ({ loop, turn: /** @type {import("./state.js").Turn} */ (turn), call }));
  }).sort((one, other) => (one.call.seq || 0) - (other.call.seq || 0));
}

/** The stop that ends all that runs, until it has; one of a single delegate is told at that one. @param {State} state */
export function stopping(state) {
  const running = Object.values(state.loops).some((loop) => loop.turn && !loop.turn.mark);
  return (!running && Object.values(state.requests)[0]) || null;
}

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
  const open = asked(state);
  const [asks] = open;
  if (asks) {
    const words = approvals(open.length);
    const at = view.turns.get(asks.turn.id)?.keys.get(callKey(asks.turn.step, asks.call.call))?.approval?.at ?? asks.turn.asked_ms ?? asks.turn.at_ms;
    return { is: "waiting", spoken: words, words: () => `${words}, ${counting(since(at))}` };
  }
  const main = primary(state)?.turn;
  if (main) return describeRunning(state, view, main);
  const { held, inputs, steers } = waiting(state);
  if (inputs && primary(state)?.status === "idle") return { is: "idle", words: () => "Waiting for a worker" };
  const left = Object.values(state.loops).reduce((sum, loop) => sum + loop.background.length, 0);
  const also = left ? `, ${left} in the background` : "";
  const nothing = doubtful(view) ? "No agent running, processes may be" : "Nothing running";
  if (held) return { is: "idle", held: true, words: () => `${nothing}, ${countOf(held, "message")} paused${also}` };
  if (steers) return { is: "idle", words: () => `${nothing}, ${countOf(steers, "message")} for the next turn${also}` };
  return { is: "idle", words: () => `${nothing}${also || lastFailed(view)}` };
}

/** That the newest turn came to nothing, and nobody ended it. @param {View} view */
function lastFailed(view) {
  const last = view.blocks.findLast((block) => block.kind === "turn");
  const turn = last?.kind === "turn" ? last.turn : null;
  if (turn?.status === "failed") return ", the last turn failed";
  return turn?.end?.data.cause === "worker_lost" ? ", the last turn’s worker died" : "";
}

/** The main agent's turn: what it does, or what its delegates do for it. @param {State} state @param {View} view @param {import("./state.js").Turn} main @returns {Described} */
function describeRunning(state, view, main) {
  const phase = view.turns.get(main.id)?.phase || null;
  const below = delegates(state);
  const ending = below.filter((loop) => loop.turn?.mark).length;
  const working = below.filter(({ turn }) => turn && !turn.mark && (turn.worker || delegated(turn))).length;
  const parts = [[working, "working", "working"], [ending, "stopping", "stopping"], [below.length - working - ending, "waits for a worker", "wait for a worker"]];
  const subs = parts.filter(([n]) => n).map(([n, one, many], at) => `${at ? n : countOf(Number(n), "sub-agent")} ${n === 1 ? one : many}`).join(", ");
  const waitsForThem = delegated(main) && !(phase?.is === "tool" && phase.tool !== "delegate");
  if (subs && waitsForThem) return { is: working || ending ? "running" : "idle", spoken: subs, words: () => subs };
  const own = main.worker ? withLeaving(describePhase(phase, main), view.turns.get(main.id)?.leaving) : { is: "idle", words: () => "Waiting for a worker" };
  return subs ? { ...own, words: () => `${own.words()}, ${subs}` } : own;
}

/**
 * What it does, and that its worker is on its way out: another one goes on with the turn, and what outlasts the limit is ended (J4).
 * @param {Described} own @param {{ until: number | null } | null | undefined} leaving @returns {Described}
 */
function withLeaving(own, leaving) {
  if (!leaving) return own;
  const { until } = leaving;
  const soon = () => (until === null ? "" : ` in ${counting(Math.max(0, until - shownNow()))}`);
  return { ...own, spoken: `${own.spoken}, its worker is leaving`, words: () => `${own.words()}, its worker is leaving${soon()}` };
}

/** Whether it waits for delegates of its own. @param {import("./state.js").Turn} turn */
export const delegated = (turn) => (turn.calls || []).some((call) => call.status === "started" && call.child);

/** The delegates that have not ended. @param {State} state */
export const delegates = (state) => Object.values(state.loops).filter((loop) => loop.parent !== null && loop.status !== "closed");

/** @param {import("./view.js").Phase | null} phase @param {import("./state.js").Turn} turn @returns {Described} */
function describePhase(phase, turn) {
  if (!phase) return { is: "running", spoken: "Running", words: () => `Running, ${counting(since(turn.at_ms))}` };
  if (phase.is === "retry") {
    const next = Date.parse(phase.nextAt || "");
    const left = () => (Number.isFinite(next) ? `, next try in ${counting(Math.max(0, next - shownNow()) + 999)}` : "");
    return { is: "waiting", spoken: "The model did not answer", words: () => `The model did not answer${left()}` };
  }
  const now = doingNow(phase);
  return { is: "running", spoken: now, words: () => `${now}, ${counting(since(phase.at))}` };
}

/** @param {import("./view.js").Phase} phase */
export function doingNow(phase) {
  if (phase.is === "retry") return "The model did not answer";
  if (phase.is === "waiting") return "Waiting for a worker";
  if (phase.is === "gate") return "Waiting for approval";
  if (phase.is === "delegate" || (phase.is === "tool" && phase.tool === "delegate")) return "Waiting for a sub-agent";
  return phase.is === "tool" ? doing(phase.tool || "a tool") : phase.is === "next" ? "Working" : phase.writing ? "Writing" : "Thinking";
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
    this.connection.hidden = state.status === "closed" && status === "live"; // nothing is to come any more
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
