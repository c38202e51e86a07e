/** The session list: live, and where sessions begin. */
import { byId, el, fill, openDialog, setAttribute, write } from "./dom.js";
import { forget, isFresh, keep } from "./phone.js";
import { Refused, call } from "./rest.js";
import { count, holdClocks, sampleServerTime, since, stopCounting } from "./clock.js";
import { face } from "./session/presence.js";
import { Connection } from "./session/socket.js";
import "./times.js";
import { ago, apart, counting, money, plain } from "./words.js";

/** @typedef {{ id: string, title: string, state: string, since: string, people?: { id: string, name: string }[], cost?: unknown, gone?: boolean, phase?: string | null, asked_by?: string | null, held?: number, model?: string }} Row */

const WORDS = /** @type {Record<string, string>} */ ({ idle: "Nothing running", waiting: "Waiting for a worker", running: "Running", approval: "Waiting for approval", stopping: "Stopping", closing: "Closing", closed: "Closed" });
const PHASES = /** @type {Record<string, string>} */ ({ model: "Thinking", tool: "Using a tool", retry: "Waiting to ask the model again" });
/** Colours of states: a person is needed, or nobody. */
const SHOWN = /** @type {Record<string, string>} */ ({ approval: "waiting", closing: "stopping", waiting: "idle" });
const CLOCKED = ["running", "approval", "stopping"];
const FACES = 4;
const DEMONSTRATION = "Show me what you can do: run a few commands, change a file, and tell me what you are doing as you go.";

const list = byId("sessions");
const filter = new URLSearchParams(location.search);

/** @param {Row} row */
function draw(row) {
  const item = known(row.id) || newItem(row);
  const state = /** @type {HTMLElement} */ (item.querySelector(".state"));
  const words = /** @type {HTMLElement} */ (state.firstElementChild);
  write(/** @type {Node} */ (item.querySelector("a")), row.title);
  setAttribute(state, "data-is", SHOWN[row.state] || row.state);
  drawState(words, row);
  const people = row.people || [];
  const place = /** @type {HTMLElement} */ (item.querySelector(".people"));
  fill(place, ...people.slice(0, FACES).map((person) => face(person, "small")), people.length > FACES && el("span", { class: "face small more" }, `+${people.length - FACES}`));
  setAttribute(place, "aria-label", people.length > 0 && `Watching: ${people.map((person) => plain(person.name)).join(", ")}`);
  const when = /** @type {HTMLElement} */ (item.querySelector(".when"));
  count(when, () => [money(row.cost), row.state === "running" || row.state === "approval" ? "now" : ago(since(row.since))].filter(Boolean).join(", "));
  list.hidden = false;
  const welcome = document.getElementById("welcome");
  if (welcome) welcome.hidden = true;
}

/** What a row's session is doing this moment. @param {Row} row */
function inWords(row) {
  if (row.state === "stopping" && row.asked_by) return `Stopping, asked by ${apart(row.asked_by)}`;
  return (row.state === "running" && PHASES[row.phase || ""]) || WORDS[row.state] || row.state;
}

/** @param {HTMLElement} words @param {Row} row */
function drawState(words, row) {
  const text = inWords(row);
  stopCounting(words);
  if (CLOCKED.includes(row.state)) count(words, () => `${text}, ${counting(since(row.since))}`);
  else write(words, row.held ? `${text}, ${row.held} paused` : text);
}

/** @param {string} id @returns {HTMLElement | null} */
const known = (id) => list.querySelector(`[data-id="${CSS.escape(id)}"]`);

/** @param {Row} row */
function newItem(row) {
  const item = el("li", { "data-id": row.id },
    el("div", { class: "name" }, el("a", { href: `/s/${row.id}`, dir: "auto" }, row.title), row.model === "demo:" && el("span", { class: "label" }, "Demonstration")),
    el("span", { class: "state" }, el("span", { class: "num" })), el("span", { class: "people" }), el("span", { class: "when" }));
  list.prepend(item);
  return item;
}

