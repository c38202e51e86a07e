/** The agents as a tree with what one may do to each delegate, and what runs in the background. */
import { button, el, fill, openMenu, write } from "../dom.js";
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

/** As much of a command as the name of its Kill says. */
const NAMED_CHARS = 100;

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
    /** @type {{ loop: string, draw: (state: State) => void, close: () => void } | null} the question whether to stop a delegate */
    this.asking = null;
  }

  /** @param {State} state @param {View} view */
  draw(state, view) {
    this.#drawAgents(state, view);
    this.#drawBackground(state, view);
    const asked = this.asking && state.loops[this.asking.loop];
    if (!asked || asked.status === "closed" || asked.turn?.mark) this.asking?.close(); // it has ended, or somebody stops it
    else this.asking?.draw(state);
  }

  /** @param {State} state @param {View} view */
  #drawAgents(state, view) {
    const asking = new Set(asked(state).map(({ loop }) => loop.id));
    const loops = Object.values(state.loops);
    const rows = loops.filter((loop) => loop.parent === null).flatMap((loop) => this.#rows(state, view, loop, 0, asking));
    const mark = JSON.stringify([rows.map(({ loop, depth, shown, name }) => [loop.id, depth, shown, name, loop.status, loop.turn?.mark]), state.status]);
    if (mark === this.drawn.agents) return;
    this.drawn.agents = mark;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("#agents button"));
    const loop = focused?.closest("[data-loop]")?.getAttribute("data-loop") || "";
    fill(this.place, ...rows.map((row) => this.#row(state, row)));
    if (focused) this.#at(loop, focused.dataset.act)?.focus();
  }

  /** The button that does that to an agent, as the list is drawn now; else what is nearest to it. @param {string} loop @param {string} [act] @returns {HTMLElement | null} */
  #at(loop, act) {
    const row = this.place.querySelector(`[data-loop="${loop}"]`);
    return (act && row?.querySelector(`[data-act="${act}"]`)) || row?.querySelector("button") || this.place.querySelector("button") || this.place;
  }

  /**
   * An agent, and those below it.
   * @param {State} state @param {View} view @param {Loop} loop @param {number} depth @param {Set<string>} asking
   * @returns {{ loop: Loop, depth: number, name: string, shown: [string, string] }[]}
   */
  #rows(state, view, loop, depth, asking) {
    const name = loop.parent === null ? "Main agent" : view.shortName(loop.id);
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
    const what = el("p", { class: "muted" });
    const stop = button("", () => {
      menu.hidePopover();
      this.stop(loop.id);
    }, { kind: "danger" });
    const draw = (/** @type {State} */ now) => {
      const [words, does] = endsWords(now, loop.id);
      write(what, words);
      write(stop, does);
    };
    draw(state);
    const menu = openMenu(anchor, [
      el("p", {}, el("b", { dir: "auto" }, name)), what, el("div", { class: "acts" }, stop, button("Cancel", () => menu.hidePopover())),
    ], `Stop: ${name}`, { beside: true, back: () => this.#at(loop.id, "stop") });
    const opened = { loop: loop.id, draw, close: () => menu.hidePopover() };
    this.asking = opened;
    menu.addEventListener("beforetoggle", (event) => {
      if (/** @type {ToggleEvent} */ (event).newState === "closed" && this.asking === opened) this.asking = null;
    });
  }

  /** @param {State} state @param {View} view */
  #drawBackground(state, view) {
    const running = background(state);
    const known = running.map(({ turn, call }) => view.background.get(`${turn} ${call}`));
    const mark = JSON.stringify([running, known]);
    if (mark === this.drawn.background) return;
    this.drawn.background = mark;
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const row = /** @type {HTMLElement | null | undefined} */ (focused?.closest("li"));
    const at = row ? [...this.list.children].indexOf(row) : 0;
    for (const element of [this.list, this.list.previousElementSibling]) /** @type {HTMLElement} */ (element).hidden = !running.length;
    fill(this.list, ...running.map((each, index) => this.#process(each, known[index])));
    if (!focused) return;
    const rows = /** @type {HTMLElement[]} */ ([...this.list.children]);
    const same = rows.find(({ dataset }) => dataset.call === row?.dataset.call);
    // A row, and no other's Kill: whoever presses twice must not kill what follows.
    ((focused.matches("button") && same?.querySelector("button")) || same || rows[Math.min(at, rows.length - 1)] || this.place).focus();
  }

  /** @param {import("./state.js").Background} each @param {import("./view.js").Left | undefined} left */
  #process({ call, turn, at_ms: at, killer }, left) {
    const outlived = left?.surviving.length ? left.surviving : null;
    const written = outlived ? "" : left?.command || "";
    const names = written.trim() || processNames(outlived || left?.processes) || "a command";
    const whole = written ? `${written.trim()}\n${processNames(left?.processes)}` : names;
    const age = el("small", { class: "num" });
    if (outlived) fill(age, el("b", { class: "bad" }, "outlived its kill"));
    else if (killer) fill(age, `being ended by ${actorName(/** @type {any} */ (killer.actor))}`);
    else count(age, () => `for ${counting(since(at))}`);
    const kill = this.mayStop && !killer && button("Kill", () => this.kill(call, turn), { name: plain(`Kill: ${startOf(names, NAMED_CHARS)}`) });
    return el("li", { "data-call": `${turn} ${call}`, tabindex: "-1" }, el("div", {}, el("code", { dir: "auto", title: plain(whole) }, names.replace(/\s+/g, " ")), age), kill);
  }
}

/** Whom a stop of that delegate ends, and what its button says. @param {State} state @param {string} id @returns {[string, string]} */
function endsWords(state, id) {
  const deeper = below(state, id);
  const ending = [state.loops[id], ...deeper];
  const left = ending.flatMap((each) => each.background).length;
  const waits = ending.flatMap((each) => [...each.steers, ...each.inbox.filter((entry) => !isTask(each, entry))]).length;
  const words = [`Ends this agent${deeper.length ? ` and ${countOf(deeper.length, "agent")} below it` : ""}${left ? `, and ${countOf(left, "process", "processes")} in the background` : ""}.`, waits > 0 && "Messages that wait for it go back to their authors.", "The others go on, and the agent above is told that it was stopped."];
  return [words.filter(Boolean).join(" "), deeper.length ? `Stop these ${deeper.length + 1} agents` : "Stop only this agent"];
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
  if (loop.parent === null) {
    const last = view.blocks.findLast((block) => block.kind === "turn");
    const dot = { done: "done", stopped: "stop" }[last?.kind === "turn" ? last.turn.status : ""] || "none";
    return loop.status === "closed" ? ["none", "ended"] : [dot, countOf(loop.turns, "turn")];
  }
  if (loop.status !== "closed") return ["none", "waits"];
  const agent = view.agents.get(loop.id);
  if (agent?.end?.type === "TurnDone") return ["done", "done"];
  if (agent?.end?.type === "TurnFailed") return ["none", "failed"];
  return agent?.end && agent.end.data.cause === "worker_lost" ? ["stop", "worker died"] : ["stop", stoppedWords(agent)];
}
