/** A session page: the snapshot it was served with, then the live log; everything on screen is drawn from these two. */
import { byId, fill, el, openDialog, ownTask, readJson, button } from "../dom.js";
import { listenBell } from "../notifications_bell.js";
import { forget, isFresh, isStored, keep } from "../phone.js";
import { Refused, call, commandId } from "../rest.js";
import { holdClocks, sampleServerTime } from "../clock.js";
import { plain } from "../words.js";
import { Agents } from "./agents.js";
import { Approvals } from "./approvals.js";
import { Composer } from "./composer.js";
import { listenDialogs, typing } from "./dialogs.js";
import { listenKeeping } from "./keeping.js";
import { Pages } from "./pages.js";
import { drawPresence } from "./presence.js";
import { Queue, firstPaused } from "./queue.js";
import { Receipt } from "./receipt.js";
import { Side } from "./side.js";
import { Connection } from "./socket.js";
import { evolve, primary } from "./state.js";
import { Mode, Rules } from "./standing.js";
import { Stop } from "./stop.js";
import { Strip, asked, isStale, waiting } from "./strip.js";
import { Timeline } from "./timeline.js";
import { View, codePoints } from "./view.js";

/** @typedef {import("./state.js").LogEvent} LogEvent */

let toGo = location.hash; // asked for while nothing is drawn yet
let goes = (/** @type {string} */ hash) => {
  toGo = hash;
};
// Before the first await: what a notification asks for is told once the document is there, and only once.
addEventListener("hashchange", () => goes(location.hash));
navigator.serviceWorker?.addEventListener("message", ({ data }) => data?.go && goes(data.go));

const boot = readJson("boot");
/** @type {import("./state.js").State} */
let state = boot.state;
const you = boot.you;
const session = /** @type {string} */ (boot.session.id);
let title = /** @type {string} */ (boot.session.title);
const view = new View(boot.texts, you.id, boot.files);
view.main = primary(state)?.id ?? null;
meet(boot.members);
for (const loop of Object.values(state.loops)) for (const entry of [...loop.inbox, ...loop.steers]) view.authors.set(entry.id, entry.author);
for (const { id, ...rule } of boot.rules) view.rules.set(id, rule);
for (const event of boot.events) view.apply(event);
view.settle(state);
for (const loop of Object.values(state.loops)) if (loop.turn) view.begun(loop.turn);
view.retryable(state);
sampleServerTime(boot.now);
await ownTask();

/** Pieces of live text that came before the replay was over. @type {any[]} */
let early = [];
/** @type {Set<string>} commands of this page, to know what it did itself from what others did */
const ours = new Set();
let live = false;
let lostAt = performance.now();
let repairedAt = -Infinity;
const REPAIR_MS = 5_000;
/** Long enough to read what a second Esc would do. */
const ESCAPES_MS = 1_500;
const TEXT_PART = 262_144;
const KEEP_MS = 60_000;
const SLOW_MS = 600;
/** What covers less of the page is no keyboard. */
const KEYBOARD_PX = 80;

const ENDED = /** @type {Record<string, string>} */ ({
  signed_out: "This device was signed out. What you see is what was known then; it is not brought up to date any more.",
  not_allowed: "You may not look at this session any more. What you see is what was known then.",
  gone: "This session cannot be found any more. What you see is what was known then.",
});

const can = (/** @type {string} */ verb) => you.can.includes(verb);

const connection = new Connection({
  path: `/ws/sessions/${session}/`, check: `/sessions/${session}`, cursor: boot.seq, onFrame,
  onStatus(status) {
    if (status === "live") {
      lostAt = 0;
      showFresh();
    } else {
      live = false;
      lostAt ||= performance.now();
    }
    drawAround();
    setTimeout(drawAround, 1_100);
    if (status === "signed_out") void forget();
    if (!ENDED[status]) return;
    leaveDock();
    fill(byId("trouble"), el("div", { class: "warn", role: "alert" }, el("span", {}, ENDED[status], " ", status === "signed_out" && el("a", { href: `/signin/?next=${encodeURIComponent(location.pathname)}` }, "Sign in again"))));
  },
});

