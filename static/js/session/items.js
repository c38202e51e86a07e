/**
 * One drawing for each kind of item in a turn. Each makes its element once and returns how to redraw it, so that
 * streaming text only ever grows a text node.
 *
 * @typedef {import("./view.js").Item} Item
 * @typedef {{ element: HTMLElement, draw: (item: Item) => void }} Drawing
 * @typedef {{ readText: (ref: string) => Promise<string>, rules: Map<string, import("./view.js").Standing>,
 *   putInBox: ((text: string, loop: string, files?: import("./files.js").SentFile[]) => void) | null, session: string,
 *   retry: ((input: string) => Promise<void>) | null }} Context `retry`: try a failed turn's message again, for those who may
 */
import { button, el, fill, setAttribute, write } from "../dom.js";
import { count, since, stopCounting } from "../clock.js";
import { answerWords } from "./answered.js";
import { fileList, wordsBeside } from "./files.js";
import { counts, diffOf, drawDiff } from "./diff.js";
import { drawFolded, drawInParts, isLong } from "./long.js";
import { Markdown } from "./markdown.js";
import { Output } from "./output.js";
import { facts } from "./stops.js";
import { actorName, apart, callInFull, callLine, clockTime, count as countOf, counting, duration, exact, failedWords, grouped, hue, leftWords, outcomeWords, plain, stoppedBy, survivors, withoutNote } from "../words.js";

/** @param {string} at @param {boolean} [seconds] */
export function when(at, seconds = false) {
  return el("time", { datetime: at, title: exact(at), class: "num" }, clockTime(at, seconds));
}

/** @type {WeakMap<HTMLElement, import("./view.js").Text>} what each element shows: what one has unfolded stays so when it is drawn again */
const shown = new WeakMap();

/** @param {import("./view.js").Text} a @param {import("./view.js").Text} b */
const same = (a, b) => a === b || (typeof a === "object" && JSON.stringify(a) === JSON.stringify(b));

/**
 * Words that people, models and tools wrote, always as text nodes: short ones at once, long ones on demand, erased ones as such.
 * @param {HTMLElement} element
 * @param {import("./view.js").Text} value
 * @param {Context} context
 * @param {boolean} [live] it still grows: what one watched being written is not folded under one's eyes
 */
export function words(element, value, context, live = false) {
  if (shown.has(element) && same(shown.get(element), value)) return;
  shown.set(element, value);
  if (typeof value === "string") {
    const node = element.firstChild;
    if (node instanceof Text && element.childNodes.length === 1 && (live || !isLong(value) || node.length * 2 > value.length)) grow(node, value);
    else if (live || !isLong(value)) fill(element, document.createTextNode(value));
    else drawFolded(element, value);
  } else if (value && "erased" in value) fill(element, el("i", { class: "muted" }, "erased"));
  else if (value && "ref" in value) fill(element, longText(value, context, (text) => drawInParts(element, text)));
  else fill(element, el("span", { class: "muted" }, "…"));
}

/** @type {WeakMap<HTMLElement, Markdown>} */
const written = new WeakMap();

/**
 * What an agent wrote, as markdown; the same exceptions as for `words`.
 * @param {HTMLElement} element @param {import("./view.js").Text} value @param {Context} context @param {boolean} live
 */
export function prose(element, value, context, live) {
  if (typeof value === "string") {
    const known = written.get(element) || new Markdown(element);
    written.set(element, known);
    shown.delete(element);
    known.set(value, live);
  } else if (!(shown.has(element) && same(shown.get(element), value))) {
    written.delete(element);
    shown.set(element, value);
    if (value && "ref" in value) fill(element, longText(value, context, async (text) => {
      const focused = element.contains(document.activeElement);
      const whole = new Markdown(element).setInParts(text);
      element.tabIndex = -1;
      if (focused) element.focus({ preventScroll: true }); // the button is gone
      await whole;
    }));
    else words(element, value, context);
  }
}

/**
 * @param {{ ref: string, size: number }} value @param {Context} context
 * @param {(text: string) => unknown} draw
 */
