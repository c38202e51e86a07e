/**
 * What one stop came to: the twin of `sessions_app/engine/stops.py` and of the words in `sessions_app/pages/stops.py`, so
 * that the receipt, the timeline, the list, the page and the terminal count alike.
 *
 * @typedef {import("./state.js").LogEvent} LogEvent
 * @typedef {{ agents: number, acknowledged_ms: number | null, settled_ms: number, steps_kept: number, cut_off: number,
 *   approvals: number, ended: number, ending: number, surviving: number, unknown: boolean, held: number, kept: number,
 *   cancelled: number, ended_by: string }} Numbers of all that a stop ended, or of one agent's part in it
 * @typedef {{ asked: LogEvent, left: any[], ended: LogEvent | null }} Kill the end of what a call had left running
 */
import { count, duration, endedByWords } from "../words.js";

/** @type {Numbers} */
const NOTHING = {
  agents: 0, acknowledged_ms: null, settled_ms: 0, steps_kept: 0, cut_off: 0, approvals: 0, ended: 0, ending: 0, surviving: 0, unknown: false, held: 0, kept: 0,
  cancelled: 0, ended_by: "worker",
};

/** How many: a list or a number. @param {unknown} value */
const many = (value) => (Array.isArray(value) ? value.length : Number(value) || 0);

/** Of a text that is kept elsewhere its size, of an erased one nothing. @param {any} text */
const length = (text) => (typeof text === "string" ? [...text].length : text?.size || 0);

/** One turn's. @param {any} data of TurnInterrupted @returns {Numbers} */
export function ofTurn(data) {
  const { inputs = {}, steers = {}, processes = {}, cut_off: cut } = data;
  return {
    agents: 1, acknowledged_ms: data.acknowledged_ms ?? null, settled_ms: data.settled_ms, steps_kept: data.steps_kept,
    cut_off: Object.values(cut || {}).reduce((sum, text) => sum + length(text), 0), approvals: many(data.gates),
    ended: many(processes.ended), ending: 0, surviving: many(processes.surviving), unknown: Boolean(processes.unknown),
    held: many(inputs.held) + many(steers.held), kept: many(inputs.kept) + many(steers.kept), cancelled: many(inputs.cancelled) + many(steers.withdrawn),
    ended_by: data.ended_by,
  };
}

/** Those of what a call had left running. @param {Kill} kill @returns {Numbers} */
function ofBackground({ asked, left, ended }) {
  if (!ended) return { ...NOTHING, ending: Math.max(1, left.length) };
  const { processes } = ended.data;
  const settled_ms = Math.max(0, Date.parse(ended.at) - Date.parse(asked.at));
  const unknown = Boolean(processes.unknown);
  if (many(processes.surviving) || unknown) return { ...NOTHING, surviving: many(processes.surviving), unknown, ended: many(processes.ended), settled_ms };
  return { ...NOTHING, ended: many(processes.ended) || Math.max(1, left.length), settled_ms };
}

/** Those of the whole. @param {Numbers[]} parts @returns {Numbers} */
function together(parts) {
  const whole = /** @type {any} */ ({ ...NOTHING });
  const heard = parts.flatMap((part) => (part.acknowledged_ms === null ? [] : [part.acknowledged_ms]));
  for (const name of /** @type {(keyof Numbers)[]} */ (["agents", "steps_kept", "cut_off", "approvals", "ended", "ending", "surviving", "held", "kept", "cancelled"])) {
    for (const part of parts) whole[name] += part[name];
  }
  return {
    ...whole, acknowledged_ms: heard.length ? Math.max(...heard) : null, settled_ms: Math.max(0, ...parts.map((part) => part.settled_ms)),
    unknown: parts.some((part) => part.unknown), ended_by: parts.find((part) => part.ended_by !== "worker")?.ended_by ?? "worker",
  };
}

/** Those of all that a stop has ended so far. @param {{ ends: LogEvent[], kills: Map<string, Kill> }} stop @returns {Numbers} */
export const numbersOf = ({ ends, kills }) => together([...ends.map((end) => ofTurn(end.data)), ...[...kills.values()].map(ofBackground)]);