const sayForm = document.getElementById("say");
const strip = new Strip({ title: byId("title"), state: byId("state"), paused: byId("paused"), connection: byId("connection"), announce: byId("announce") });
const timeline = new Timeline({
  place: byId("line"), column: byId("timeline"), view, pill: /** @type {HTMLButtonElement} */ (byId("newer")), more: byId("older"), asks: byId("asks"),
  context: { readText, session, rules: view.rules, putInBox: sayForm && ((text, loop, files) => composer?.putIn(text, loop, usable(files))), retry: can("submit") ? (input) => attempt(() => call("POST", `/sessions/${session}/inputs/${input}/retry`)) : null }, onDrawn: drawAround, onEnd: () => pages.toLive(),
});
const pages = new Pages({
  session, oldest: boot.events[0]?.seq || 1, live: view, timeline, scroller: byId("line"), older: byId("older"), later: byId("later"), readState: () => state,
});
const leaveDrawer = () => /** @type {HTMLDialogElement} */ (byId("drawer")).close();
const side = new Side({ place: byId("turns"), session, jump: async (turn, seq, end) => {
  leaveDrawer();
  const arrived = await pages.jump(turn, seq);
  if (arrived && end) timeline.showEnd(turn);
} });
const agents = new Agents({
  place: byId("agents"), list: byId("background"), can: you.can, kill: (call, turn) => command("kill", { call, turn }),
  show: (loop) => {
    leaveDrawer();
    pages.showAgent(loop);
  },
  stop: (loop) => {
    leaveDrawer();
    void stop?.press({ loop, queue: "clear" });
  },
  message: sayForm && can("steer") ? (loop) => {
    leaveDrawer();
    composer?.aim(loop);
  } : null,
});
const mode = new Mode({
  place: byId("mode-words"), dialog: /** @type {HTMLDialogElement | null} */ (document.getElementById("mode")), change: (chosen) => command("set_mode", { mode: chosen }),
});
const rules = new Rules({
  place: byId("rules"), view, revoke: can("resolve") ? (rule) => attempt(() => call("DELETE", `/sessions/${session}/rules/${rule}`)) : null,
});
const receipt = new Receipt({
  place: byId("notice"), you,
  actions: {
    sendNext: () => sendNext(),
    giveBack: () => command("release", { to: "authors" }),
    giveReason: (turn, reason) => attempt(() => call("PATCH", `/interruptions/${turn}`, { body: { reason } })),
  },
});
const queue = new Queue({
  place: byId("waiting"), dialog: /** @type {HTMLDialogElement | null} */ (document.getElementById("edit")), can: you.can, command, view,
  changeSteer: (id, body) => void attempt(() => call("PATCH", `/sessions/${session}/steers/${id}`, { body }), body.text),
});
const stopForm = document.getElementById("stop");
const approvals = new Approvals({
  place: byId("asks"), mayAnswer: can("resolve"), connection, view, context: { readText, session, rules: view.rules, putInBox: null, retry: null },
  show: () => pages.toLive(), tell, keep: (text) => Boolean(composer?.giveBack(text)), leave: () => byId("line").focus({ preventScroll: true }),
});
const composer = sayForm && new Composer({ form: /** @type {HTMLFormElement} */ (sayForm), says: byId("says"), connection, session, you: you.id, readState: () => state, view });
composer?.begin(boot.events);
const stop = stopForm && new Stop({
  form: /** @type {HTMLFormElement} */ (stopForm), place: byId("stop-says"), connection, session, readState: () => state, takeText: () => composer?.takeText() || null,
});

/** @param {any} frame */
function onFrame(frame) {
  const handle = FRAMES[frame.t];
  if (!handle) return;
  try {
    handle(frame);
  } catch (error) {
    // One bad event must not freeze the page: say so, and let the reader have the truth by loading it anew.
    console.error(frame, error);
    fill(byId("trouble"), el("div", { class: "warn" }, el("span", {}, "This page lost track of the session."), button("Load it again", () => location.reload())));
  }
  timeline.schedule();
}

/** @type {Record<string, (frame: any) => void>} */
const FRAMES = {
  event: onEvent,
  delayed: drawAround,
  hello(frame) {
    sampleServerTime(frame.now, true);
    onYou(frame.you);
    early = frame.live.steps.slice();
    for (const phase of frame.live.phases) view.setPhase(phase);
    drawPresence(byId("watching"), frame.live.presence, you.id);
    view.meet(frame.live.presence);
  },
  caught_up() {
    live = true;
    for (const piece of early.splice(0)) stream(piece);
    timeline.speak();
    void pages.findWords();
  },
  delta: (frame) => void (live ? stream(frame) : early.push(frame)),
  stopping: (frame) => view.acknowledged(frame),
  retrying: (frame) => view.setPhase({ ...frame, phase: "retry" }),
  leaving: (frame) => view.leaving(frame.turn, frame.grace_ms),
  presence(frame) {
    drawPresence(byId("watching"), frame.people, you.id);
    view.meet(frame.people);
  },
  you: (frame) => onYou(frame.you),
  beat: (frame) => sampleServerTime(frame.now),
};

