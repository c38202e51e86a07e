/** Every part of the screens in every state, for those who work on them: drawn by the modules that draw it elsewhere. */
import { button, byId, el, fill, icon } from "./dom.js";
import { serverNow } from "./clock.js";
import { draw as drawRow } from "./list/rows.js";
import { Card } from "./session/approval_card.js";
import { Blocks } from "./session/blocks.js";
import { DRAWINGS } from "./session/items.js";
import { face } from "./session/presence.js";
import { Receipt } from "./session/receipt.js";
import { initial } from "./session/state.js";
import { View } from "./session/view.js";

/** @typedef {import("./session/state.js").LogEvent} LogEvent */

const ago = (/** @type {number} */ seconds) => new Date(serverNow() - seconds * 1000).toISOString();
const ANA = { kind: "person", id: "ana", name: "ana", device: { kind: "phone", name: "a phone" } };
const BEN = { kind: "person", id: "ben", name: "ben", device: null };
const NONE = { ended: [], surviving: [], background: [] };
/** @type {import("./session/items.js").Context} */
const context = { readText: () => Promise.resolve(""), session: "", rules: new Map(), putInBox: null, retry: () => Promise.resolve() };

/** @param {string} name @param {...Node} parts */
function section(name, ...parts) {
  byId("parts").append(el("section", { class: "card" }, el("h2", {}, name), ...parts));
}

/** The tokens, as the stylesheet has them. */
function drawTokens() {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const root = /** @type {CSSStyleRule} */ (rules.find((rule) => rule instanceof CSSStyleRule && rule.selectorText === ":root"));
  const colours = [...root.style].filter((name) => name.startsWith("--") && root.style.getPropertyValue(name).includes("light-dark"));
  section("Colours", el("ul", { class: "plain swatches" }, ...colours.map((name) => {
    const swatch = el("i", { class: "swatch" });
    swatch.style.setProperty("background", `var(${name})`);
    return el("li", {}, swatch, el("code", {}, name));
  })));
}

function drawControls() {
  const kinds = [["", "Usual"], ["main", "Main"], ["quiet", "Quiet"], ["danger", "Danger"]];
  const off = (/** @type {HTMLButtonElement} */ one) => Object.assign(one, { disabled: true });
  const pressed = button("Pressed", () => {});
  pressed.ariaPressed = "true";
  section("Buttons", el("div", { class: "acts" }, ...kinds.map(([kind, words]) => button(words, () => {}, { kind })), pressed, button("Icon only", () => {}, { iconName: "more" })),
    el("div", { class: "acts" }, ...kinds.map(([kind, words]) => off(button(words, () => {}, { kind })))));
  section("Fields", el("label", { class: "field" }, el("span", {}, "A field"), el("input", { placeholder: "Empty" }), el("small", {}, "What it is for.")),
    el("label", { class: "field" }, el("span", {}, "Refused"), el("input", { value: "wrong", "aria-invalid": "true" }), el("small", { class: "wrong" }, "Why it is refused.")),
    el("label", { class: "choice" }, el("input", { type: "checkbox", checked: true }), "A choice"), el("label", { class: "choice" }, el("input", { type: "radio", name: "one" }), "One of several"));
  section("What is said", ...["", "ok", "wait", "bad"].map((is) => el("p", { class: "says", "data-is": is }, `says ${is}`)), el("div", { class: "warn" }, el("span", {}, "NOT sent"), button("Try again", () => {})), el("div", { class: "warn calm" }, el("span", {}, "Calm")));
  section("Icons", el("div", { class: "acts" }, ...[...document.querySelectorAll("symbol[id^='i-']")].map(({ id }) => el("span", { class: "label", title: id }, icon(id.slice(2)), id.slice(2)))));
  section("Dots, faces, labels", el("div", { class: "acts" }, ...["live", "stop", "wait", "done", "none", ""].map((kind) => el("span", {}, el("i", { class: `dot ${kind} as-sign` }), ` ${kind || "plain"}`))),
    el("div", { class: "people" }, ...["ana", "ben", "cem", "dora", "eli", "fay", "gus", "hana"].map((name, at) => face({ id: name, name, away: at === 1 })), el("span", { class: "face more" }, "+3")),
    el("div", { class: "acts" }, el("span", { class: "label" }, "Demonstration"), el("span", { class: "paused" }, "2 paused"), el("kbd", {}, "Esc"), el("code", { class: "mono" }, "make test"), el("mark", {}, "found")));
}

/** The sessions' rows: every state in words. */
function drawRows() {
  const row = { role: "owner", created_by: "ana", cost: 0.12, since: ago(38), active_at: ago(400), people: [ANA, BEN] };
  const states = [{ state: "running", phase: "tool", tool: "shell" }, { state: "running", phase: "model", agents: 3 }, { state: "approval", asks: 2 }, { state: "stopping", asked_by: "ana" }, { state: "waiting" }, { state: "idle", held: 2, background: 1 }, { state: "closing" }, { state: "closed" }];
  states.forEach((state, at) => drawRow(/** @type {any} */ ({ ...row, id: `row${at}`, title: `A session that is ${state.state}`, pinned: at === 0, ...state }), false));
}

