/** The card of a delegate inside its parent's step: its task, its state, its own timeline folded inside, its answer (G1). */
import { el, fill, write } from "../dom.js";
import { count, since, stopCounting } from "../clock.js";
import { actorName, byPerson, counting, duration, earlierAnswer, endedWith } from "../words.js";
import { DRAWINGS, prose } from "./items.js";
import { doingNow } from "./strip.js";

/** @typedef {import("./view.js").Item} Item @typedef {import("./view.js").AgentView} AgentView */
/** @typedef {{ dot: string, colour: string, words: () => string }} Shown */

/**
 * @param {import("./items.js").Context} context
 * @param {import("./blocks.js").Blocks} blocks its own
 * @returns {import("./items.js").Drawing}
 */
export function agentCard(context, blocks) {
  const { element, draw } = DRAWINGS.tool(context);
  const [dot, line, , status] = /** @type {HTMLCollectionOf<HTMLElement>} */ (/** @type {Element} */ (element.firstElementChild).children);
  const inside = el("div", { class: "inside", "aria-live": "off" });
  const label = el("summary");
  const work = el("details", { class: "work", on: { toggle: () => drawInside() } }, label, inside);
  /** @type {AgentView | undefined} */
  let child;
  const drawInside = () => void (work.open && child && blocks.draw(child.blocks, inside));
  element.classList.add("agent");
  element.tabIndex = -1;
  line.before(el("b", {}, "Sub-agent"));
  const pre = /** @type {HTMLElement} */ (element.lastElementChild);
  const result = el("div", { class: "prose md result", hidden: true });
  const earlier = el("div", { class: "earlier", hidden: true });
  let shownEarlier = "";
  pre.before(work, earlier);
  pre.after(result);
  return {
    element,
    draw(item) {
      draw(item);
      child = item.child;
      if (child) element.id = `agent-${child.id}`;
      work.hidden = !child?.blocks.length;
      const turn = lastTurn(child);
      write(label, item.state === "running" && turn && !turn.end && turn.phase ? `Its work: ${doingNow(turn.phase).toLowerCase()}` : "Its work");
      const shown = stateOf(item, child);
      if (shown) {
        stopCounting(status);
        dot.className = `dot ${shown.dot}`;
        status.className = `push num ${shown.colour}`;
        count(status, shown.words);
        if (shown.dot === "none" && item.state === "running") element.dataset.is = "waits";
      }
      const { outcome } = item.outcome || {};
      result.hidden = typeof item.text !== "string" || item.text === "" || pre.hidden || outcome === "interrupted";
      if (!result.hidden) prose(result, item.text, context, false);
      if (!result.hidden || outcome === "interrupted") pre.hidden = true; // what is for the agent above: people read who stopped it
      const answers = earlierAnswers(item, child);
      const mark = JSON.stringify([answers, outcome]);
      earlier.hidden = !answers.length;
      if (mark !== shownEarlier) fill(earlier, ...answers.map((text) => earlierOne(text, outcome, context)));
      shownEarlier = mark;
      drawInside();
    },
  };
}

/**
 * Its answers that the agent above does not get: a message for its next turn lets it answer once more, and its last one counts (G3).
 * @param {Item} item @param {AgentView | undefined} child @returns {import("./view.js").Text[]}
 */
function earlierAnswers(item, child) {
  const done = (child?.blocks || []).flatMap((block) => (block.kind === "turn" && block.turn.status === "done" ? [block.turn] : []));
  const answers = done.map((turn) => turn.items.findLast((each) => each.kind === "text" && !each.cut)?.text).filter(Boolean);
  return item.outcome?.outcome === "ok" ? answers.slice(0, -1) : answers;
}

/** @param {import("./view.js").Text} text @param {string | undefined} outcome @param {import("./items.js").Context} context */
function earlierOne(text, outcome, context) {
  const words = el("div", { class: "prose md", dir: "auto" });
  prose(words, text, context, false);
  return el("div", {}, words, el("p", { class: "muted small" }, earlierAnswer(outcome)));
}

/** @param {AgentView | undefined} agent */
function lastTurn(agent) {
  const last = agent?.blocks.findLast((block) => block.kind === "turn");
  return last?.kind === "turn" ? last.turn : null;
}

/** @param {Item} item @param {AgentView | undefined} child @returns {Shown | null} null where any call would say the same */
function stateOf(item, child) {
  if (item.state === "settled") return endOf(item, child);
  if (item.state !== "running") return null;
  const turn = lastTurn(child);
  if (item.ending || turn?.status === "stopping") return { dot: "stop", colour: "bad", words: () => "stopping" };
  if (turn?.items.some((each) => each.state === "asked" && !each.ending)) return { dot: "wait", colour: "ask-colour", words: () => "waits for approval" };
  if (!turn || turn.end || turn.phase?.is === "waiting") return { dot: "none", colour: "muted", words: () => "waits for a worker" };
  const at = item.startedAt || turn.at;
  return { dot: "live beats", colour: "", words: () => `working${at ? `, ${counting(since(at))}` : ""}` };
}

/** @param {Item} item @param {AgentView | undefined} child @returns {Shown | null} */
function endOf({ outcome, startedAt, endedAt }, child) {
  const took = startedAt ? `, ${duration(Date.parse(endedAt) - Date.parse(startedAt))}` : "";
  if (outcome.outcome === "ok") return { dot: "done", colour: "ok", words: () => `done${took}` };
  if (outcome.outcome === "error") return { dot: "none", colour: "strong", words: () => `failed${child ? took : ""}` };
  if (outcome.outcome !== "interrupted") return null;
  return { dot: "stop", colour: "bad", words: () => stoppedWords(child) };
}

/** Who stopped a delegate, or what ended it, in short. @param {AgentView | undefined} agent */
export function stoppedWords(agent) {
  if (!agent?.end) return "stopped before it began";
  const { data, actor } = agent.end;
  if (byPerson(data.cause)) return `stopped by ${actorName(actor)}`;
  return (data.cause !== "parent" && endedWith(data.cause)) || "stopped with the agent above it";
}
