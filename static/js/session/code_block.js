/** A block of code in what an agent writes: its language, a button that copies it, and text that only ever grows at its end. */
import { button, el, write } from "../dom.js";

/** So much stands in one element: a browser lays out the element that grows, not all of the code. */
const PART_CHARS = 4_096;
const SAID_MS = 2_000;

export class CodeBlock {
  constructor() {
    this.text = "";
    this.label = el("span", { class: "muted" });
    this.copy = button("Copy", () => void this.#copy(), { kind: "quiet", name: "Copy this code" });
    this.code = el("code");
    this.element = el("div", { class: "code" }, el("header", {}, this.label, this.copy), el("pre", { tabindex: "0", dir: "ltr", "aria-label": "Code" }, this.code));
  }

  /** @param {string} text @param {string} language @returns {true} */
  set(text, language) {
    write(this.label, language);
    const shown = text.replace(/\n$/, "");
    if (!shown.startsWith(this.text)) {
      this.code.replaceChildren();
      this.text = "";
    }
    let left = shown.slice(this.text.length);
    this.text = shown;
    while (left) {
      const last = this.code.lastElementChild?.firstChild;
      const open = last instanceof Text && !(last.length >= PART_CHARS && last.data.endsWith("\n")) ? last : null;
      const room = Math.max(0, PART_CHARS - (open?.length || 0));
      const line = left.indexOf("\n", room); // a part ends with a line
      const piece = line === -1 ? left : left.slice(0, line + 1);
      if (open) open.appendData(piece);
      else this.code.append(el("span", { class: "part" }, document.createTextNode(piece)));
      left = left.slice(piece.length);
    }
    return true;
  }

  async #copy() {
    const done = await copied(this.text, this.code);
    this.copy.ariaLabel = done ? "Copied" : "Not copied";
    write(this.copy, done ? "Copied" : "Not copied");
    setTimeout(() => {
      this.copy.ariaLabel = "Copy this code";
      write(this.copy, "Copy");
    }, SAID_MS);
  }
}

/** Without HTTPS a page has no clipboard of its own: what is selected can be copied all the same. @param {string} text @param {Element} shown */
async function copied(text, shown) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
    getSelection()?.selectAllChildren(shown);
    return document.execCommand("copy");
  } catch {
    return false;
  }
}
