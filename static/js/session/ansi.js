/**
 * What a terminal would show of a stream: lines with colours. A carriage return and a backspace write over what is
 * there, colours and weights are kept, everything else a terminal can be told (titles, links, moves, modes) is left out.
 * Each character is looked at once, so a megabyte is cheap however it comes, and so are ten thousand steps of a progress bar.
 *
 * @typedef {{ fg: Colour, bg: Colour, bold: boolean, dim: boolean, italic: boolean, underline: boolean, strike: boolean, inverse: boolean }} Style
 * @typedef {number | string | null} Colour one of the sixteen, or `rgb(...)`; null: the page's own
 * @typedef {{ text: string, style: Style | null }} Run
 * @typedef {string | Run[]} Line without its end; a string where it has no style
 */
import { el } from "../dom.js";

/** A sequence that has not ended after so many characters is none. */
const LONGEST = 4_096;
/** A line that is written over loses its styles above so many: doing it again and again would take too long. */
const MOST_RUNS = 250;
/** @type {Style} */
const PLAIN = { fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, strike: false, inverse: false };

/* eslint-disable no-control-regex */
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f-\x9f]/g;
/** A whole sequence: CSI with its parameters and final; OSC and the other strings up to their end, never beyond a line; a short one. */
const SEQUENCE = /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x9c|\x1b\\|(?=[\n\x1b]))|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]/y;
/** The beginning of one, up to the end of what has come. */
const BEGINNING = /(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*\x1b?|\x1b[ -/]*)$/y;
/* eslint-enable no-control-regex */

export class Terminal {
  constructor() {
    /** Lines that have ended. @type {Line[]} */
    this.lines = [];
    /** @type {Run[]} */
    this.runs = [];
    this.width = 0;
    this.column = 0;
    /** @type {Style | null} */
    this.style = null;
    this.pending = "";
  }

  /** The line that has not ended. @returns {Line} */
  get last() {
    return closed(this.runs);
  }

  /** @param {string} piece */
  feed(piece) {
    const text = this.pending + piece;
    this.pending = "";
    for (let at = 0; at < text.length; ) {
      CONTROL.lastIndex = at;
      const next = CONTROL.exec(text)?.index ?? text.length;
      if (text[next] === "\n" && !this.style && !this.runs.length) {
        this.lines.push(text.slice(at, next)); // what most lines are
        at = next + 1;
        continue;
      }
      if (next > at) this.#write(text.slice(at, next));
      if (next === text.length) return;
      at = this.#control(text, next);
    }
  }

  /** @param {string} text @param {number} at of a control character @returns {number} where to go on */
  #control(text, at) {
    const sign = text[at];
    if (sign === "\n") this.#newLine();
    else if (sign === "\r") this.column = 0;
    else if (sign === "\b") this.column = Math.max(0, this.column - (isPair(this.#before()) ? 2 : 1));
    else if (sign === "\x1b" || sign >= "\x80") return this.#sequence(text, at);
    return at + 1;
  }

  /** The two units before the cursor. */
  #before() {
    return cut(this.runs, Math.max(0, this.column - 2), this.column, false).map((run) => run.text).join("");
  }

  /** @param {string} text @param {number} at */
  #sequence(text, at) {
    SEQUENCE.lastIndex = at;
    const found = SEQUENCE.exec(text);
    if (found) {
      if (found[2] === "m") this.style = styled(this.style, found[1]);
      else if (found[2] === "K") this.#erase(Number(found[1]) || 0);
      else if (found[2] === "G" && (Number(found[1]) || 1) === 1) this.column = 0;
      return SEQUENCE.lastIndex;
    }
    BEGINNING.lastIndex = at;
    if (text.length - at < LONGEST && BEGINNING.test(text)) {
      this.pending = text.slice(at);
      return text.length;
    }
    return at + 1;
  }

  #newLine() {
    this.lines.push(closed(this.runs));
    this.runs = [];
    this.width = this.column = 0;
  }

  /** @param {number} how 0: what follows, 1: what stands before, 2: the line */
  #erase(how) {
    if (how === 0) this.runs = cut(this.runs, 0, this.column);
    else if (how === 1) this.runs = [{ text: " ".repeat(Math.min(this.column, this.width)), style: null }, ...cut(this.runs, this.column, this.width)];
    else this.runs = []; // and to its beginning, where every program goes next
    this.width = this.runs.reduce((sum, run) => sum + run.text.length, 0);
    this.column = Math.min(this.column, this.width);
  }

  /** @param {string} text */
  #write(text) {
    const end = this.column + text.length;
    if (this.column === this.width) {
      const last = this.runs[this.runs.length - 1];
      if (last && last.style === this.style) last.text += text;
      else this.runs.push({ text, style: this.style });
    } else if (this.column === 0 && end >= this.width) this.runs = [{ text, style: this.style }];
    else this.runs = [...cut(this.runs, 0, this.column), { text, style: this.style }, ...cut(this.runs, end, this.width)];
    if (this.runs.length > MOST_RUNS) this.runs = [{ text: this.runs.map((run) => run.text).join(""), style: null }];
    this.column = end;
    this.width = Math.max(this.width, end);
  }
}

/** @param {string} two */
const isPair = (two) => two.length === 2 && (two.codePointAt(0) ?? 0) > 0xffff;

/** What stands from one place of a line to another. @param {Run[]} runs @param {number} from @param {number} to @param {boolean} [gaps] half a character becomes a gap */
function cut(runs, from, to, gaps = true) {
  const found = [];
  let at = 0;
  for (const { text, style } of runs) {
    const piece = text.slice(Math.max(0, from - at), Math.max(0, to - at));
    if (piece) found.push({ text: gaps ? piece.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, " ") : piece, style });
    at += text.length;
  }
  return found;
}