/** @param {LogEvent} event */
function onEvent(event) {
  state = evolve(state, event);
  view.apply(event);
  view.retryable(state);
  if (live) sampleServerTime(event.at);
  if (event.type === "SessionChanged" && event.data.title) title = event.data.title;
  if (event.type === "TurnInterrupted" && event.loop === view.main) stop?.ended(event.turn || "");
  if (event.type === "MemberChanged" && event.data.role && !view.people.has(event.data.person)) void meetMembers();
  if (event.type === "InputCancelled" || event.type === "SteerWithdrawn") returned(event);
  composer?.seen(event.cause);
  stop?.seen(event.cause);
}

/**
 * Words that come back go into their author's box, if it is empty: on the page that took them back, and on all pages of
 * the author when somebody else, or a stop, gave them back. Whatever becomes of that, they stand in the author's timeline.
 * @param {LogEvent} event
 */
function returned(event) {
  const { input, steer, reason, text } = event.data;
  if (view.authors.get(input || steer)?.id !== you.id || ["promoted", "as_input"].includes(reason)) return;
  const tookBack = ["client_retracted", "sender", "owner"].includes(reason) && event.actor.id === you.id;
  if (tookBack && !ours.has(event.cause || "")) return;
  const loop = event.loop && event.loop !== view.main ? event.loop : "";
  const files = usable(view.files.get(input || steer));
  if (typeof text === "string") composer?.giveBack(text, loop, files);
  else if (text?.ref) void attempt(async () => composer?.giveBack(await readText(text.ref), loop, files));
}

/** Files that can be sent again: those that were not erased. @param {import("./files.js").SentFile[] | undefined} files */
const usable = (files) => (files || []).filter((file) => typeof file.name === "string");

let meeting = 0;

/** Who takes part, by name: a change of that says whom by id. Observers are not told. One question at a time. */
async function meetMembers() {
  if (you.role === "observer" || (meeting += 1) > 1) return;
  for (let asked = 0; asked < meeting; ) {
    asked = meeting; // whoever comes while the answer is on its way may not be in it
    const { items } = await call("GET", `/sessions/${session}/members`).catch(() => ({ items: [] }));
    meet(items);
  }
  meeting = 0;
  timeline.schedule();
}

/** @param {{ person: string, name: string }[]} members */
function meet(members) {
  view.meet(members.map(({ person, name }) => ({ id: person, name })));
}

/** Rights changed while the page is open: what the page offers is made anew by the server. @param {any} now */
function onYou(now) {
  if (JSON.stringify([...now.can].sort()) !== JSON.stringify([...you.can].sort())) location.reload();
}

/** @param {any} piece */
function stream(piece) {
  if (view.stream(piece) !== "gap" || performance.now() - repairedAt < REPAIR_MS) return;
  repairedAt = performance.now();
  connection.replace();
}

function drawAround() {
  holdClocks(isStale(connection.status, lostAt) ? connection.confirmedAt : null);
  strip.draw({ state, view, title, status: connection.status, delayed: connection.delayed, confirmedAt: connection.confirmedAt, lostAt });
  receipt.draw({ state, view });
  queue.draw(state);
  composer?.draw();
  stop?.draw();
  side.draw(state, view);
  agents.draw(state, view);
  approvals.draw(state);
  mode.draw(state);
  rules.draw(state);
  byId("nothing").hidden = view.blocks.some((block) => block.kind === "turn" || !block.item.hidden);
  if (!byId("nothing").hidden && waiting(state).inputs) {
    fill(byId("nothing"), el("b", {}, "A message waits for a worker"), el("span", {}, "What the agent does with it appears here, on every screen that watches."));
  }
  const dock = document.getElementById("dock");
  if (dock) dock.hidden = state.status === "closed" && can("submit");
  byId("closed").hidden = state.status !== "closed";
  drawWhileOpen(state.status === "open");
  document.title = `${asked(state).length ? "Approval: " : ""}${plain(title)} · steerweb`;
}

