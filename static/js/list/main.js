/** The session list: live, each person's own, and where sessions begin. */
import { byId, write } from "../dom.js";
import { forget, isFresh, keep } from "../phone.js";
import { holdClocks, sampleServerTime } from "../clock.js";
import { Connection } from "../session/socket.js";
import "../times.js";
import { listenCreate, listenDemonstration } from "./create.js";
import { addMenu, nameMenu } from "./menu.js";
import { active, draw, known, remove } from "./rows.js";
import { listenStops } from "./stop_many.js";

/** @typedef {import("./rows.js").Row} Row */

const filter = new URLSearchParams(location.search);
const [q, state] = ["q", "state"].map((name) => (filter.get(name) || "").trim());
/** Whose sessions are shown: an id, empty where nobody is called so; undefined: everybody's. */
const person = byId("list").dataset.person;
const me = byId("list").dataset.me || "";
/** Every session of this person that the feed has told of, those that the filter hides too. @type {Map<string, Row>} */
const rows = new Map();
/** Whose rows the served list shows because of words in messages, which only the server can look for. */
const served = new Set([...document.querySelectorAll("#sessions > li")].map((item) => /** @type {HTMLElement} */ (item).dataset.id));

/** Whether a session belongs to what this list shows; words are the server's to look for, and so are older pages. @param {Row} row */
function fits(row) {
  if (person !== undefined && row.created_by !== person) return false;
  if (q || filter.has("cursor")) return served.has(row.id) && (!state || belongs(row));
  return belongs(row);
}

/** @param {Row} row */
function belongs(row) {
  if (state === "archived") return Boolean(row.archived);
  if (state) return row.state === state && (!row.archived || active(row));
  return !row.archived;
}

/** @param {Row} row */
function show(row) {
  rows.set(row.id, row);
  if (!fits(row)) {
    remove(row.id);
    return;
  }
  draw(row, state === "archived");
  const item = known(row.id);
  if (!item) return;
  addMenu(item, () => rows.get(row.id));
  nameMenu(item, row.title);
}

/** How many could be stopped, on the two buttons. */
function countStops() {
  const stoppable = [...rows.values()].filter((row) => active(row) && row.role !== "observer");
  const numbers = { mine: stoppable.filter((row) => row.created_by === me).length, all: stoppable.length };
  for (const link of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-stops]"))) {
    const n = numbers[/** @type {"mine" | "all"} */ (link.dataset.stops)];
    write(/** @type {Node} */ (link.querySelector(".num")), `(${n})`);
    link.hidden = n === 0;
  }
  byId("stop-many").hidden = numbers.all === 0;
}

/** @param {any} frame */
function onFrame(frame) {
  sampleServerTime(frame.now);
  if (frame.t !== "session") return;
  if (frame.gone) {
    rows.delete(frame.id);
    remove(frame.id);
  } else {
    show(frame);
  }
  countStops();
}

for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-scripted]"))) element.hidden = false;
for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-unscripted]"))) element.hidden = true;
document.querySelector(".pick select")?.addEventListener("change", (event) => /** @type {HTMLSelectElement} */ (event.target).form?.requestSubmit());
listenDemonstration();
listenCreate();
listenStops(me);
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
