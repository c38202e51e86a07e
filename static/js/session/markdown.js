/**
 * What an agent writes, as markdown, while it is written. The parser's tokens become elements one by one, and there is
 * no HTML on the way: markup in an agent's text is text, only the elements and addresses named here can ever appear.
 *
 * A block that has ended is never drawn again, so what is selected in it stays so; of the last, unfinished one only
 * what changed is drawn. The same text gives the same elements, however it was cut into pieces.
 *
 * @typedef {import("../../vendor/markdown-it/markdown-it.esm.min.mjs").Token} Token
 * @typedef {import("../../vendor/markdown-it/markdown-it.esm.min.mjs").Env} Env what the parser has learnt: addresses given by name
 * @typedef {{ type: string, token: Token | null, text: string, inside: Piece[], mark: string }} Piece one element or text, with what tells
 *   it from others in `mark`
 * @typedef {{ pieces: Piece[], from: number, to: number }} Group a block of the outermost level, and its place in the source
 */
import MarkdownIt from "../../vendor/markdown-it/markdown-it.esm.min.mjs";
import remend from "../../vendor/remend/index.js";
import { el } from "../dom.js";
import { CodeBlock } from "./code_block.js";
import { drawFolded, foldButton, isLong } from "./long.js";
import { codePoints } from "./view.js";
import { count as countOf } from "../words.js";

/** A paragraph above this is shown as it was written: what stands between its words is not looked for. In UTF-16 units. */
const INLINE_CHARS = 20_000;
/** Of a long text, what is shown of its beginning and its end: whole blocks, up to these many characters. */
const HEAD_CHARS = 3_000;
const TAIL_CHARS = 1_500;
/** So much of a long text is drawn at a time, so that the page answers meanwhile. */
const PART_CHARS = 16_384;
/** After a drawing that took longer than this the next one waits for REST times as long: the page stays quick. */
const SLOW_MS = 12;
const REST = 5;

const SAFE = /^(?:https?:\/\/|mailto:)/i;
const parser = new MarkdownIt({ html: false, linkify: true, typographer: false });
parser.validateLink = (/** @type {string} */ address) => SAFE.test(address.trim());
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });

/** @type {WeakMap<Node, Piece>} what each node shows */
const shown = new WeakMap();
/** @type {WeakMap<Node, CodeBlock>} */
const codes = new WeakMap();

export class Markdown {
  /** @param {HTMLElement} element which holds nothing else */
  constructor(element) {
    this.element = element;
    this.text = "";
    this.live = false;
    this.folded = false;
    /** Very long paragraphs are folded, too. */
    this.long = false;
    this.timer = 0;
    this.rest = 0;
    this.done = this.kept = this.looked = 0;
    this.env = /** @type {Env} */ ({});
    this.#reset();
  }

