/** The column beside the timeline: the turns to jump to. */
import { el, fill } from "../dom.js";
import { actorName, byPerson } from "../words.js";
import { waitsForWorker } from "./blocks.js";
import { asked } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {import("./view.js").View} View @typedef {import("./view.js").TurnView} TurnView */

/** Turns that nobody stopped. */
const LOST = /** @type {Record<string, string>} */ ({ worker_lost: "worker died", worker_shutdown: "worker shut down", closing: "closed" });
const STATUS = /** @type {Record<string, [string, string]>} */ ({ running: ["live", "running"], stopping: ["stop", "stopping"], done: ["done", "done"], failed: ["none", "failed"], stopped: ["stop", "stopped"] });

export class Side {
  /** @param {{ turns: HTMLElement, show: (key: string) => void }} parts */
  constructor({ turns, show }) {
    this.turns = turns;
    this.show = show;
    this.drawn = "";
  }

  /** @param {State} state @param {View} view */
  draw(state, view) {
    const asking = new Set(asked(state).map(({ turn }) => turn.id));
    const turns = view.blocks.filter((block) => block.kind === "turn").map((block) => /** @type {{ turn: TurnView }} */ (block).turn);
    const mark = JSON.stringify(turns.map((turn) => [turn.id, turn.index, turn.status, turn.by?.id, waitsForWorker(turn), asking.has(turn.id)]));
    if (mark === this.drawn) return;
    this.drawn = mark;
    fill(this.turns, ...turns.map((turn) => this.#turnRow(turn, asking.has(turn.id))));
    this.turns.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  /** @param {TurnView} turn @param {boolean} asks */
  #turnRow(turn, asks) {
    const [dot, words] = asks ? ["wait", "asks"] : waitsForWorker(turn) ? ["none", "waits"] : STATUS[turn.status];
    const end = byPerson(turn.end?.data.cause) && turn.end ? `stopped, ${actorName(turn.end.actor)}` : LOST[turn.end?.data.cause] || words;
    return el(
      "button", { type: "button", class: "row", "aria-current": turn.status === "running" || turn.status === "stopping", on: { click: () => this.show(turn.id) } },
      el("i", { class: `dot ${dot}` }), el("span", {}, turn.index === null ? "…" : `Turn ${turn.index}`), el("small", {}, end),
    );
  }
}
