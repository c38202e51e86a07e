/** The agents as a tree with what one may do to each delegate, and what runs in the background. */
import { button, el, fill, openMenu } from "../dom.js";
import { count, since } from "../clock.js";
import { actorName, count as countOf, counting, plain, processNames, startOf } from "../words.js";
import { stoppedWords } from "./agent_card.js";
import { asked, isTask } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {import("./state.js").Loop} Loop @typedef {import("./view.js").View} View */

/** The live delegates below an agent. @param {State} state @param {string} loop @returns {Loop[]} */
export const below = (state, loop) =>
  Object.values(state.loops).filter((each) => each.parent === loop && each.status !== "closed").flatMap((each) => [each, ...below(state, each.id)]);

/** What still runs in the background, whoever left it. @param {State} state */
export const background = (state) => Object.values(state.loops).flatMap((loop) => loop.background);

export class Agents {
  /**
   * @param {{ place: HTMLElement, list: HTMLElement, can: string[], show: (loop: string) => void, stop: (loop: string) => void,
   *   message: ((loop: string) => void) | null, kill: (call: string, turn: string) => void }} options
   *   `list`: of background processes, with its heading before it
   */
  constructor({ place, list, can, show, stop, message, kill }) {
    this.place = place;
    this.list = list;
    this.mayStop = can.includes("interrupt");
    this.show = show;
    this.stop = stop;
    this.message = message;
    this.kill = kill;
    this.drawn = { agents: "", background: "" };
  }

  /** @param {State} state @param {View} view */
  draw(state, view) {
    this.#drawAgents(state, view);
    this.#drawBackground(state, view);
  }

