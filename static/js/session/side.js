/** The columns beside the timeline: the agents with their state, and the turns to jump to. */
import { el, fill } from "../dom.js";
import { actorName, count as countOf } from "../words.js";
import { asked } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View @typedef {import("./view.js").TurnView} TurnView */

/** Turns that nobody stopped. */
const LOST = /** @type {Record<string, string>} */ ({ worker_lost: "worker died", worker_shutdown: "worker shut down", closing: "closed" });
const STATUS = /** @type {Record<string, [string, string]>} */ ({ running: ["live", "running"], stopping: ["stop", "stopping"], done: ["done", "done"], failed: ["none", "failed"], stopped: ["stop", "stopped"] });

export class Side {
  /** @param {{ agents: HTMLElement, turns: HTMLElement, show: (key: string) => void }} parts */
  constructor({ agents, turns, show }) {
    this.agents = agents;
    this.turns = turns;
    this.show = show;
    this.drawn = { agents: "", turns: "" };
  }

  /** @param {State} state @param {View} view */
  draw(state, view) {
    const asking = new Set(asked(state).map(({ turn }) => turn.id));
    const agents = JSON.stringify([...Object.values(state.loops).map((loop) => [loop.id, loop.status, loop.turn?.step, loop.turn?.mark, loop.turns]), ...asking]);
    if (agents !== this.drawn.agents) {
      this.drawn.agents = agents;
      fill(this.agents, ...Object.values(state.loops).map((loop) => agentRow(loop, asking.has(loop.turn?.id || ""))));
    }
    const turns = view.blocks.filter((block) => block.kind === "turn").map((block) => /** @type {{ turn: TurnView }} */ (block).turn);
    const mark = JSON.stringify(turns.map((turn) => [turn.id, turn.index, turn.status, turn.by?.id, asking.has(turn.id)]));
    if (mark === this.drawn.turns) return;
    this.drawn.turns = mark;
    fill(this.turns, ...turns.map((turn) => this.#turnRow(turn, asking.has(turn.id))));
    this.turns.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  /** @param {TurnView} turn @param {boolean} asks */
  #turnRow(turn, asks) {
    const [dot, words] = asks ? ["wait", "asks"] : STATUS[turn.status];
    const end = turn.end?.data.cause && ["person", "token", "admin"].includes(turn.end.data.cause) ? `stopped, ${actorName(turn.end.actor)}` : LOST[turn.end?.data.cause] || words;
    return el(
      "button", { type: "button", class: "row", "aria-current": turn.status === "running" || turn.status === "stopping", on: { click: () => this.show(turn.id) } },
      el("i", { class: `dot ${dot}` }), el("span", {}, turn.index === null ? "…" : `Turn ${turn.index}`), el("small", {}, end),
    );
  }
}

/** @param {import("./state.js").Loop} loop @param {boolean} asks */
function agentRow(loop, asks) {
  const dot = asks ? "wait" : loop.turn ? (loop.turn.mark ? "stop" : "live") : loop.status === "closed" ? "none" : "done";
  const words = asks ? "asks" : loop.turn ? (loop.turn.mark ? "stopping" : `step ${loop.turn.step}`) : loop.status === "closed" ? "ended" : countOf(loop.turns, "turn");
  return el("div", { class: `row${loop.parent ? " sub" : ""}` }, el("i", { class: `dot ${dot}` }), el("span", { dir: "auto" }, loop.parent ? loop.agent : "Main agent"), el("small", {}, words));
}
