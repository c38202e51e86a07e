/** Long texts: head and tail, the middle behind one press, so that a page opens as fast with a message of a megabyte. */
import { button, el, fill } from "../dom.js";
import { count as countOf } from "../words.js";
import { codePoints } from "./view.js";

/** Up to here a text is shown whole. All lengths are in code points; the served page cuts at the same: `sessions_app/pages/long.py`. */
const WHOLE_CHARS = 6_000;
const HEAD_CHARS = 2_000;
const TAIL_CHARS = 1_000;
/** One part is drawn at a time, so that the page answers while a long text comes. */
const PART_CHARS = 32_768;

/** Too long to be shown whole. @param {string} text */
export const isLong = (text) => text.length > WHOLE_CHARS && codePoints(text) > WHOLE_CHARS;

/** Show a long text folded. @param {HTMLElement} element @param {string} text */
export function drawFolded(element, text) {
  const from = afterLine(text, ahead(text, 0, HEAD_CHARS), HEAD_CHARS / 2);
  const to = afterLine(text, back(text, TAIL_CHARS), TAIL_CHARS);
  const fold = foldButton(`${countOf(codePoints(text.slice(from, to)), "more character")}. Show all`, () => unfold(fold, text.slice(from, to)));
  fill(element, part(text.slice(0, from)), fold, part(text.slice(to)));
}

/** Show all of a long text, in parts. @param {HTMLElement} element @param {string} text */
export function drawInParts(element, text) {
  const fold = foldButton("", () => {});
  const focused = element.contains(document.activeElement);
  fill(element, fold);
  if (focused) fold.focus({ preventScroll: true });
  return unfold(fold, text);
}

/** @param {string} label @param {() => void} act */
export function foldButton(label, act) {
  const fold = button(label, act);
  fold.className = "fold";
  return fold;
}

/**
 * Put a text where the button stands. The button keeps the focus until all is there (a disabled one would drop it), then
 * what it opened has it. @param {HTMLButtonElement} fold @param {string} text
 */
async function unfold(fold, text) {
  if (fold.ariaDisabled === "true") return;
  fold.ariaDisabled = "true";
  let left = codePoints(text);
  let first = /** @type {HTMLElement | null} */ (null);
  for (let at = 0; at < text.length && fold.isConnected; ) {
    const end = afterLine(text, ahead(text, at, PART_CHARS), PART_CHARS / 2);
    const piece = part(text.slice(at, end));
    fold.before(piece);
    first ||= piece;
    left -= codePoints(text.slice(at, end));
    at = end;
    fold.textContent = `${countOf(left, "character")} still to come`;
    await new Promise((next) => setTimeout(next));
  }
  if (first && document.activeElement === fold) {
    first.tabIndex = -1;
    first.focus({ preventScroll: true });
  }
  fold.remove();
}

/** A part that ends a line is a block, which the browser lays out for itself. @param {string} text */
function part(text) {
  return el("span", { class: text.endsWith("\n") && "part" }, document.createTextNode(text));
}

/** Where to cut at or before `at`: after a line's end, if one is nearer than that. @param {string} text @param {number} at @param {number} near */
function afterLine(text, at, near) {
  if (at >= text.length) return text.length;
  const line = text.lastIndexOf("\n", at - 1) + 1;
  return at - line < 2 * near && codePoints(text.slice(line, at)) < near ? line : at;
}

/** The place that many code points on. @param {string} text @param {number} at @param {number} points */
function ahead(text, at, points) {
  for (let n = 0; n < points && at < text.length; n += 1) at += isPair(text, at) ? 2 : 1;
  return at;
}

/** The place that many code points before the end. @param {string} text @param {number} points */
function back(text, points) {
  let at = text.length;
  for (let n = 0; n < points && at > 0; n += 1) at -= isPair(text, at - 2) ? 2 : 1;
  return at;
}

/** Whether one code point takes two units there. @param {string} text @param {number} at */
const isPair = (text, at) => (text.codePointAt(at) ?? 0) > 0xffff;