  /** @param {State} state @param {View} view */
  #drawAgents(state, view) {
    const asking = new Set(asked(state).map(({ loop }) => loop.id));
    const loops = Object.values(state.loops);
    const rows = loops.filter((loop) => loop.parent === null).flatMap((loop) => this.#rows(state, view, loop, 0, asking));
    const mark = JSON.stringify([rows.map(({ loop, depth, shown, name }) => [loop.id, depth, shown, name, loop.status, loop.turn?.mark]), state.status]);
    if (mark === this.drawn.agents) return;
    this.drawn.agents = mark;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("#agents [data-act]"));
    const again = focused && `[data-loop="${focused.closest("[data-loop]")?.getAttribute("data-loop")}"] [data-act="${focused.dataset.act}"]`;
    fill(this.place, ...rows.map((row) => this.#row(state, row)));
    if (again) /** @type {HTMLElement | null} */ (this.place.querySelector(again))?.focus();
  }

  /**
   * An agent, and those below it.
   * @param {State} state @param {View} view @param {Loop} loop @param {number} depth @param {Set<string>} asking
   * @returns {{ loop: Loop, depth: number, name: string, shown: [string, string] }[]}
   */
  #rows(state, view, loop, depth, asking) {
    const task = view.tasks.get(loop.id);
    const name = loop.parent === null ? "Main agent" : typeof task === "string" ? startOf(task) : "Sub-agent";
    const children = Object.values(state.loops).filter((each) => each.parent === loop.id);
    return [{ loop, depth, name, shown: stateWords(loop, view, asking.has(loop.id)) }, ...children.flatMap((each) => this.#rows(state, view, each, depth + 1, asking))];
  }

  /** @param {State} state @param {{ loop: Loop, depth: number, name: string, shown: [string, string] }} row */
  #row(state, { loop, depth, name, shown: [dot, words] }) {
    const head = [el("i", { class: `dot ${dot}` }), el("span", { dir: "auto", title: plain(name) }, name), el("small", {}, words)];
    if (loop.parent === null) return el("div", { class: "row" }, ...head);
    const stop = button("Stop", () => this.#ask(stop, state, loop, name), { name: `Stop: ${name}` });
    const say = button("Message", () => this.message?.(loop.id), { name: `Message: ${name}` });
    stop.dataset.act = "stop";
    say.dataset.act = "message";
    const open = loop.status !== "closed" && state.status === "open";
    const acts = [open && this.message && say, open && this.mayStop && !loop.turn?.mark && stop].filter(Boolean);
    return el("div", { class: "agent-row", "data-depth": depth, "data-loop": loop.id },
      el("button", { type: "button", class: "row", on: { click: () => this.show(loop.id) } }, ...head),
      acts.length > 0 && el("div", { class: "acts start" }, .../** @type {HTMLElement[]} */ (acts)));
  }

  /** What this stop will do, before it does it. @param {HTMLElement} anchor @param {State} state @param {Loop} loop @param {string} name */
  #ask(anchor, state, loop, name) {
    const deeper = below(state, loop.id).length;
    const left = [loop, ...below(state, loop.id)].flatMap((each) => each.background).length;
    const waits = [loop, ...below(state, loop.id)].flatMap((each) => [...each.steers, ...each.inbox.filter((entry) => !isTask(each, entry))]).length;
    const words = [`Ends this agent${deeper ? ` and ${countOf(deeper, "agent")} below it` : ""}${left ? `, and ${countOf(left, "process", "processes")} in the background` : ""}.`, waits > 0 && "Messages that wait for it go back to their authors.", "The others go on, and the agent above is told that it was stopped."];
    const menu = openMenu(anchor, [
      el("p", {}, el("b", { dir: "auto" }, name)), el("p", { class: "muted" }, words.filter(Boolean).join(" ")),
      el("div", { class: "acts" }, button(deeper ? `Stop these ${deeper + 1} agents` : "Stop only this agent", () => {
        menu.hidePopover();
        this.stop(loop.id);
      }, { kind: "danger" })),
    ], `Stop: ${name}`);
  }

  /** @param {State} state @param {View} view */
  #drawBackground(state, view) {
    const running = background(state);
    const known = running.map(({ turn, call }) => view.background.get(`${turn} ${call}`));
    const mark = JSON.stringify([running, known]);
    if (mark === this.drawn.background) return;
    this.drawn.background = mark;
    for (const element of [this.list, this.list.previousElementSibling]) /** @type {HTMLElement} */ (element).hidden = !running.length;
    fill(this.list, ...running.map((each, at) => this.#process(each, known[at])));
  }

  /** @param {import("./state.js").Background} each @param {import("./view.js").Left | undefined} left */
  #process({ call, turn, at_ms: at, killer }, left) {
    const outlived = left?.surviving.length ? left.surviving : null;
    const names = processNames(outlived || left?.processes) || "a command";
    const age = el("small", { class: "num" });
    if (outlived) fill(age, el("b", { class: "bad" }, "outlived its kill"));
    else if (killer) fill(age, `being ended by ${actorName(/** @type {any} */ (killer.actor))}`);
    else count(age, () => `for ${counting(since(at))}`);
    const kill = this.mayStop && !killer && button("Kill", () => this.kill(call, turn), { name: plain(`Kill: ${names}`) });
    return el("li", { "data-call": call }, el("div", {}, el("code", { dir: "auto", title: plain(names) }, names), age), kill);
  }
}

/** What an agent does, and the class of its dot. @param {Loop} loop @param {View} view @param {boolean} asks @returns {[string, string]} */
function stateWords(loop, view, asks) {
  const { turn } = loop;
  if (asks) return ["wait", "asks"];
  if (turn?.mark) return ["stop", "stopping"];
  const waits = (turn?.calls || []).filter((call) => call.status === "started" && call.child).length;
  if (waits) return ["live", `waits for ${countOf(waits, "sub-agent")}`];
  if (turn && !turn.worker) return ["none", "waits for a worker"];
  if (turn) return ["live", `step ${turn.step}`];
  if (loop.status !== "closed" && loop.inbox.some((entry) => !entry.held)) return ["none", "waits for a worker"];
  if (loop.parent === null) return loop.status === "closed" ? ["none", "ended"] : ["done", countOf(loop.turns, "turn")];
  if (loop.status !== "closed") return ["none", "waits"];
  const agent = view.agents.get(loop.id);
  if (agent?.end?.type === "TurnDone") return ["done", "done"];
  if (agent?.end?.type === "TurnFailed") return ["none", "failed"];
  return agent?.end && agent.end.data.cause === "worker_lost" ? ["stop", "worker died"] : ["stop", stoppedWords(agent)];
}
