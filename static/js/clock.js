/**
 * The server's clock as this page knows it, and the clocks on the page that count by it (D36: a wrong local clock
 * neither reorders nor shows negative or hour-long durations).
 *
 * A sample is a server's instant at the moment it arrives here; it is late by the time it travelled, so the largest
 * difference seen on a connection is the best one. Replayed events carry old instants and never win.
 *
 * It runs by `performance.now()`, which nobody sets: a device's clock that is put forward would make every limit sent
 * along (`not_after`) too late. Where that one pauses in sleep, this clock is behind until the next sample, which wins.
 */

import { write } from "./dom.js";

/** Server time minus `performance.now()`, ms; until it is known, this device's own idea. */
let offset = Date.now() - performance.now();
let sampled = false;

/** @param {string | number | null | undefined} at @param {boolean} [fresh] forget what earlier connections said (after a sleep) */
export function sampleServerTime(at, fresh = false) {
  if (at === null || at === undefined) return;
  const difference = (typeof at === "number" ? at : Date.parse(at)) - performance.now();
  if (!Number.isFinite(difference) || (sampled && !fresh && difference <= offset)) return;
  offset = difference;
  sampled = true;
}

/** The server's time now, ms since 1970. */
export const serverNow = () => performance.now() + offset;

/** The last instant of which this page knows how things were; null while it knows how they are. @type {number | null} */
let held = null;

/**
 * Clocks show how long something has gone on, and that nobody knows while the connection is away: they stand still at
 * the last known instant (D37).
 * @param {number | null} at the server's clock; null: they go on
 */
export function holdClocks(at) {
  if (at === held) return;
  held = at;
  tick();
}

/** The instant that clocks on the page show: now, or the last one known. */
export const shownNow = () => held ?? serverNow();

/** How long ago by the server's clock, as far as it is known; never negative. @param {string | number} at */
export const since = (at) => Math.max(0, shownNow() - (typeof at === "number" ? at : Date.parse(at)));

/** @type {Map<Node, () => string>} */
const counting = new Map();

/**
 * Keep a node's text counting until it leaves the page.
 * @param {Node} node
 * @param {() => string} read
 */
export function count(node, read) {
  write(node, read());
  counting.set(node, read);
}

/** @param {Node} node */
export const stopCounting = (node) => counting.delete(node);

function tick() {
  for (const [node, read] of counting) {
    if (!node.isConnected) {
      counting.delete(node);
    } else {
      write(node, read());
    }
  }
}

setInterval(tick, 200);