/** Whether all of its turns have ended. @param {{ event: LogEvent, ends: LogEvent[] }} stop */
export const isOver = ({ event, ends }) => ends.length > 0 && ends.length >= event.data.turns.length;

/** Whether something may have outlived it. @param {Numbers} numbers */
export const unproven = ({ surviving, unknown }) => Boolean(surviving || unknown);

/**
 * Whether something of what the newest turn ran may still run: its end proved nothing, and nobody has heard since that all of it has ended.
 * @param {import("./view.js").View} view
 */
export function doubtful(view) {
  const newest = view.blocks.findLast((block) => block.kind === "turn");
  if (newest?.kind !== "turn" || !newest.turn.end) return false;
  const stop = [...view.stops.values()].find(({ event }) => event.data.turns.includes(newest.key));
  if (stop) return isOver(stop) && doubts(view, stop);
  const { surviving, unknown } = newest.turn.end.data.processes || {};
  return Boolean(unknown) || many(surviving) > endedSince(view, [newest.key]);
}

/** Whether something that a stop was to end may still run. @param {import("./view.js").View} view @param {import("./view.js").StopView} stop */
export function doubts(view, stop) {
  const { surviving, unknown } = numbersOf(stop);
  return unknown || surviving > endedSince(view, stop.event.data.turns);
}

/** How many of the processes that had outlived these turns have ended. @param {import("./view.js").View} view @param {string[]} turns */
const endedSince = (view, turns) => [...view.outlived.values()].reduce((sum, { turn, count: ended }) => sum + (turns.includes(turn) ? ended : 0), 0);

/** How long it took until the workers had heard of it, or why none did. @param {Numbers} numbers @returns {string} */
export function gotIt({ acknowledged_ms: ms, ended_by: by }) {
  if (ms !== null) return duration(ms);
  return { request: "no worker had it", sweep: "its worker was gone" }[by] || "no answer";
}

/** What it ended, and how long that took, as the receipt says it. @param {Numbers} numbers */
export function endedWords({ settled_ms, agents, ended, approvals, ended_by }) {
  return [
    duration(settled_ms), agents > 1 && count(agents, "agent"), ended && count(ended, "process", "processes"), approvals && count(approvals, "approval"),
    endedByWords(ended_by),
  ].filter(Boolean).join(", ");
}

/**
 * A stop's numbers in [words, value, colour], as its rule in the timeline says them.
 * @param {Numbers} numbers @param {string} [phase] what it hit, of one agent's @param {number} [grace] how long a worker that was told to end had waited before, in ms
 * @returns {[string, string, string][]}
 */
export function facts(numbers, phase = "", grace) {
  const several = numbers.agents > 1;
  const { acknowledged_ms: heard, surviving, ending, ended, approvals, held } = numbers;
  const what = unproven(numbers) || ending ? (several ? "the turns" : "the turn") : "everything";
  const said = /** @type {[string, string | false | 0, string][]} */ ([
    ["it ended", several && count(numbers.agents, "agent"), ""],
    ["it hit", phase === "gate" && !several && "an open approval", ""],
    [several ? "workers got it in" : "worker got it in", heard !== null && duration(heard), ""],
    ["after a grace of", grace !== undefined && duration(grace), ""],
    [`${what} ended in`, duration(numbers.settled_ms), ""],
    ["kept", count(numbers.steps_kept, "step"), ""],
    ["cut off", numbers.cut_off && count(numbers.cut_off, "character"), ""],
    ["ended", ended && count(ended, "process", "processes"), ""],
    ["being ended", ending && count(ending, "process", "processes"), ""],
    ["still running", surviving && count(surviving, "process", "processes"), "bad"],
    ["processes", numbers.unknown && "not known to have ended", "bad"],
    ["closed", approvals && count(approvals, "approval"), ""],
    ["paused", held && count(held, "message"), ""],
    ["", endedByWords(numbers.ended_by), ""],
  ]);
  return said.flatMap(([words, value, colour]) => (value ? [/** @type {[string, string, string]} */ ([words, value, colour])] : []));
}