  /** `done`: up to where the source is drawn for good, as `kept` nodes; `looked`: up to where that was decided. */
  #reset() {
    this.element.replaceChildren();
    this.done = this.kept = this.looked = 0;
    this.env = {};
  }

  /** @param {string} text all of it so far @param {boolean} live it still grows */
  set(text, live) {
    const source = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (source === this.text && live === this.live) return;
    const goesOn = source.startsWith(this.text);
    const watched = !this.folded && this.text.length * 2 > source.length;
    if (!goesOn || this.folded) this.#reset();
    this.text = source;
    this.live = live;
    this.folded = !live && !watched && isLong(source);
    this.#soon();
  }

  /** All of a long text, drawn in parts. @param {string} text @returns {Promise<void>} once all is there */
  async setInParts(text) {
    const source = text.replace(/\r\n?/g, "\n");
    this.#reset();
    this.folded = false;
    this.long = true;
    for (let end = PART_CHARS; end < source.length; end += PART_CHARS) {
      this.text = source.slice(0, end);
      this.#finish();
      await new Promise((next) => setTimeout(next));
    }
    this.text = source;
    this.live = false;
    this.#draw();
  }

  #soon() {
    const wait = this.rest - performance.now();
    if (this.live && wait > 0) {
      this.timer ||= window.setTimeout(() => this.#now(), wait);
      return;
    }
    this.#now();
  }

  #now() {
    clearTimeout(this.timer);
    this.timer = 0;
    const began = performance.now();
    this.folded ? this.#drawFolded() : this.#draw();
    const took = performance.now() - began;
    this.rest = took > SLOW_MS ? performance.now() + REST * took : 0;
  }

  #draw() {
    if (this.live) this.#finish();
    else if (this.done && this.env.references) this.#reset(); // an address given below what names it
    const rest = this.live ? withoutBeginnings(this.text.slice(this.done)) : this.text.slice(this.done);
    const groups = this.#groups(rest, this.env, this.live);
    sync(this.element, groups.flatMap((group) => group.pieces), this.kept, true, this.long);
  }

  /** Keep for good what no further line can change: all blocks but the last, as of the last whole line. */
  #finish() {
    const end = this.text.lastIndexOf("\n") + 1;
    if (end <= this.looked) return;
    this.looked = end;
    const groups = this.#groups(this.text.slice(this.done, end), this.env, false);
    if (groups.length < 2) return;
    const pieces = groups.slice(0, -1).flatMap((group) => group.pieces);
    sync(this.element, pieces, this.kept, false, this.long);
    this.kept += pieces.length;
    this.done += groups[groups.length - 1].from;
  }

  /** @param {string} source @param {Env} env @param {boolean} open its end is not its end @returns {Group[]} */
  #groups(source, env, open) {
    /** @type {Token[]} */
    const tokens = [];
    parser.block.parse(source, parser, env, tokens);
    const last = open ? lastWords(tokens) : null;
    const lines = lineStarts(source);
    const groups = [];
    for (let at = 0; at < tokens.length; ) {
      let end = at + 1;
      while (end < tokens.length && tokens[end].level > 0) end += 1;
      if (tokens[at].nesting === 1) end += 1;
      const [from, to] = tokens[at].map || [0, 0];
      const pieces = tree(tokens.slice(at, end), env, last);
      if (pieces.length) groups.push({ pieces, from: lines[from] ?? source.length, to: lines[to] ?? source.length });
      at = end;
    }
    return groups;
  }

  /** A long text: whole blocks of its beginning and its end, the middle behind one press. */
  #drawFolded() {
    const groups = this.#groups(this.text, {}, false);
    const { length } = this.text;
    let first = groups.findIndex((group, at) => at > 0 && group.to > HEAD_CHARS);
    if (first === -1) first = groups.length;
    let last = groups.length;
    while (last > first && length - groups[last - 1].from <= TAIL_CHARS) last -= 1;
    const middle = groups.slice(first, last);
    const pieces = (/** @type {Group[]} */ some) => some.flatMap((group) => group.pieces);
    sync(this.element, pieces(groups.slice(0, first)), 0, true, true);
    if (!middle.length) {
      for (const node of nodes(pieces(groups.slice(last)))) this.element.append(node);
      return;
    }
    const hidden = codePoints(this.text.slice(middle[0].from, groups[last]?.from ?? length));
    const fold = foldButton(`${countOf(hidden, "more character")}. Show all`, () => void this.#unfold(fold, middle));
    this.element.append(fold, ...nodes(pieces(groups.slice(last))));
  }

  /** @param {HTMLButtonElement} fold @param {Group[]} middle */
  async #unfold(fold, middle) {
    if (fold.ariaDisabled === "true") return;
    fold.ariaDisabled = "true"; // and not disabled, which would drop the focus
    let first = /** @type {Node | undefined} */ (undefined);
    for (let at = 0, from = middle[0].from; at < middle.length && fold.isConnected; ) {
      const part = [];
      while (at < middle.length && (!part.length || middle[at].to - from <= PART_CHARS)) part.push(middle[at++]);
      from = part[part.length - 1].to;
      const drawn = nodes(part.flatMap((group) => group.pieces));
      first ||= drawn[0];
      fold.before(...drawn);
      await new Promise((next) => setTimeout(next));
    }
    if (first instanceof HTMLElement && document.activeElement === fold) {
      first.tabIndex = -1;
      first.focus({ preventScroll: true });
    }
    fold.remove();
  }
}