/** @param {Run[]} runs @returns {Line} */
function closed(runs) {
  return runs.some((run) => run.style) ? runs : runs.map((run) => run.text).join("");
}

const BARE = JSON.stringify(PLAIN);
/** Styles by what they say, and what each order makes of each: output says the same few again and again. */
const styles = /** @type {Map<string, Style>} */ (new Map());
const orders = /** @type {Map<string, Style | null>} */ (new Map());
const MOST_STYLES = 1_000;

/** The style after one more order. @param {Style | null} before @param {string} parameters @returns {Style | null} */
function styled(before, parameters) {
  if (parameters === "" || parameters === "0") return null;
  const key = `${before ? JSON.stringify(before) : ""} ${parameters}`;
  const known = orders.get(key);
  if (known !== undefined) return known;
  const name = JSON.stringify(ordered(before || PLAIN, parameters));
  if (orders.size > MOST_STYLES) orders.clear();
  if (styles.size > MOST_STYLES) styles.clear();
  const style = name === BARE ? null : styles.get(name) || JSON.parse(name);
  if (style) styles.set(name, style);
  orders.set(key, style);
  return style;
}

/** @param {Style} before @param {string} parameters @returns {Style} */
function ordered(before, parameters) {
  if (/[<-?]/.test(parameters)) return before; // not a colour but a mode of the keyboard
  const underlined = parameters.replace(/(^|;)4:0(?=;|$)/g, "$124").replace(/(^|;)4:[1-5](?=;|$)/g, "$14");
  const codes = underlined.replace(/:/g, ";").split(";").map((code) => Number(code) || 0);
  let style = { ...before };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) style = { ...PLAIN };
    else if (code === 38 || code === 48 || code === 58) {
      const [colour, used] = colourOf(codes.slice(at + 1), underlined.includes(":"));
      if (code === 38) style.fg = colour;
      else if (code === 48) style.bg = colour;
      at += used;
    } else Object.assign(style, SIMPLE[code] || sixteen(code));
  }
  return style;
}

/** @type {Record<number, Partial<Style>>} */
const SIMPLE = {
  1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { underline: true }, 7: { inverse: true }, 9: { strike: true }, 21: { underline: true },
  22: { bold: false, dim: false }, 23: { italic: false }, 24: { underline: false }, 27: { inverse: false }, 29: { strike: false }, 39: { fg: null }, 49: { bg: null },
};

/** @param {number} code @returns {Partial<Style>} */
function sixteen(code) {
  if (code >= 30 && code <= 37) return { fg: code - 30 };
  if (code >= 90 && code <= 97) return { fg: code - 82 };
  if (code >= 40 && code <= 47) return { bg: code - 40 };
  if (code >= 100 && code <= 107) return { bg: code - 92 };
  return {};
}

/** After 38 or 48. @param {number[]} codes @param {boolean} colons may name a colour space before the three @returns {[Colour, number]} and how many codes it took */
function colourOf(codes, colons) {
  if (codes[0] === 5) return [indexed(codes[1] || 0), 2];
  if (codes[0] !== 2) return [null, codes.length];
  const skip = colons && codes.length >= 5 ? 1 : 0;
  return [rgb(codes.slice(1 + skip, 4 + skip)), 4 + skip];
}

/** @param {number[]} parts */
const rgb = (parts) => `rgb(${[0, 1, 2].map((at) => Math.min(255, parts[at] || 0)).join(" ")})`;

/** One of the 256. @param {number} index @returns {Colour} */
function indexed(index) {
  if (index < 16) return index;
  if (index >= 232) return rgb(Array(3).fill(8 + 10 * (Math.min(index, 255) - 232)));
  const level = (/** @type {number} */ step) => (step ? 55 + 40 * step : 0);
  const cube = index - 16;
  return rgb([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

/** A line with more pieces than this is shown without its colours. */
const MOST_SPANS = 2_000;

/** Lines as one would read them, an end between each two. @param {Line[]} lines @returns {(HTMLElement | Text)[]} */
export function drawLines(lines) {
  /** @type {(HTMLElement | Text)[]} */
  const drawn = [];
  let plain = "";
  const flush = () => {
    if (plain) drawn.push(document.createTextNode(plain));
    plain = "";
  };
  lines.forEach((line, at) => {
    if (at) plain += "\n";
    if (typeof line === "string") plain += line;
    else if (line.length > MOST_SPANS) plain += line.map((run) => run.text).join("");
    else {
      for (const { text, style } of line) {
        if (!style) plain += text;
        else {
          flush();
          drawn.push(drawRun(text, style));
        }
      }
    }
  });
  flush();
  return drawn;
}

/** @param {string} text @param {Style} style */
function drawRun(text, style) {
  const names = ["ansi", ...["bold", "dim", "italic", "underline", "strike", "inverse"].filter((name) => style[/** @type {"bold"} */ (name)])];
  if (style.fg !== null) names.push("fg", typeof style.fg === "number" ? `f${style.fg}` : "");
  if (style.bg !== null) names.push("bg", typeof style.bg === "number" ? `b${style.bg}` : "");
  const span = el("span", { class: names.filter(Boolean).join(" ") }, document.createTextNode(text));
  if (typeof style.fg === "string") span.style.setProperty("--f", style.fg);
  if (typeof style.bg === "string") span.style.setProperty("--b", style.bg);
  return span;
}
