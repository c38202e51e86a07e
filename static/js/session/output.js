/** The output of a call: head and tail, the middle behind one press; cheap also while a megabyte streams by. */
import { button, el } from "../dom.js";
import { plainOutput } from "../words.js";

const HEAD_LINES = 5;
const TAIL_LINES = 11;
const WHOLE_LINES = 20;
/** How much of a running output's end is looked at to find its last lines. */
const TAIL_CHARS = 16_384;
/** Above this an unfolded output is only redrawn when it is complete. */
const UNFOLDED_CHARS = 200_000;

export class Output {
  /** @param {HTMLPreElement} pre */
  constructor(pre) {
    this.pre = pre;
    this.head = document.createTextNode("");
    this.tail = document.createTextNode("");
    this.fold = button("", () => this.#unfold(), { kind: "fold" });
    this.fold.className = "fold";
    this.fold.hidden = true;
    pre.append(el("span", { dir: "auto" }, this.head), this.fold, el("span", { dir: "auto" }, this.tail));
    this.text = "";
    this.lines = 0;
    this.counted = 0;
    this.unfolded = false;
  }

  /** @param {string} text all of it so far @param {boolean} live */
  set(text, live) {
    if (text.length < this.counted) {
      this.counted = 0;
      this.lines = 0;
    }
    for (let at = text.indexOf("\n", this.counted); at !== -1; at = text.indexOf("\n", at + 1)) this.lines += 1;
    this.counted = text.length;
    this.text = text;
    this.pre.hidden = text === "";
    const folded = !this.unfolded && this.lines > WHOLE_LINES;
    this.fold.hidden = !folded;
    if (folded) this.#drawFolded();
    else if (!this.unfolded || !live || text.length < UNFOLDED_CHARS) {
      set(this.head, plainOutput(text));
      set(this.tail, "");
    }
  }

  #drawFolded() {
    set(this.head, firstLines(this.text, HEAD_LINES));
    set(this.tail, plainOutput(this.text.slice(-TAIL_CHARS)).replace(/\n$/, "").split("\n").slice(-TAIL_LINES).join("\n"));
    const hidden = this.lines - HEAD_LINES - TAIL_LINES;
    this.fold.textContent = `${hidden.toLocaleString("en")} lines hidden. Show`;
  }

  #unfold() {
    this.unfolded = true;
    this.set(this.text, false);
    this.pre.tabIndex = 0;
    this.pre.focus();
  }
}

/** @param {Text} node @param {string} text */
function set(node, text) {
  if (node.data === text) return;
  if (text.startsWith(node.data)) node.appendData(text.slice(node.length));
  else node.data = text;
}

/** @param {string} text @param {number} count @returns {string} */
function firstLines(text, count) {
  let end = 0;
  for (let line = 0; line < count && end !== -1; line += 1) end = text.indexOf("\n", end) + 1 || -1;
  return plainOutput(end === -1 ? text : text.slice(0, end));
}