function longText(value, context, draw) {
  const show = button(`Long text, ${grouped(Math.round(value.size / 1024))} KiB. Show`, async () => {
    if (show.ariaDisabled === "true") return;
    show.ariaDisabled = "true"; // and not disabled, which would drop the focus
    try {
      await draw(await context.readText(value.ref));
    } catch (error) {
      show.ariaDisabled = null;
      write(show, `This text could not be read: ${/** @type {Error} */ (error).message} Try again`);
    }
  });
  return show;
}

/** Only append where the new text begins with the old. @param {Text} node @param {string} text */
export function grow(node, text) {
  if (node.data === text) return;
  if (text.length > node.length && text.startsWith(node.data)) node.appendData(text.slice(node.length));
  else node.data = text;
}

/** @param {Context} context @returns {Drawing} */
function said(context) {
  const name = el("bdi");
  const by = el("div", { class: "by" }, name);
  const text = el("div", { class: "prose", dir: "auto" });
  const element = el("div", { class: "said" }, by, text);
  let listed = "";
  return {
    element,
    draw(item) {
      element.className = `said ${item.by && item.by.kind !== "above" ? hue(item.by.id) : ""} ${item.steer ? "steer" : ""}`.trim();
      write(name, actorName(item.by));
      fill(by, name, item.where && el("span", {}, item.where));
      words(text, item.text, context);
      const files = JSON.stringify(item.files || []);
      if (files === listed) return;
      listed = files;
      element.querySelector(".files")?.remove();
      if (item.files?.length) element.append(fileList(item.files, context.session));
    },
  };
}

/** @param {Context} context @returns {Drawing} */
function reply(context) {
  const text = el("div", { class: "prose md" });
  const why = el("p", { class: "muted small" });
  const element = el("div", { class: "step" }, text);
  return {
    element,
    draw(item) {
      const value = item.live ? item.said : item.text;
      prose(text, value, context, Boolean(item.live));
      element.hidden = value === "" && !item.live;
      setAttribute(element, "data-live", Boolean(item.live));
      text.classList.toggle("cut", Boolean(item.cut));
      setAttribute(text, "title", item.cut === "stopped" && "Cut off when the turn ended");
      if (item.replacedBy || item.dropped) {
        write(why, item.dropped ? "Not finished: begun anew by another worker" : `Replaced by ${item.replacedBy}’s message`);
        element.append(why);
      }
    },
  };
}

/** @param {Context} context @returns {Drawing} */
function reasoning(context) {
  const label = el("summary");
  const text = el("div", { class: "prose md" });
  const element = el("details", { class: "think" }, label, text);
  return {
    element,
    draw(item) {
      write(label, item.live ? "Thinking" : item.cut ? "Thoughts, cut off" : "Thoughts");
      prose(text, item.live ? item.said : item.text, context, Boolean(item.live));
      text.classList.toggle("cut", Boolean(item.cut));
      element.hidden = !item.live && item.text === "";
    },
  };
}

/** @param {Context} context @returns {Drawing} */
function tool(context) {
  const dot = el("i", { class: "dot" });
  const line = el("code", { dir: "auto" });
  const sizes = el("span", { class: "sizes num", hidden: true });
  const status = el("span", { class: "push num" });
  const more = button("Show the whole call", () => {
    full.hidden = !full.hidden;
    more.setAttribute("aria-expanded", String(!full.hidden));
  }, { kind: "quiet", iconName: "more" });
  const full = el("div", { class: "full", dir: "auto", hidden: true });
  const change = el("div", { class: "change", hidden: true });
  const answer = el("div", { class: "answer", hidden: true });
  const left = el("div", { class: "left bad", hidden: true });
  const pre = el("pre", { hidden: true, dir: "auto" });
  const output = new Output(pre);
  const element = el("article", { class: "tool" }, el("header", {}, dot, line, sizes, status, more), full, change, answer, left, pre);
  return {
    element,
    draw(item) {
      drawCall(item, { line, more, full, element, change, sizes });
      drawStatus(item, { dot, status, element });
      const said = answerWords(item, context.rules);
      answer.hidden = !said.length;
      fill(answer, ...said);
      drawLeft(item, left);
      if (item.text && typeof item.text === "object" && !item.said) drawLong(pre, output, item.text, context);
      else if (item.outcome?.outcome === "denied" && item.approval) pre.hidden = true; // the note was said above
      else output.set(item.live ? item.said || "" : shownOutput(item), Boolean(item.live));
    },
  };
}

