/** What a change takes away and adds, line by line, from the words of the call itself: `edit_file` and `write_file`. */
import { button, el } from "../dom.js";
import { count as countOf, laidOpen } from "../words.js";

/** @typedef {{ is: "same" | "gone" | "new", text: string }} Row */

/** Lines that stay, before and after a change; longer stretches are folded. */
const CONTEXT = 3;
/** A diff above this is folded, its beginning shown. */
const WHOLE_ROWS = 24;
const HEAD_ROWS = 12;
/** So many rows are drawn at a time. */
const PART_ROWS = 500;
/** Above so many changed lines one does not look for what stayed between them. */
const MOST_EDITS = 400;

/**
 * What a call would change. @param {string} tool @param {any} args
 * @returns {Row[] | null} null where it is no such call, or its words are gone
 */
export function diffOf(tool, args) {
  if (!args || typeof args !== "object" || args.erased) return null;
  if (tool === "write_file" && typeof args.content === "string") return lines(args.content).map((text) => ({ is: "new", text }));
  if (tool !== "edit_file" || typeof args.old_text !== "string" || typeof (args.new_text ?? "") !== "string") return null;
  return compare(lines(args.old_text), lines(args.new_text ?? ""));
}

/** @param {string} text */
const lines = (text) => (text === "" ? [] : text.replace(/\r?\n$/, "").split(/\r?\n/));

/** How much a diff takes away and adds. @param {Row[]} rows */
export function counts(rows) {
  const added = rows.filter((row) => row.is === "new").length;
  const removed = rows.filter((row) => row.is === "gone").length;
  return { added, removed };
}

/** The shortest way from one text to the other (Myers), what is alike at both ends set aside first. @param {string[]} before @param {string[]} after @returns {Row[]} */
export function compare(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const same = (/** @type {string} */ text) => /** @type {Row} */ ({ is: "same", text });
  return [
    ...before.slice(0, head).map(same),
    ...shortest(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map(same),
  ];
}

/** @param {string[]} before @param {string[]} after @returns {Row[]} */
function shortest(before, after) {
  /** @type {Map<number, number>[]} how far each diagonal was reached, by the number of edits */
  const reached = [];
  let far = new Map([[1, 0]]);
  for (let edits = 0; edits <= Math.min(MOST_EDITS, before.length + after.length); edits += 1) {
    reached.push(new Map(far));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && (far.get(k - 1) ?? -1) < (far.get(k + 1) ?? -1));
      let x = down ? far.get(k + 1) ?? 0 : (far.get(k - 1) ?? 0) + 1;
      while (x < before.length && x - k < after.length && before[x] === after[x - k]) x += 1;
      far.set(k, x);
      if (x >= before.length && x - k >= after.length) return traced(before, after, reached, edits);
    }
  }
  return [...before.map((text) => /** @type {Row} */ ({ is: "gone", text })), ...after.map((text) => /** @type {Row} */ ({ is: "new", text }))];
}

/** The way back. @param {string[]} before @param {string[]} after @param {Map<number, number>[]} reached @param {number} edits @returns {Row[]} */
function traced(before, after, reached, edits) {
  /** @type {Row[]} */
  const rows = [];
  let x = before.length;
  let y = after.length;
  for (let step = edits; step >= 0; step -= 1) {
    const far = reached[step];
    const k = x - y;
    const down = k === -step || (k !== step && (far.get(k - 1) ?? -1) < (far.get(k + 1) ?? -1));
    const above = down ? k + 1 : k - 1;
    const fromX = step ? far.get(above) ?? 0 : 0;
    const fromY = step ? fromX - above : 0;
    for (; x > fromX && y > fromY; x -= 1, y -= 1) rows.push({ is: "same", text: before[x - 1] });
    if (!step) break;
    rows.push(down ? { is: "new", text: after[y - 1] } : { is: "gone", text: before[x - 1] });
    x = fromX;
    y = fromY;
  }
  return rows.reverse();
}

/**
 * A diff as people read it. Long stretches that stay are folded, and what is long as a whole.
 * @param {Row[]} rows @param {boolean} [whole] whoever decides about it sees all of it
 * @returns {HTMLElement}
 */
export function drawDiff(rows, whole = false) {
  const { added, removed } = counts(rows);
  const place = el("div", { class: "diff", dir: "ltr", tabindex: "0", role: "region", "aria-label": `Change: ${countOf(added, "line")} added, ${countOf(removed, "line")} removed` });
  const shown = whole ? rows : withoutStretches(rows);
  const first = whole || shown.length <= WHOLE_ROWS ? shown : shown.slice(0, HEAD_ROWS);
  drawRows(place, null, first);
  const rest = shown.slice(first.length);
  if (rest.length) place.append(fold(countOf(rest.length, "more line"), (before) => drawRows(place, before, rest)));
  return place;
}

/** @typedef {Row | { is: "fold", rows: Row[] }} Shown */

/** @param {Row[]} rows @returns {Shown[]} */
function withoutStretches(rows) {
  /** @type {Shown[]} */
  const shown = [];
  for (let at = 0; at < rows.length; ) {
    let end = at;
    while (end < rows.length && rows[end].is === "same") end += 1;
    const from = at === 0 ? 0 : at + CONTEXT;
    const to = end === rows.length ? end : end - CONTEXT;
    if (to - from > CONTEXT) shown.push(...rows.slice(at, from), { is: "fold", rows: rows.slice(from, to) }, ...rows.slice(to, end));
    else shown.push(...rows.slice(at, end));
    if (end < rows.length) shown.push(rows[end]);
    at = end + 1;
  }
  return shown;
}

/** @param {HTMLElement} place @param {Element | null} before @param {Shown[]} rows */
function drawRows(place, before, rows) {
  const part = rows.slice(0, PART_ROWS).map((row) =>
    row.is === "fold" ? fold(countOf(row.rows.length, "line that stays", "lines that stay"), (button) => drawRows(place, button, row.rows)) : drawRow(row));
  before ? before.before(...part) : place.append(...part);
  const rest = rows.slice(PART_ROWS);
  if (!rest.length) return void (before?.matches(".fold") && before.remove());
  const marker = before || place.appendChild(el("span"));
  setTimeout(() => (marker.isConnected ? drawRows(place, marker, rest) : undefined));
}

/** @param {string} what @param {(button: HTMLElement) => void} act */
function fold(what, act) {
  const made = button(`${what}. Show`, () => {
    if (made.ariaDisabled === "true") return;
    made.ariaDisabled = "true";
    const place = /** @type {HTMLElement} */ (made.parentElement);
    place.focus({ preventScroll: true }); // the button is gone in a moment
    act(made);
  });
  made.className = "fold";
  return made;
}

/** @param {Row} row */
function drawRow({ is, text }) {
  return el(is === "new" ? "ins" : is === "gone" ? "del" : "span", { class: "row-line" }, `${laidOpen(text)}\n`);
}
