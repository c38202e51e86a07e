/** Long texts: head and tail, the middle behind one press, so that a page opens as fast with a message of a megabyte. */
import { button, el, fill } from "../dom.js";
import { count as countOf } from "../words.js";
import { codePoints } from "./view.js";

/** Up to here a text is shown whole. The served page folds alike: `sessions_app/pages/long.py`. */
export const WHOLE_CHARS = 6_000;
const HEAD_CHARS = 2_000;
const TAIL_CHARS = 1_000;
/** One part is drawn at a time, so that the page answers while a long text comes. */
const PART_CHARS = 32_768;

/** Show a long text folded. @param {HTMLElement} element @param {string} text */
export function drawFolded(element, text) {
  const from = cut(text, HEAD_CHARS, HEAD_CHARS / 2);
  const to = cut(text, text.length - TAIL_CHARS, TAIL_CHARS);
  const fold = foldButton(`${countOf(codePoints(text.slice(from, to)), "more character")}. Show all`, () => unfold(fold, text.slice(from, to)));
  fill(element, part(text.slice(0, from)), fold, part(text.slice(to)));
}

/** Show all of a long text, in parts. @param {HTMLElement} element @param {string} text */
export function drawInParts(element, text) {
  const fold = foldButton("", () => {});
  fill(element, fold);
  return unfold(fold, text);
}

/** @param {string} label @param {() => void} act */
function foldButton(label, act) {
  const fold = button(label, act);
  fold.className = "fold";
  return fold;
}

/** Put a text where the button stands. @param {HTMLButtonElement} fold @param {string} text */
async function unfold(fold, text) {
  fold.disabled = true;
  for (let at = 0; at < text.length && fold.isConnected; ) {
    const end = cut(text, at + PART_CHARS, PART_CHARS / 2);
    fold.before(part(text.slice(at, end)));
    at = end;
    fold.textContent = `${countOf(text.length - at, "character")} still to come`;
    await new Promise((next) => setTimeout(next));
  }
  fold.remove();
}

/** A part that ends a line is a block, which the browser lays out for itself. @param {string} text */
function part(text) {
  return el("span", { class: text.endsWith("\n") && "part" }, document.createTextNode(text));
}

/** Where to cut at or before `at`: after a line's end, if one is that near; never in a surrogate pair. @param {string} text @param {number} at @param {number} near */
function cut(text, at, near) {
  if (at >= text.length) return text.length;
  const line = text.lastIndexOf("\n", at - 1) + 1;
  if (line > at - near) return line;
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff ? at - 1 : at;
}