/** @param {Item} item */
function shownOutput({ text, said, outcome }) {
  const shown = typeof text === "string" && text ? text : said || "";
  return outcome?.processes?.background?.length ? withoutNote(shown) : shown;
}

/** An output that is fetched when asked for, or was erased. @param {HTMLElement} pre @param {Output} output @param {import("./view.js").Text} value @param {Context} context */
function drawLong(pre, output, value, context) {
  pre.hidden = false;
  if (shown.has(pre) && same(shown.get(pre), value)) return;
  shown.set(pre, value);
  if (!value || typeof value !== "object" || !("ref" in value)) return words(pre, value, context);
  const show = longText(value, context, (text) => {
    show.remove();
    output.set(text, false);
    output.showAll();
    pre.tabIndex = 0;
    pre.focus({ preventScroll: true });
  });
  pre.prepend(show);
}

/** @type {WeakMap<HTMLElement, unknown>} whose arguments each diff shows */
const changes = new WeakMap();

/** @param {Item} item @param {{ line: HTMLElement, more: HTMLElement, full: HTMLElement, element: HTMLElement, change: HTMLElement, sizes: HTMLElement }} parts */
function drawCall(item, { line, more, full, element, change, sizes }) {
  const call = callLine(item.tool, item.args);
  write(line, call.split("\n", 1)[0]);
  line.title = plain(call.length > 400 ? `${call.slice(0, 400)}…` : call);
  element.setAttribute("aria-label", plain(`${item.tool === "delegate" ? "Sub-agent" : item.tool}: ${call.slice(0, 120)}`));
  if (item.args !== undefined && changes.get(change) === item.args) return;
  changes.set(change, item.args);
  const diff = diffOf(item.tool, item.args);
  change.hidden = sizes.hidden = !diff?.length;
  fill(change, diff?.length ? drawDiff(diff) : null);
  fill(sizes, ...(diff?.length ? sizesOf(diff) : []));
  const whole = diff ? "" : callInFull(item.tool, item.args);
  more.hidden = whole === "";
  write(full, whole);
}

/** "+12 −3", with the words for those who hear it. @param {import("./diff.js").Row[]} diff */
export function sizesOf(diff) {
  const { added, removed } = counts(diff);
  return [
    added > 0 && el("span", { class: "ok" }, `+${grouped(added)}`, el("span", { class: "unseen" }, " added")), " ",
    removed > 0 && el("span", { class: "bad" }, `−${grouped(removed)}`, el("span", { class: "unseen" }, " removed")),
  ];
}

/** @param {Item} item @param {{ dot: HTMLElement, status: HTMLElement, element: HTMLElement }} parts */
function drawStatus(item, { dot, status, element }) {
  stopCounting(status);
  const is = item.state === "settled" ? (item.outcome.outcome === "not_run" ? "cut" : "settled") : item.state === "withdrawn" ? "cut" : item.ending && item.state === "asked" ? "planned" : item.state;
  element.dataset.is = is;
  if ((item.state === "running" || item.state === "asked") && item.ending) {
    dot.className = "dot stop";
    status.className = "push bad";
    write(status, "ending");
  } else if (item.state === "running") {
    dot.className = "dot live beats";
    status.className = "push num";
    count(status, () => counting(since(item.startedAt)));
  } else if (item.state === "asked") {
    dot.className = "dot wait";
    status.className = "push num ask-colour";
    count(status, () => `asks, ${counting(since(item.approval.at))}`);
  } else if (item.state === "settled") {
    const [text, colour] = outcomeWords(item.outcome, item.gone);
    dot.className = `dot ${{ ok: "done", interrupted: "stop", lost: "stop", error: "" }[/** @type {string} */ (item.outcome.outcome)] ?? "none"}`;
    status.className = `push num ${colour}`;
    write(status, text);
  } else {
    dot.className = "dot none";
    status.className = "push";
    write(status, item.state === "withdrawn" ? `withdrawn by ${item.replacedBy}’s message` : "not started");
  }
}

/** What the kill could not end is named, in red (E7). @param {Item} item @param {HTMLElement} left */
function drawLeft(item, left) {
  const named = survivors(item.outcome?.processes);
  left.hidden = named === "";
  write(left, `Outlived its kill: ${named}`);
}