/** Where each line begins. @param {string} source */
function lineStarts(source) {
  const starts = [0];
  for (let at = source.indexOf("\n"); at !== -1; at = source.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}

/**
 * A text that still grows, without an end that may turn out to be the beginning of something else: half a fence, a
 * rule or list mark without words, the head of a table. It is shown once one can tell, or when the text has ended.
 * @param {string} text
 */
export function withoutBeginnings(text) {
  const line = text.lastIndexOf("\n") + 1;
  const last = text.slice(line);
  if (/^[\s`~*_=#+|>:-]*(?:\d{1,9}[.)]?)?\s*$/.test(last) || /^[\s>*+-]*(?:`{3,}|~{3,})[^`]*$/.test(last)) return headless(text.slice(0, line));
  return headless(text);
}

/** @param {string} text */
function headless(text) {
  const head = /(?:^|\n)(\|[^\n]*\n?(?:\|?[ :-][|\s:-]*)?)$/.exec(text);
  if (!head) return text;
  const before = text.slice(0, head.index);
  return /(?:^|\n)\|[^\n]*$/.test(before) ? text : text.slice(0, text.length - head[1].length);
}

/** The words that still grow: the last ones, unless a block of code came after them. @param {Token[]} tokens */
function lastWords(tokens) {
  for (let at = tokens.length - 1; at >= 0; at -= 1) {
    if (tokens[at].type === "inline") return tokens[at];
    if (tokens[at].nesting === 0 && tokens[at].type !== "reference_definition") return null;
  }
  return null;
}

const MEND = { linkMode: /** @type {const} */ ("text-only"), images: false, katex: false, htmlTags: false, comparisonOperators: false, setextHeadings: false, singleTilde: false };

/** The parser's flat tokens as a tree. @param {Token[]} tokens @param {Env} env @param {Token | null} open whose words still grow @returns {Piece[]} */
function tree(tokens, env, open) {
  /** @type {Piece[]} */
  const top = [];
  const stack = [top];
  /** @type {Piece[]} */
  const opened = [];
  for (const token of tokens) {
    const into = stack[stack.length - 1];
    if (token.nesting === 1) {
      const piece = { type: token.type.replace(/_open$/, ""), token, text: "", inside: [], mark: `<${token.type}${token.hidden ? "-" : ""}${token.attrs ? JSON.stringify(token.attrs) : ""}` };
      into.push(piece);
      opened.push(piece);
      stack.push(piece.inside);
    } else if (token.nesting === -1) {
      stack.pop();
      const piece = opened.pop();
      if (piece) piece.mark += `${piece.inside.map((each) => each.mark).join("")}>`;
    } else if (token.type === "inline") into.push(...words(token, env, token === open));
    else if (token.type !== "reference_definition") into.push(leaf(token));
  }
  return top;
}

/** @param {Token} token @param {Env} env @param {boolean} open @returns {Piece[]} */
function words(token, env, open) {
  if (token.content.length > INLINE_CHARS) return [text(token.content)];
  /** @type {Token[]} */
  const children = [];
  parser.inline.parse(open ? remend(token.content, MEND) : token.content, parser, env, children);
  return joined(tree(children, env, null));
}

/** @param {Token} token @returns {Piece} */
function leaf(token) {
  if (token.type === "softbreak" || token.type === "hardbreak") return text("\n");
  if (token.type === "fence" || token.type === "code_block") return { type: "code", token, text: token.content, inside: [], mark: `<code ${token.info}|${token.content}>` };
  if (token.type === "code_inline") return { type: "code_inline", token, text: token.content, inside: [], mark: `<c ${token.content}>` };
  if (token.type === "image") return { type: "image", token, text: token.content, inside: [], mark: `<image ${JSON.stringify(token.attrs)}${token.content}>` };
  if (token.type === "hr") return { type: "hr", token, text: "", inside: [], mark: "<hr>" };
  return text(token.content);
}

/** @param {string} value @returns {Piece} */
const text = (value) => ({ type: "text", token: null, text: value, inside: [], mark: `"${value}"` });

/** Texts beside each other as one; none where there is nothing. @param {Piece[]} pieces */
function joined(pieces) {
  /** @type {Piece[]} */
  const result = [];
  for (const piece of pieces) {
    const last = result[result.length - 1];
    piece.inside = joined(piece.inside);
    if (piece.type === "text" && piece.text === "") continue;
    if (piece.type === "text" && last?.type === "text") result[result.length - 1] = text(last.text + piece.text);
    else result.push(piece);
  }
  return result;
}

/**
 * Make an element hold these pieces from its child number `at` on; what is there already and the same stays untouched.
 * @param {Element} parent @param {Piece[]} pieces @param {number} [at] @param {boolean} [all] and nothing after them
 * @param {boolean} [long] what is very long is folded
 */
function sync(parent, pieces, at = 0, all = true, long = false) {
  for (const piece of pieces) {
    const node = parent.childNodes[at++];
    const before = node && shown.get(node);
    if (before?.mark === piece.mark) continue;
    if (before && grown(node, before, piece)) shown.set(node, piece);
    else {
      const made = make(piece, parent, long);
      node ? node.replaceWith(made) : parent.append(made);
    }
  }
  while (all && parent.childNodes[at]) parent.childNodes[at].remove();
}

/** @param {Piece[]} pieces @returns {ChildNode[]} */
const nodes = (pieces) => pieces.map((piece) => make(piece, null, true));

/** Change a node into what it shows now, where that is the same kind of thing. @param {Node} node @param {Piece} before @param {Piece} piece */
function grown(node, before, piece) {
  if (before.type !== piece.type) return false;
  if (node instanceof Text) {
    if (piece.text.startsWith(node.data)) node.appendData(piece.text.slice(node.length));
    else node.data = piece.text;
    return true;
  }
  if (piece.type === "code") return Boolean(codes.get(node)?.set(piece.text, language(piece)));
  if (!CONTAINERS.has(piece.type) || start(before) !== start(piece) || before.token?.hidden !== piece.token?.hidden || before.token?.tag !== piece.token?.tag) return false;
  sync(piece.type === "table" ? /** @type {Element} */ (node.firstChild) : /** @type {Element} */ (node), piece.inside);
  return true;
}

const CONTAINERS = new Set(["paragraph", "heading", "bullet_list", "ordered_list", "list_item", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s"]);

/** @param {Piece} piece */
const start = (piece) => attribute(piece, "start") + attribute(piece, "style");

/** @param {Piece} piece @param {string} name @returns {string} */
const attribute = (piece, name) => String(piece.token?.attrGet(name) ?? "");

/** What a fence says its code is, as far as that is a name. @param {Piece} piece */
const language = ({ token }) => /^[\w+#.-]{1,24}/.exec((token?.info || "").trim())?.[0] || "";

/** @param {Piece} piece @param {Element | null} parent @param {boolean} long @returns {ChildNode} */
function make(piece, parent, long) {
  const node = element(piece, parent, long);
  shown.set(node, piece);
  return node;
}

/** @param {Piece} piece @param {Element | null} parent @param {boolean} long @returns {ChildNode} */
function element(piece, parent, long) {
  if (piece.type === "text") return document.createTextNode(piece.text);
  if (piece.type === "hr") return el("hr");
  if (piece.type === "code_inline") return el("code", { dir: "ltr" }, piece.text); // a `dir` sets it apart from the words around it
  if (piece.type === "image") return link(attribute(piece, "src"), [document.createTextNode(piece.text ? `Image: ${piece.text}` : "Image")]);
  if (piece.type === "link") return link(attribute(piece, "href"), nodes(piece.inside));
  if (piece.type === "code") {
    const code = new CodeBlock();
    code.set(piece.text, language(piece));
    codes.set(code.element, code);
    return code.element;
  }
  const made = container(piece, parent);
  if (long && piece.type === "paragraph" && isLong(plainText(piece))) drawFolded(made, plainText(piece));
  else sync(piece.type === "table" ? /** @type {Element} */ (made.firstElementChild) : made, piece.inside);
  return made;
}

/** @param {Piece} piece @returns {string} */
const plainText = (piece) => piece.text + piece.inside.map(plainText).join("");

/** @type {Record<string, keyof HTMLElementTagNameMap>} */
const TAGS = { bullet_list: "ul", ordered_list: "ol", list_item: "li", blockquote: "blockquote", thead: "thead", tbody: "tbody", tr: "tr", th: "th", td: "td", strong: "strong", em: "em", s: "del" };

/**
 * Each paragraph, heading, list item and cell finds its own direction. An item has that of its first words, which so have none.
 * @param {Piece} piece @param {Element | null} parent @returns {HTMLElement}
 */
function container({ type, token }, parent) {
  if (type === "paragraph") return el("p", { dir: (parent?.tagName !== "LI" || parent.childNodes.length > 0) && "auto", class: token?.hidden && "tight" });
  if (type === "heading") return el(/** @type {"h3"} */ (`h${Math.min(6, Number(token?.tag.slice(1)) + 2)}`), { dir: "auto" }); // below the page's own
  if (type === "table") return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, el("table"));
  if (type === "th" || type === "td") return el(type, { dir: "auto", class: /center|right/.exec(String(token?.attrGet("style") || ""))?.[0] });
  const tag = TAGS[type];
  if (!tag) return el("span");
  return el(tag, { dir: type === "list_item" && "auto", start: type === "ordered_list" && token?.attrGet("start") });
}

/** @param {string} address @param {Node[]} inside */
function link(address, inside) {
  if (!SAFE.test(address)) return el("span", {}, ...inside);
  return el("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer" }, ...inside);
}