/** What a closed session refuses is not offered; a dialog about it that is open closes. @param {boolean} open */
function drawWhileOpen(open) {
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-while-open]"))) {
    if (!(element instanceof HTMLDialogElement)) element.hidden = !open;
    else if (!open) element.close();
  }
}

/** Nothing can be sent or stopped from here any more: what is in the box stays to be read and copied. */
function leaveDock() {
  for (const gone of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#stop, #say .ways, #say button"))) gone.hidden = true;
  const box = sayForm?.querySelector("textarea");
  if (box) box.readOnly = true;
}

/** The first paused message goes on; the others stay. */
function sendNext() {
  const next = firstPaused(state);
  if (next) command("release", next.what);
}

/** @param {string} verb @param {Record<string, any>} body */
function command(verb, body) {
  const id = commandId();
  ours.add(id);
  const unsent = el("div", { class: "warn calm", role: "status", "data-keeps": true }, el("span", {}, "Not received yet. It is sent again as soon as the connection is back."), button("Give it up", () => {
    connection.forget(id);
    unsent.remove();
    if (body.text) composer?.putIn(body.text);
  }));
  const slow = setTimeout(() => byId("trouble").append(unsent), SLOW_MS);
  const over = () => {
    clearTimeout(slow);
    unsent.remove();
  };
  void attempt(() => connection.send({ t: verb, id, ...body }).finally(over), body.text);
}

/** @param {() => Promise<any>} act @param {string} [text] what one has written for it: a refusal does not lose it @returns {Promise<any>} whether it was done */
async function attempt(act, text) {
  const trouble = byId("trouble");
  const clear = () => trouble.querySelectorAll(":scope > :not([data-keeps])").forEach((line) => line.remove());
  try {
    await act();
    clear();
    return true;
  } catch (error) {
    clear();
    const put = text && button("Put your words into the box", () => {
      composer?.putIn(text);
      line.remove();
    });
    const line = el("div", { class: "warn calm", role: "alert", "data-keeps": Boolean(text) }, el("span", {}, /** @type {Refused} */ (error).detail), put, button("Close", () => line.remove(), { kind: "quiet push", iconName: "close" }));
    trouble.append(line);
    return false;
  }
}

/** @param {string} text @param {"alert" | "status"} [role] */
function tell(text, role = "status") {
  fill(byId("trouble"), el("div", { class: "warn calm", role }, el("span", {}, text), button("Close", () => fill(byId("trouble")), { kind: "quiet push", iconName: "close" })));
}

/** A long text in parts, put together; offsets count code points. @param {string} ref @returns {Promise<string>} */
async function readText(ref) {
  let text = "";
  for (let offset = 0, total = 1; offset < total; ) {
    const part = await call("GET", `/sessions/${session}/texts/${ref}?offset=${offset}&length=${TEXT_PART}`, { timeout: 30_000 });
    if (!part.text) break;
    text += part.text;
    offset += codePoints(part.text);
    total = part.total;
  }
  return text;
}

/** A page from this device's store can be used once it shows what is true. */
function showFresh() {
  if (!isStored()) return;
  isFresh();
  if (sayForm) sayForm.hidden = false;
}

let keptSeq = boot.seq;

/** What was last seen is stored for a time without a connection. */
function listenLeaving() {
  const store = () => {
    if (connection.status !== "live" || connection.cursor === keptSeq) return;
    keptSeq = connection.cursor;
    keep();
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) store();
  });
  setInterval(store, KEEP_MS);
}

/** To what a notification, or an address, is about: an approval or a turn. @param {string} hash */
function goTo(hash) {
  const what = hash.slice(1);
  if (what.startsWith("ask-")) approvals.focus(what.slice(4));
  else if (what) void attempt(() => pages.find(what.replace(/^turn-/, "")));
}

function listenKeys() {
  let escapedAt = -Infinity;
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open], [popover]:popover-open")) return;
    if (event.repeat || !stop?.active) return;
    if (event.timeStamp - escapedAt < ESCAPES_MS) {
      escapedAt = -Infinity;
      stop.arm(0);
      void stop.press();
    } else {
      escapedAt = event.timeStamp;
      stop.arm(ESCAPES_MS);
    }
  });
  addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "F6") {
      event.preventDefault();
      goRound(event.shiftKey ? -1 : 1);
    }
    if (typing(event.target)) return;
    if (event.key === "a" && asked(state).length) approvals.focusNext();
    if (event.key === "/" && sayForm) {
      event.preventDefault();
      sayForm.querySelector("textarea")?.focus();
    }
  });
}