/** A session this page has not heard of is read once, since the feed says only what changes. @param {Row} row */
async function introduce(row) {
  const whole = row.model ? row : await call("GET", `/sessions/${row.id}`).catch(() => ({}));
  draw({ ...row, model: whole.model });
}

/** @param {Row} row */
function fits(row) {
  const words = (filter.get("q") || "").toLowerCase();
  const state = filter.get("state");
  return row.title.toLowerCase().includes(words) && (!state || state === row.state) && !filter.has("cursor");
}

/** @param {any} frame */
function onFrame(frame) {
  sampleServerTime(frame.now);
  if (frame.t !== "session") return;
  if (frame.gone) known(frame.id)?.remove();
  else if (known(frame.id)) draw(frame);
  else if (fits(frame)) void introduce(frame);
}

/**
 * Make a session, send its first message, go there. Each command has its id from the start, so that pressing again after
 * a lost answer makes nothing twice.
 * @param {Record<string, string>} body @param {string} text @param {{ session: string, input: string }} ids
 */
async function begin(body, text, ids) {
  const made = await call("POST", "/sessions", { id: ids.session, body });
  await call("POST", `/sessions/${made.id}/inputs`, { id: ids.input, body: { text } });
  location.assign(`/s/${made.id}`);
}

function listenDemonstration() {
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("demonstrate"));
  const ids = newIds();
  button?.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await begin({ model: "demo:", title: "Demonstration" }, DEMONSTRATION, ids);
    } catch (error) {
      fill(byId("says"), el("p", { class: "says", "data-is": "bad", role: "alert" }, /** @type {Refused} */ (error).detail));
      button.disabled = false;
    }
  });
}

const newIds = () => ({ session: crypto.getRandomValues(new Uint32Array(4)).join("-"), input: crypto.getRandomValues(new Uint32Array(4)).join("-") });

function listenCreate() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("create"));
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
  const says = /** @type {HTMLElement} */ (dialog.querySelector("[data-says]"));
  const start = /** @type {HTMLButtonElement} */ (form.querySelector(".btn.main"));
  let ids = newIds();
  // The demonstration runs freely as it is harmless; everything else asks, unless somebody chooses otherwise.
  let chosen = false;
  form.addEventListener("input", (event) => {
    chosen ||= /** @type {HTMLInputElement} */ (event.target).name === "mode";
    const usual = /** @type {HTMLInputElement} */ (form.elements.namedItem("model")).value.trim().startsWith("demo:") ? "auto" : "ask";
    if (!chosen) /** @type {RadioNodeList} */ (form.elements.namedItem("mode")).value = usual;
  });
  byId("new-session").addEventListener("click", () => openDialog(dialog));
  dialog.querySelector("[data-closes]")?.addEventListener("click", () => dialog.close());
  form.addEventListener("input", () => (ids = newIds()));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
    const { text, ...rest } = fields;
    const body = Object.fromEntries(Object.entries(rest).filter(([, value]) => value.trim()));
    start.disabled = true;
    fill(says);
    try {
      await begin(body, text, ids);
    } catch (error) {
      fill(says, el("p", { class: "says", "data-is": "bad", role: "alert" }, /** @type {Refused} */ (error).detail));
      start.disabled = false;
    }
  });
}

for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-scripted]"))) element.hidden = false;
listenDemonstration();
listenCreate();
const words = /** @type {Record<string, string>} */ ({ live: "Live", offline: "Offline", reconnecting: "Reconnecting", updating: "Updating", signed_out: "Signed out" });
const connection = new Connection({
  path: "/ws/", check: "/me", cursor: 0, replays: false, onFrame,
  onStatus(status) {
    holdClocks(status === "live" || status === "connecting" ? null : connection.confirmedAt);
    const place = byId("connection");
    write(place, words[status] || "");
    place.dataset.is = status === "live" ? "live" : "lost";
    if (status === "live") isFresh();
    if (status === "signed_out") void forget().then(() => location.reload());
  },
});
connection.start();
document.addEventListener("visibilitychange", () => document.hidden && connection.status === "live" && keep());
