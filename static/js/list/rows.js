/** The rows of the session list: drawn from the feed's frames, each in the place its person keeps it. */
import { byId, el, fill, icon, setAttribute, write } from "../dom.js";
import { count, since, stopCounting } from "../clock.js";
import { face } from "../session/presence.js";
import { ago, apart, approvals, count as counted, counting, doing, money, plain } from "../words.js";

/**
 * One session as the feed tells of it; a row that was only served has no more than its id.
 * @typedef {{ id: string, title: string, state: string, since: string, active_at?: string, created_by?: string, role?: string,
 *   pinned?: boolean, archived?: boolean, people?: { id: string, name: string }[], cost?: unknown, phase?: string | null, tool?: string | null,
 *   agents?: number, asks?: number, asked_by?: string | null, held?: number, background?: number, model?: string, gone?: boolean }} Row
 */

const WORDS = /** @type {Record<string, string>} */ ({ idle: "Nothing running", waiting: "Waiting for a worker", running: "Running", approval: "Waiting for approval", stopping: "Stopping", closing: "Closing", closed: "Closed" });
const PHASES = /** @type {Record<string, string>} */ ({ model: "Thinking", retry: "Waiting to ask the model again", delegate: "Waiting for a sub-agent" });
/** Colours of states: a person is needed, or nobody. */
const SHOWN = /** @type {Record<string, string>} */ ({ approval: "waiting", closing: "stopping", waiting: "idle" });
const CLOCKED = ["running", "approval", "stopping"];
const FACES = 4;

const list = byId("sessions");

/** Something is under way, or about to be. @param {Row} row */
export const active = (row) => ["waiting", "running", "approval", "stopping"].includes(row.state) || (row.background || 0) > 0;

/** What a row's session is doing this moment, without a clock. The server says the same in `pages/words.py`. @param {Row} row */
export function inWords(row) {
  if (row.state === "stopping" && row.asked_by) return `Stopping, asked by ${apart(row.asked_by)}`;
  const words = row.state === "approval" ? approvals(row.asks || 0) : WORDS[row.state] || row.state;
  if (row.state === "running") {
    const now = row.phase === "tool" ? (row.tool ? doing(row.tool) : "Using a tool") : PHASES[row.phase || ""] || words;
    return (row.agents || 0) > 1 ? `${now}, ${row.agents} agents at work` : now;
  }
  return [words, row.state === "idle" && row.background && counted(row.background, "background process", "background processes"), row.held && `${counted(row.held, "message")} paused`].filter(Boolean).join(", ");
}

/** Show a state, counting where it lasts. @param {HTMLElement} state the pill @param {Row} row */
export function drawState(state, row) {
  const words = /** @type {HTMLElement} */ (state.firstElementChild);
  setAttribute(state, "data-is", SHOWN[row.state] || row.state);
  stopCounting(words);
  const text = inWords(row);
  if (CLOCKED.includes(row.state)) count(words, () => `${text}, ${counting(since(row.since))}`);
  else write(words, text);
}

/** @param {string} id @returns {HTMLElement | null} */
export const known = (id) => list.querySelector(`[data-id="${CSS.escape(id)}"]`);

/** @param {Row} row @param {boolean} filed the list shows archived sessions anyway */
export function draw(row, filed) {
  const item = known(row.id) || newItem(row);
  place(item, Boolean(row.pinned));
  write(/** @type {Node} */ (item.querySelector(".name a")), row.title);
  marks(item, row, filed);
  drawState(/** @type {HTMLElement} */ (item.querySelector(".state")), row);
  const people = row.people || [];
  const seats = /** @type {HTMLElement} */ (item.querySelector(".people"));
  fill(seats, ...people.slice(0, FACES).map((person) => face(person, "small")), people.length > FACES && el("span", { class: "face small more" }, `+${people.length - FACES}`));
  setAttribute(seats, "role", people.length > 0 && "img");
  setAttribute(seats, "aria-label", people.length > 0 && `Watching: ${people.map((person) => plain(person.name)).join(", ")}`);
  const when = /** @type {HTMLElement} */ (item.querySelector(".when"));
  count(when, () => [money(row.cost), row.state === "running" || row.state === "approval" ? "now" : ago(since(row.active_at || row.since))].filter(Boolean).join(", "));
  list.hidden = false;
  for (const id of ["welcome", "none"]) {
    const blank = document.getElementById(id);
    if (blank) blank.hidden = true;
  }
}

/** The pin before the title and the labels after it. @param {HTMLElement} item @param {Row} row @param {boolean} filed */
function marks(item, row, filed) {
  const name = /** @type {HTMLElement} */ (item.querySelector(".name"));
  const link = /** @type {HTMLElement} */ (name.querySelector("a"));
  const pin = row.pinned && icon("pin");
  if (pin) {
    pin.setAttribute("class", "icon pin");
    pin.removeAttribute("aria-hidden");
    pin.setAttribute("role", "img");
    pin.setAttribute("aria-label", "Pinned");
  }
  const labels = [row.model === "demo:" && "Demonstration", row.archived && !filed && "Archived"].filter(Boolean);
  const before = name.querySelector(".pin");
  if (Boolean(before) !== Boolean(pin)) before ? before.remove() : pin && name.prepend(pin);
  for (const old of name.querySelectorAll(".label")) old.remove();
  link.after(...labels.map((words) => el("span", { class: "label" }, String(words))));
}

/** Pinned rows stand above the others; a row stays where it is otherwise, so that nothing moves under a finger. @param {HTMLElement} item @param {boolean} pinned */
function place(item, pinned) {
  if (item.parentElement && item.hasAttribute("data-pinned") === pinned) return;
  const fresh = !item.parentElement;
  item.toggleAttribute("data-pinned", pinned);
  const focused = item.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  const first = [...list.children].find((other) => other !== item && (pinned || !other.hasAttribute("data-pinned")));
  if (fresh || pinned || first) list.insertBefore(item, first || null);
  focused?.focus();
}

/** @param {Row} row */
function newItem(row) {
  return el("li", { "data-id": row.id },
    el("div", { class: "name" }, el("a", { href: `/s/${row.id}`, dir: "auto" }, row.title)),
    el("span", { class: "state" }, el("span", { class: "num" })), el("span", { class: "people" }), el("span", { class: "when" }));
}

/** Take a row away; what had the focus gives it to the row after it. @param {string} id */
export function remove(id) {
  const item = known(id);
  const next = /** @type {HTMLElement | null} */ (item?.nextElementSibling || item?.previousElementSibling || null);
  if (item?.contains(document.activeElement)) /** @type {HTMLElement | null} */ (next?.querySelector("a"))?.focus();
  item?.remove();
  list.hidden = !list.children.length;
  const none = document.getElementById("none");
  if (none) none.hidden = !list.hidden;
}
