/** The output of a call: head and tail, the middle behind one press; cheap also while a megabyte streams by. */
import { button, el } from "../dom.js";
import { grouped } from "../words.js";
import { Terminal, drawLines } from "./ansi.js";

/** @typedef {import("./ansi.js").Line} Line */

const HEAD_LINES = 5;
const TAIL_LINES = 11;
const WHOLE_LINES = 20;
/** Of an unfolded output so many lines are drawn at a time, and stand in one element, which the browser lays out for itself. */
const PART_LINES = 400;
/** Of a longer line the end is shown while it grows, and where the middle is folded: a browser takes long to measure it. */
const LINE_CHARS = 16_384;

export class Output {
  /** @param {HTMLPreElement} pre */
  constructor(pre) {
    this.pre = pre;
    this.head = el("span", { dir: "auto" });
    this.tail = el("span", { dir: "auto" });
    this.fold = button("", () => this.#unfold(), { kind: "fold" });
    this.fold.className = "fold";
    this.fold.hidden = true;
    pre.append(this.head, this.fold, this.tail);
    this.unfolded = false;
    this.live = false;
    this.going = 0;
    this.text = "";
    this.terminal = new Terminal();
    /** Lines that stand in `head` and will not change. */
    this.drawn = 0;
  }

  #reset() {
    this.text = "";
    this.terminal = new Terminal();
    this.drawn = 0;
    this.head.replaceChildren();
    this.tail.replaceChildren();
  }

  /** @param {string} text all of it so far @param {boolean} live */
  set(text, live) {
    if (!text.startsWith(this.text)) this.#reset();
    this.terminal.feed(text.slice(this.text.length));
    this.text = text;
    this.pre.hidden = text === "";
    this.live = live;
    this.#draw();
  }

  /** Show all of it, however long. */
  showAll() {
    this.unfolded = true;
    this.head.replaceChildren();
    this.drawn = 0;
    this.#draw();
  }

  #draw() {
    const { lines, last } = this.terminal;
    const folded = !this.unfolded && lines.length > WHOLE_LINES;
    this.fold.hidden = !folded;
    if (!folded) {
      this.fold.textContent = "";
      return this.#drawOn();
    }
    if (this.drawn !== HEAD_LINES) {
      this.head.replaceChildren(...drawLines(lines.slice(0, HEAD_LINES).map(short)), "\n");
      this.drawn = HEAD_LINES;
    }
    const tail = last.length ? [...lines.slice(1 - TAIL_LINES), last] : lines.slice(-TAIL_LINES);
    this.tail.replaceChildren(...drawLines(tail.map(short)));
    const hidden = lines.length + (last.length ? 1 : 0) - HEAD_LINES - tail.length;
    this.fold.textContent = `${grouped(hidden)} lines hidden. Show`;
  }

  /** Lines that have ended are drawn once, the one that has not each time. */
  #drawOn() {
    const { lines, last } = this.terminal;
    while (this.drawn < lines.length) {
      const end = Math.min(lines.length, (Math.floor(this.drawn / PART_LINES) + 1) * PART_LINES);
      const fresh = drawLines(lines.slice(this.drawn, end));
      if (this.drawn % PART_LINES) this.head.lastElementChild?.append(...fresh, "\n");
      else this.head.append(el("span", { class: this.unfolded && "part" }, ...fresh, "\n"));
      this.drawn = end;
      if (this.drawn < lines.length) {
        this.going ||= window.setTimeout(() => {
          this.going = 0;
          this.#draw();
        });
        break;
      }
    }
    this.tail.replaceChildren(...drawLines([this.live ? short(last) : last]));
  }

  #unfold() {
    this.showAll();
    this.pre.tabIndex = 0;
    this.pre.focus();
  }
}

/** @param {Line} line @returns {Line} */
function short(line) {
  if (typeof line === "string") return line.length > LINE_CHARS ? `…${line.slice(-LINE_CHARS)}` : line;
  const length = line.reduce((sum, run) => sum + run.text.length, 0);
  return length > LINE_CHARS ? `…${line.map((run) => run.text).join("").slice(-LINE_CHARS)}` : line;
}