/** A call in each of its states. */
function drawCalls() {
  const call = { key: "c", kind: "tool", call: "c1", tool: "shell", args: { command: "pytest -x tests" }, startedAt: ago(38), endedAt: ago(2), stamp: 0 };
  const settled = (/** @type {string} */ outcome, more = {}) => ({ state: "settled", text: "212 passed, 1 failed\n", outcome: { outcome, duration_ms: 2100, processes: NONE, ...more } });
  const states = [
    { state: "planned" }, { state: "asked", approval: { gate: "g", question: "effect", offers: [], at: ago(12) } }, { state: "running", live: true, said: "\x1b[32m212 passed\x1b[0m\n" },
    { state: "running", live: true, said: "", ending: true }, settled("ok"), settled("error", { exit: 1 }), settled("interrupted", { processes: { ...NONE, ended: [{ pid: 7, command: "pytest" }] } }),
    settled("interrupted", { processes: { ...NONE, surviving: [{ pid: 9, command: "npm start" }] } }), settled("ok", { processes: { ...NONE, background: [{ pid: 8, command: "npm start" }] } }),
    settled("denied"), settled("not_run"), settled("lost"), { state: "withdrawn", replacedBy: "ana" },
    { ...settled("ok"), tool: "edit_file", text: "", args: { path: "README.md", old_text: "old words\nstay\n", new_text: "new words\nstay\n" } },
  ];
  section("Calls", ...states.map((state) => {
    const drawing = DRAWINGS.tool(context);
    drawing.draw({ ...call, ...state });
    return drawing.element;
  }));
}

let seq = 0;
/** @param {string} type @param {Record<string, any>} data @param {Partial<LogEvent>} [more] @returns {LogEvent} */
const event = (type, data, more = {}) => ({ seq: (seq += 1), type, at: ago(60 - seq), loop: "main", turn: null, step: null, actor: ANA, cause: null, data, ...more });

/** A stop and what it ended; its two receipts; a failed turn. */
function drawTimeline() {
  const stopping = event("InterruptRequested", { request: "r", scope: "session", turns: ["t1"], queue: "hold", phases: { t1: "model" } });
  const ended = { request: "r", cause: "person", reason: "wrong branch", ended_by: "worker", phase: "model", acknowledged_ms: 6, settled_ms: 412, steps_kept: 1, cut_off: { text: "It was about to" }, processes: { ended: [{ pid: 7, command: "pytest" }], surviving: [], unknown: false }, inputs: { kept: [], held: ["i2"], cancelled: [] }, gates: [], cost: 0.02 };
  const log = [
    event("LoopStarted", { parent: null, agent: "main", model: "demo:", mode: "ask" }), event("InputQueued", { input: "i1", text: "Move the **settings** page", agency: "human" }),
    event("TurnStarted", { index: 1, input: "i1" }, { turn: "t1" }), event("StepPlanned", { text: "I will look at the *form* first:\n\n1. its fields\n2. what it `validates`\n\n```py\nprint(1)\n```", reasoning: "A short thought.", calls: [] }, { turn: "t1", step: 1 }),
    event("SteerQueued", { steer: "s1", text: "mind the tests", urgent: false }, { actor: BEN }), event("OutputSuperseded", { text: "An answer nobody gets.", steers: ["s1"], calls: [] }, { turn: "t1", step: 2 }),
    event("SteerDelivered", { steer: "s1" }, { turn: "t1" }), stopping, event("TurnInterrupted", ended, { turn: "t1" }),
    event("InputQueued", { input: "i3", text: "Once more" }), event("TurnStarted", { index: 2, input: "i3" }, { turn: "t2" }), event("TurnFailed", { error: { code: "provider_error", detail: "The provider answered 500 five times." }, steps: 0 }, { turn: "t2" }),
  ];
  const view = new View({}, "ana");
  const place = el("div", { class: "stack loose" });
  for (const each of log) view.apply(each);
  new Blocks(context).draw(view.blocks, place);
  section("Turns", place);
  const state = initial();
  const actions = { sendNext: () => {}, giveBack: () => {}, giveReason: () => Promise.resolve(true) };
  const you = { id: "ana", can: ["release"] };
  const [running, over] = [el("div"), el("div")];
  const begun = new View({}, "ana");
  for (const each of log.slice(0, 8)) begun.apply({ ...each, at: ago(1) });
  new Receipt({ place: running, you, actions }).draw({ state: { ...state, requests: { r: /** @type {any} */ ({ id: "r" }) } }, view: begun });
  new Receipt({ place: over, you, actions }).draw({ state, view });
  /** @type {Element} */ (running.firstElementChild).ariaLabel = "Stop receipt, under way";
  section("Stop receipts", running, over);
  const item = { key: "c", kind: "tool", stamp: 0, args: { command: "git push origin" }, approval: { question: "effect", offers: [{ kind: "command", value: "git push origin" }, { kind: "command_prefix", value: "git push" }], at: ago(12) } };
  const card = { gate: "g1", tool: "shell", item, context, forget: () => {}, show: () => {} };
  section("Approvals", new Card({ ...card, agent: "", answer: () => {} }).element, new Card({ ...card, gate: "g2", agent: "sub-agent", answer: null }).element);
}

drawTokens();
drawControls();
drawRows();
drawCalls();
drawTimeline();
const scheme = new URLSearchParams(location.search).get("scheme") || "";
document.documentElement.dataset.scheme = scheme;
fill(byId("schemes"), ...[["", "As the system has it"], ["light", "Light"], ["dark", "Dark"]].map(([name, words]) => el("a", { class: "btn", href: name ? `?scheme=${name}` : "?", "aria-current": name === scheme && "true" }, words)));
