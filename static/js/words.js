/** What the screens say: a person's words for the engine's. The server has the same words in `sessions_app/pages/words.py`. */

import { serverNow } from "./clock.js";

/** @typedef {{ kind: string, id: string, name: string, device?: { kind: string, name?: string } | null }} Actor */

/** Characters that change the direction of the text after them, over the end of a name (U+202E and its kin). */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A name, title or line without them, for places that hold text alone: a window's title, a label. @param {string} text */
export const plain = (text) => text.replace(TURNING, "");

/** What somebody may be asked to allow: they see them, as what stands there is not what would run. @param {string} text */
export const laidOpen = (text) => text.replace(TURNING, (one) => `<U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

/** The same inside a sentence: marked, so that it is set apart wherever the sentence is written. @param {string} text */
export const apart = (text) => `\u2068${plain(text)}\u2069`;

/** The start of a message, to tell it from others. @param {string} text @param {number} [most] */
export function startOf(text, most = START_CHARS) {
  const line = plain(text.slice(0, 400)).trim().replace(/\s+/g, " ");
  return line.length > most ? `${line.slice(0, most).trimEnd()}…` : line;
}
const START_CHARS = 40;
/** As much of a command as a line in the timeline shows. */
const COMMAND_CHARS = 120;

/** A whole number as people read it, 12,345; a browser's own formatter takes longer to make than the page to draw. @param {number} n */
export const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

/** A count with its noun: "1 message", "3 messages". @param {number} n @param {string} one @param {string} [many] */
export function count(n, one, many = `${one}s`) {
  return `${grouped(n)} ${n === 1 ? one : many}`;
}

/**
 * A finished or running length of time; never negative (D36).
 * @param {number} ms
 * @returns {string} "6 ms", "0.4 s", "38 s", "2 min 11 s", "3 h 4 min", "2 days"
 */
export function duration(ms) {
  const value = Math.max(0, Math.round(ms));
  if (value < 100) return `${value} ms`;
  if (value < 9950) return `${(value / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  const seconds = Math.round(value / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return join(Math.floor(seconds / 60), "min", seconds % 60, "s");
  if (seconds < 86400) return join(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min");
  return count(Math.floor(seconds / 86400), "day");
}

/** A clock that counts: whole seconds. @param {number} ms */
export function counting(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

/** @param {number} a @param {string} unitA @param {number} b @param {string} unitB */
function join(a, unitA, b, unitB) {
  return b ? `${a} ${unitA} ${b} ${unitB}` : `${a} ${unitA}`;
}

/** How long ago, for lists. @param {number} ms */
export function ago(ms) {
  if (ms < 45_000) return "just now";
  if (ms < 3_600_000) return `${Math.max(1, Math.round(ms / 60_000))} min ago`;
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h ago`;
  return `${count(Math.round(ms / 86_400_000), "day")} ago`;
}

/** @type {Intl.DateTimeFormat | undefined} made once: that takes longer than to use it a hundred times */
let day;

/** The reader's clock for a server's instant, 00:00 to 23:59. @param {string | number} at @param {boolean} [seconds] */
export function clockTime(at, seconds = false) {
  const date = new Date(at);
  const before = sameDay(date, new Date(serverNow())) ? "" : `${dayOf(date)}, `;
  const parts = [date.getHours(), date.getMinutes(), ...(seconds ? [date.getSeconds()] : [])];
  return before + parts.map((part) => String(part).padStart(2, "0")).join(":");
}

/** @param {Date} date */
function dayOf(date) {
  day ??= new Intl.DateTimeFormat([], { day: "numeric", month: "short" });
  return day.format(date);
}

/** @param {Date} a @param {Date} b */
function sameDay(a, b) {
  return a.toDateString() === b.toDateString();
}

/** The exact instant, for `title`. @param {string} at */
export function exact(at) {
  return `${at.replace("T", " ").replace("Z", "")} UTC`;
}

/** @param {unknown} cost dollars, as a number or a decimal string @returns {string} empty where nothing is known */
export function money(cost) {
  const value = Number(cost);
  if (cost === null || cost === undefined || cost === "" || !Number.isFinite(value)) return "";
  return value > 0 && value < 0.01 ? "under $0.01" : `$${value.toFixed(2)}`;
}

/** Two letters for a face. @param {string} name */
export function initials(name) {
  const parts = name.trim().split(/[\s._-]+/).filter(Boolean);
  const letters = parts.length > 1 ? parts.slice(0, 2).map((part) => [...part][0]) : [...(parts[0] || "?")].slice(0, 2);
  return letters.join("");
}

/** The hue of a person: the same on every screen and on the server (FNV-1a of the id). @param {string} id @returns {string} */
export function hue(id) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i += 1) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193) >>> 0;
  return `p${(hash % 8) + 1}`;
}

const DEVICES = /** @type {Record<string, string>} */ ({ phone: "a phone", tablet: "a tablet", desk: "a desk", cli: "a terminal", api: "the API" });

/** "from a phone (Pixel 9)"; observers are not told the name. @param {Actor} actor */
export function fromDevice(actor) {
  if (!actor.device || !DEVICES[actor.device.kind]) return "";
  const name = actor.device.name ? ` (${apart(actor.device.name)})` : "";
  return ` from ${DEVICES[actor.device.kind]}${name}`;
}

/** Who, in words, for inside a sentence. @param {Actor | null | undefined} actor */
export function actorName(actor) {
  if (!actor) return "somebody";
  if (actor.kind === "system") return "the system";
  if (actor.kind === "admin") return `${apart(actor.name)} (administrator)`;
  if (actor.kind === "above") return actor.name; // the agent above a sub-agent, which gave it its task
  if (actor.kind === "agent") return `${apart(actor.name)} (agent)`;
  return apart(actor.name);
}

const DOING = /** @type {Record<string, string>} */ ({ shell: "Running a command", read_file: "Reading a file", search: "Searching", write_file: "Writing a file", edit_file: "Editing a file", delegate: "Starting a sub-agent" });
const THING = /** @type {Record<string, string>} */ ({ shell: "command", search: "search", edit_file: "edit", delegate: "sub-agent" });

/** @param {string} tool */
export const doing = (tool) => DOING[tool] || `Using ${tool}`;
/** @param {string} tool */
export const thing = (tool) => THING[tool] || "tool call";

/**
 * A call in one line, as one would type it.
 * @param {string} tool
 * @param {any} args an object, or `{erased: true}`
 */
export function callLine(tool, args) {
  return laidOpen(lineOfCall(tool, args));
}

/** @param {string} tool @param {any} args @returns {string} */
function lineOfCall(tool, args) {
  const value = args && typeof args === "object" ? args : {};
  if (value.erased) return `${tool} (erased)`;
  if (tool === "shell" && typeof value.command === "string") return value.command;
  if (tool === "delegate" && typeof value.task === "string") return value.task;
  const path = value.path ?? value.file;
  if (tool === "search") return `search ${value.pattern ?? value.query ?? ""}${path ? ` in ${path}` : ""}`;
  if (typeof path === "string") return `${tool.replace(/_file$/, "")} ${path}`;
  const rest = Object.keys(value).length ? JSON.stringify(value) : "";
  return rest && rest !== "{}" ? `${tool} ${rest}` : tool;
}

const CAUSES = /** @type {Record<string, string>} */ ({
  parent: "Stopped with the agent that started it", closing: "Stopped because the session was closed",
  worker_lost: "Interrupted: worker died, result unknown", worker_shutdown: "Interrupted: the worker was shut down",
});

/** What was used up, as far as the end itself says it. @param {any} data of TurnInterrupted */
function limitWords({ which, steps_kept: steps, usage, cost, known_cost: known = cost }) {
  const tokens = (usage?.input_tokens || 0) + (usage?.output_tokens || 0);
  const words = /** @type {Record<string, string>} */ ({
    steps: count(steps, "step"), wall_s: "the time a turn may work", tokens: count(tokens, "token"), cost: `${money(known)} for one turn`, day_cost: "what a session may cost on one day",
  });
  return words[which] ? `: ${words[which]}` : "";
}

/** The headline of a failed turn. @param {any} error of TurnFailed */
export const failedWords = (error) => (error?.code === "repeated_call" ? "Ended by a limit: the same call again and again" : "The turn failed");

/** What became of a sub-agent's answer after which it had another turn. @param {string} [outcome] of its call, once that has settled */
export const earlierAnswer = (outcome) => (!outcome ? "Its next answer replaces this one" : outcome === "ok" ? "Replaced by its next answer" : "The agent above did not get this answer");

/** What waits for a person; the clock beside it is that of the one that waits longest. @param {number} n */
export const approvals = (n) => (n > 1 ? `Waiting for ${n} approvals` : "Waiting for approval");

/** Whether somebody asked for that end. @param {string} cause */
export const byPerson = (cause) => ["person", "token", "admin"].includes(cause);

/** The headline of an ended turn. @param {any} data of TurnInterrupted @param {Actor | null} actor who asked, where somebody did */
export function stoppedBy(data, actor) {
  if (byPerson(data.cause)) return `Stopped by ${actorName(actor)}${actor ? fromDevice(actor) : ""}`;
  if (data.cause === "budget") return `Ended by a limit${limitWords(data)}`;
  return CAUSES[data.cause] || "Stopped";
}

/** That a turn was given back, and what became of the reply that was under way then. @param {any} data of TurnHandedOver */
export const handedOverWords = ({ at }) => (at === "model" ? "Handed over: worker left, the unfinished reply is begun anew by another" : "Handed over: worker left, waits for another");

const ENDED_BY = /** @type {Record<string, string>} */ ({
  fence: "cut off, worker did not answer", sweep: "ended after its worker was gone", request: "no worker had it, ended at once",
});
/** @param {string} endedBy @returns {string} empty where the worker itself ended it, as it should */
export const endedByWords = (endedBy) => ENDED_BY[endedBy] || "";

const OUTCOMES = /** @type {Record<string, [string, string]>} */ ({
  ok: ["done", "ok"], error: ["failed", ""], denied: ["not allowed", ""], interrupted: ["ended by the stop", "bad"], not_run: ["did not run", ""], lost: ["worker died, result unknown", "bad"],
});

/** What ended a call whose turn nobody stopped. */
const ENDED_WITH = /** @type {Record<string, string>} */ ({
  worker_shutdown: "ended, the worker was shut down", worker_lost: "ended, the worker died", budget: "ended by a limit", parent: "ended with the agent above it", closing: "ended with the session",
});
/** @param {string} cause @returns {string} empty where somebody stopped it */
export const endedWith = (cause) => ENDED_WITH[cause] || "";

/**
 * Everything a call asked for, where its one line does not say it.
 * @param {string} tool
 * @param {any} args
 * @returns {string} empty where the line says it all
 */
export function callInFull(tool, args) {
  return laidOpen(fullOfCall(tool, args));
}

/** @param {string} tool @param {any} args @returns {string} */
function fullOfCall(tool, args) {
  if (!args || typeof args !== "object" || args.erased) return "";
  const line = callLine(tool, args);
  if (tool === "delegate") return ""; // its task stands in its own timeline
  if (tool === "shell") return line.length > 72 || line.includes("\n") ? line : "";
  if (tool === "write_file" && typeof args.content === "string") return args.content;
  if (tool === "edit_file" && typeof args.old_text === "string") return [...marked("-", args.old_text), ...marked("+", String(args.new_text ?? ""))].join("\n");
  return Object.entries(args).filter(([name]) => name !== "path").map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
}

/** @param {string} mark @param {string} text */
const marked = (mark, text) => (text ? text.replace(/\n$/, "").split("\n").map((line) => `${mark} ${line}`) : []);

/**
 * How a call ended, and the class of its colour.
 * @param {any} data of ToolSettled, and the `cause` of its turn's end, once that is known
 * @param {Actor} [gone] who ended what it left running in the background, once that has ended
 * @returns {[string, string]}
 */
export function outcomeWords(data, gone) {
  const [words, colour] = OUTCOMES[data.outcome] || [String(data.outcome), ""];
  const parts = [words];
  if (data.outcome === "error" && data.exit !== null && data.exit !== undefined) parts[0] = `failed, exit ${data.exit}`;
  if (data.outcome === "interrupted" && ENDED_WITH[data.cause]) parts[0] = ENDED_WITH[data.cause];
  const ended = data.processes?.ended?.length || 0;
  if (data.outcome === "interrupted" && ended) parts.push(count(ended, "process", "processes"));
  else if (!["not_run", "denied", "lost"].includes(data.outcome) && data.duration_ms !== undefined && data.duration_ms !== null) parts.push(duration(data.duration_ms));
  if (data.processes?.background?.length) parts.push(gone ? `its background ended${gone.kind === "system" ? "" : ` by ${actorName(gone)}`}` : "left running in the background");
  return [parts.join(", "), colour];
}

/** The shell that a command was given to: nobody wrote that. */
const WRAPPER = /^\S*\/(?:ba)?sh (?:--noprofile --norc )?-c /;

/** What is said to the model alone, where a command runs on. */
const RUNS_ON = /\n?\[It runs on in the background, its output goes to [^\n]*\]$/;
/** The output of a call that left something running, without that. @param {string} text */
export const withoutNote = (text) => text.replace(RUNS_ON, "");

/** Processes as one would name them, inside a sentence. @param {any[]} [list] of `{pid, command}` */
export function processNames(list = []) {
  const name = (/** @type {any} */ command) => (typeof command === "string" && command ? apart(command.replace(WRAPPER, "")) : "a process");
  return list.map(({ pid, command }) => `${name(command)} (${pid})`).join(", ");
}

/**
 * How what ran in the background ended, or that it did not (E13, E7).
 * @param {any} data of ProcessesEnded
 * @param {Actor} actor
 * @param {{ command?: string, left?: any[], closed?: boolean }} known what its agent wrote; what its call left running; whether the session was closed before
 */
export function backgroundWords({ processes: { ended, surviving }, why }, actor, { command = "", left = [], closed = false } = {}) {
  const by = actor.kind === "system" ? "" : actorName(actor);
  if (surviving.length) return `Outlived its kill${by && ` by ${by}`}: ${processNames(surviving)}`;
  const list = ended.length ? ended : left;
  const written = command && apart(startOf(command, COMMAND_CHARS));
  const names = written || processNames(list);
  const what = list.length > 1 && !written ? "background processes" : "a background process";
  const head = closed ? `With the session ended ${what}` : by ? `${by} ended ${what}` : `${what[0].toUpperCase()}${what.slice(1)} ended${why ? " with its worker" : ""}`;
  return names ? `${head}: ${names}` : head;
}

/** Processes that outlived their kill, as one would name them. @param {any} processes of a settlement or a terminal @returns {string} empty where there are none */
export const survivors = (processes) => processNames(processes?.surviving);

/** What an ended turn left running, and what that means for what waits (E7). @param {any} data of a terminal @returns {string} empty where all had ended */
export function leftWords({ processes, note }) {
  const named = survivors(processes);
  const left = named ? `Still running when the turn ended: ${named}.` : note === "held_processes" ? "It is not known that everything has ended." : "";
  return note === "held_processes" ? `${left} What waits stays paused until somebody sends it.` : left;
}

const WITHDRAWN = /** @type {Record<string, string>} */ ({
  client_retracted: "taken back", promoted: "sent at next step instead", cleared: "given back to its author", turn_interrupted: "dropped with the stopped turn",
  turn_failed: "dropped with the failed turn", loop_closed: "given back, the sub-agent has ended", session_closed: "given back, the session was closed",
  sender: "taken back", owner: "taken back", as_input: "sent after this turn instead",
});
/** @param {string} reason @param {boolean} [stopped] the agent it was for did not end by itself */
export const withdrawnWords = (reason, stopped = false) => (stopped && reason === "loop_closed" ? "given back, the sub-agent was stopped" : WITHDRAWN[reason] || reason);

/** Reasons one tap away. */
export const REASONS = ["wrong direction", "wrong files or branch", "stuck or too slow", "too expensive", "seen enough"];

const MODES = /** @type {Record<string, string>} */ ({ plan: "plans only", ask: "asks before each command", auto: "runs freely, asks before risky commands" });
/** @param {string} mode */
export const modeWords = (mode) => MODES[mode] || mode;

/** @typedef {{ kind: string, value: unknown }} Rule a standing answer; its value is a text, or was erased */

/** A standing answer: the words, and the code they end with. @param {Rule} rule @returns {[string, string]} */
export function ruleWords({ kind, value }) {
  if (typeof value !== "string") return ["nothing any more, its words were erased", ""];
  if (kind === "command") return ["exactly the command", laidOpen(value)];
  if (kind === "command_prefix") return ["every command that begins with", laidOpen(value)];
  return [value.endsWith("/") ? "changes below" : "changes to", laidOpen(value)];
}

/** The same inside a sentence. @param {Rule} rule */
export function ruleSentence(rule) {
  const [words, code] = ruleWords(rule);
  return code ? `${words} ${apart(code)}` : words;
}

const MAY = /** @type {Record<string, string>} */ ({ shell: "run this command", write_file: "write this file", edit_file: "make this change" });
/** What an approval asks. @param {string} tool */
export const mayIt = (tool) => `May it ${MAY[tool] || `use ${tool}`}?`;

/** Why it asks. @param {string} question `effect` or `risk` */
export const whyItAsks = (question) => (question === "risk" ? "This agent’s rules call it risky." : "It changes something, and this agent asks before each command and each change.");

/** Why an approval was closed without an answer. @param {string} reason of GateClosed @param {Actor} by */
export function closedWords(reason, by) {
  if (reason === "stop") return "Not asked any more: stopped";
  if (reason === "steer") return `Not asked any more: ${by.kind === "system" ? "an" : `${actorName(by)}’s`} urgent message`;
  if (reason === "mode") return `Not asked any more: ${by.kind === "system" ? "the mode changed" : `${actorName(by)} changed the mode`}`;
  return "Not asked any more: the turn has ended";
}

/** The bytes of a file, as people know them: "812 bytes", "14 KB", "1.2 MB". @param {number} bytes @returns {string} */
export function fileSize(bytes) {
  if (bytes < 1000) return count(bytes, "byte");
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} KB`;
  const megabytes = bytes / 1e6;
  return `${megabytes < 9.95 ? Number(megabytes.toFixed(1)) : grouped(Math.round(megabytes))} MB`;
}

/** Bytes for a person. @param {number} bytes @returns {string} */
export function size(bytes) {
  if (bytes < 10_240) return `${grouped(bytes)} bytes`;
  return bytes < 1_048_576 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1_048_576).toFixed(2)} MiB`;
}