/** @param {Context} context @returns {Drawing} */
function note(context) {
  const element = el("p", { class: "note" });
  const back = el("span", { class: "prose", dir: "auto" });
  return {
    element,
    draw(item) {
      setAttribute(element, "title", item.at && [item.title, exact(item.at)].filter(Boolean).join("\n"));
      element.hidden = Boolean(item.hidden);
      element.classList.toggle("bad", Boolean(item.bad));
      if (item.back !== undefined) {
        words(back, item.back, context);
        fill(element, item.words, back, " ", !item.back?.erased && context.putInBox && putInBox(item.back, item.given, context));
        if (item.given?.files?.length) element.append(fileList(item.given.files, context.session));
        return;
      }
      const quote = typeof item.quote === "string" ? item.quote : "";
      fill(element, item.words, quote && `“${apart(quote.length > 160 ? `${quote.slice(0, 160)}…` : quote)}”`);
    },
  };
}

/** One's own words that came back can go on being written, at any time. @param {any} value @param {{ loop: string | null, files?: import("./files.js").SentFile[] } | undefined} given the agent they were for, and their files @param {Context} context */
function putInBox(value, given, context) {
  const put = button("Put it into the box", async () => {
    try {
      context.putInBox?.(typeof value === "string" ? value : await context.readText(value.ref), given?.loop || "", given?.files);
    } catch (error) {
      write(put, `This text could not be read: ${/** @type {Error} */ (error).message} Try again`);
    }
  });
  put.dataset.whileOpen = "";
  if (typeof value === "string") {
    // Not offered while the box holds them.
    const files = (given?.files || []).filter((file) => typeof file.name === "string");
    put.value = wordsBeside(value, files);
    put.dataset.files = files.map((file) => file.id).join(" ");
  }
  return put;
}

/** What an ended turn left running holds what waits: named under its end (E7). @returns {Drawing} */
function left() {
  const element = el("p", { class: "note bad" });
  return { element, draw: (item) => write(element, leftWords(item.data)) };
}

/** When a stop was asked: the moment every screen says first. A turn that nobody stopped has only its end. @param {import("./state.js").LogEvent} event */
const askedAt = ({ at, data }) => (data.request ? new Date(Date.parse(at) - data.settled_ms).toISOString() : at);

/** @returns {Drawing} */
function stopped() {
  const head = el("div", { class: "prose" });
  const list = el("div", { class: "facts num" });
  const element = el("div", { class: "rule stopped" }, head, list);
  return {
    element,
    draw({ event, actor, later, numbers, phase }) {
      const { data } = event;
      element.dataset.seq = event.seq;
      const reason = later?.reason || data.reason;
      fill(
        head, el("strong", {}, stoppedBy(data, actor)), " at ", when(askedAt(event), true),
        ...(typeof reason === "string" && reason !== "" ? [`: “${apart(reason)}”`] : []),
      );
      fill(list, ...facts(numbers, phase, data.grace_ms).map(([words, value, colour]) => el("span", { class: colour }, words && `${words} `, words ? el("b", {}, value) : value)), el("a", { href: `/interruptions/${event.turn}` }, "details"));
    },
  };
}

/** @param {Context} context @returns {Drawing} */
function failed(context) {
  const element = el("div", { class: "rule quiet failed" });
  const again = button("Try again", async () => {
    if (again.ariaDisabled === "true") return;
    again.ariaDisabled = "true"; // and not disabled, which would drop the focus
    await context.retry?.(retries);
    again.ariaDisabled = null;
  });
  let retries = "";
  return {
    element,
    draw({ event, retry }) {
      const { error, steps } = event.data;
      retries = retry || "";
      element.dataset.seq = event.seq;
      fill(
        element, el("strong", {}, failedWords(error)), " at ", when(event.at, true),
        el("div", { class: "prose", dir: "auto" }, typeof error?.detail === "string" ? error.detail : error?.code || ""),
        el("div", { class: "facts num" }, el("span", {}, "kept ", el("b", {}, countOf(steps || 0, "step")))),
        retry && context.retry && el("div", { class: "acts start" }, again),
      );
    },
  };
}

/** @type {Record<string, (context: Context) => Drawing>} */
export const DRAWINGS = { said, text: reply, reasoning, tool, note, left, stopped, failed };
