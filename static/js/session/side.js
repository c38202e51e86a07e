/** The columns beside the timeline: the agents with their state, and the turns to jump to. */
import { el, fill } from "../dom.js";
import { actorName, count as countOf, modeWords } from "../words.js";
import { primary } from "./state.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View @typedef {import("./view.js").TurnView} TurnView */

/** Turns that nobody stopped. */
const LOST = /** @type {Record<string, string>} */ ({ worker_lost: "worker died", worker_shutdown: "worker shut down", closing: "closed" });
const STATUS = /** @type {Record<string, [string, string]>} */ ({ running: ["live", "running"], stopping: ["stop", "stopping"], done: ["done", "done"], failed: ["none", "failed"], stopped: ["stop", "stopped"] });

export class Side {
  /** @param {{ agents: HTMLElement, turns: HTMLElement, about: HTMLElement | null, show: (key: string) => void }} parts */
  constructor({ agents, turns, about, show }) {
    this.agents = agents;
    this.turns = turns;
    this.about = about;
    this.show = show;
    this.drawn = { agents: "", turns: "" };
  }

  /** @param {State} state @param {View} view */
  draw(state, view) {
    const agents = JSON.stringify(Object.values(state.loops).map((loop) => [loop.id, loop.status, loop.turn?.step, loop.turn?.mark, loop.mode, loop.turns]));
    if (agents !== this.drawn.agents) {
      this.drawn.agents = agents;
      fill(this.agents, ...Object.values(state.loops).map(agentRow));
      const mode = this.about?.querySelector("[data-mode]");
      const loop = primary(state);
      if (mode && loop) mode.textContent = modeWords(loop.mode);
    }
    const turns = view.blocks.filter((block) => block.kind === "turn").map((block) => /** @type {{ turn: TurnView }} */ (block).turn);
    const mark = JSON.stringify(turns.map((turn) => [turn.id, turn.index, turn.status, turn.by?.id]));
    if (mark === this.drawn.turns) return;
    this.drawn.turns = mark;
    fill(this.turns, ...turns.map((turn) => this.#turnRow(turn)));
    this.turns.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  /** @param {TurnView} turn */
  #turnRow(turn) {
    const [dot, words] = STATUS[turn.status];
    const end = turn.end?.data.cause && ["person", "token", "admin"].includes(turn.end.data.cause) ? `stopped, ${actorName(turn.end.actor)}` : LOST[turn.end?.data.cause] || words;
    return el(
      "button", { type: "button", class: "row", "aria-current": turn.status === "running" || turn.status === "stopping", on: { click: () => this.show(turn.id) } },
      el("i", { class: `dot ${dot}` }), el("span", {}, turn.index === null ? "…" : `Turn ${turn.index}`), el("small", {}, end),
    );
  }
}

/** @param {import("./state.js").Loop} loop */
function agentRow(loop) {
  const dot = loop.turn ? (loop.turn.mark ? "stop" : "live") : loop.status === "closed" ? "none" : "done";
  const words = loop.turn ? (loop.turn.mark ? "stopping" : `step ${loop.turn.step}`) : loop.status === "closed" ? "ended" : countOf(loop.turns, "turn");
  return el("div", { class: `row${loop.parent ? " sub" : ""}` }, el("i", { class: `dot ${dot}` }), el("span", { dir: "auto" }, loop.parent ? loop.agent : "Main agent"), el("small", {}, words));
}