/** The parts of the page, in the order one sees them; with F6 one leaves any of them, the message box too. @param {1 | -1} by */
function goRound(by) {
  const parts = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".app > :is(.strip, .notice, .side, .line, .dock)")]);
  const stops = parts.flatMap((part) => (firstIn(part) ? [{ part, first: firstIn(part) }] : []));
  const from = stops.findIndex(({ part }) => part.contains(document.activeElement));
  const to = from === -1 ? stops.findIndex(({ part }) => part.id === "line") : (from + by + stops.length) % stops.length;
  stops[to]?.first?.focus();
}

/** Where one begins in a part: in its message box, else at itself, else at the first thing to press. @param {HTMLElement} part @returns {HTMLElement | null} */
function firstIn(part) {
  const seen = (/** @type {string} */ selector) => /** @type {HTMLElement | null} */ ([...part.querySelectorAll(selector)].find((each) => each.checkVisibility()) || null);
  return part.tabIndex === 0 ? part : seen("#say textarea") || seen("a[href], button:enabled, input:enabled, [tabindex='0']");
}

/** Both columns, on screens that have no room for them. */
function fillDrawer() {
  const drawer = byId("drawer");
  const home = [byId("tree"), byId("jump")];
  const next = home.map((column) => column.nextElementSibling); // one reaches them in the order one sees them in
  const place = /** @type {HTMLElement} */ (drawer.querySelector("[data-sides]"));
  const narrow = matchMedia("(max-width: 900px), (max-height: 480px)");
  const app = byId("app");
  const move = () => home.forEach((column, at) => (narrow.matches ? place.append(column) : app.insertBefore(column, next[at])));
  narrow.addEventListener("change", move);
  move();
}

/** Where the keyboard covers the page instead of shrinking it, the dock still stands above the keyboard. */
function fitKeyboard() {
  const seen = window.visualViewport;
  const fit = () => {
    const covered = seen ? innerHeight - seen.height : 0;
    const { style } = byId("app");
    for (const name of ["height", "--seen"]) style.setProperty(name, covered > KEYBOARD_PX ? `${seen?.height}px` : "");
    if (covered > KEYBOARD_PX) scrollTo(0, 0); // a browser that pans to what has the focus pans the strip away
  };
  for (const type of ["resize", "scroll"]) seen?.addEventListener(type, fit);
  // A press that took the focus from the box would let the keyboard go, and the button would move from under the finger.
  document.querySelector(".dock")?.addEventListener("mousedown", (event) => {
    const pressed = /** @type {Element} */ (event.target).closest("button");
    if (pressed && document.activeElement?.matches(".dock textarea") && matchMedia("(pointer: coarse)").matches) event.preventDefault();
  });
  fit();
}

/** Renaming and closing: the owner's two forms. */
function listenOwner() {
  const rename = /** @type {HTMLDialogElement | null} */ (document.getElementById("rename"));
  rename?.querySelector("form")?.addEventListener("submit", (event) => {
    const fields = new FormData(/** @type {HTMLFormElement} */ (event.target));
    void attempt(() => call("PATCH", `/sessions/${session}`, { body: { title: String(fields.get("title")) } }));
  });
  document.getElementById("close")?.querySelector("form")?.addEventListener("submit", () => void attempt(() => call("POST", `/sessions/${session}/close`)));
}

for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-scripted]"))) element.hidden = isStored() && element === sayForm;
fillDrawer();
listenOwner();
listenKeeping(session, { pinned: boot.session.pinned, archived: boot.session.archived }, { done: leaveDrawer, tell });
listenKeys();
listenDialogs(session, () => openDialog(/** @type {HTMLDialogElement} */ (byId("keys"))));
if (new URLSearchParams(location.search).has("from")) sayForm?.querySelector("textarea")?.focus();
await ownTask();
drawAround();
fitKeyboard();
connection.start();
await ownTask();
byId("app").classList.remove("served");
for (const element of document.querySelectorAll("[data-served]")) element.remove();
timeline.cover(byId("notice").offsetHeight, false);
timeline.draw();
new ResizeObserver(() => timeline.cover(byId("notice").offsetHeight)).observe(byId("notice"));
new ResizeObserver(() => timeline.pin(byId("asks").offsetHeight)).observe(byId("asks"));
listenLeaving();
listenBell(byId("bell"), session, tell);
goes = goTo;
goTo(toGo);
