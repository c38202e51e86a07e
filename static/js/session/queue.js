/** What waits: undelivered steers and waiting or paused messages as chips, each with what one can do about it. */
import { button, el, fill, openDialog, openMenu } from "../dom.js";
import { actorName, hue, plain, startOf } from "../words.js";
import { withFiles } from "./files.js";
import { isTask } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {import("./state.js").Input} Input @typedef {import("./state.js").Steer} Steer */
/** @typedef {(verb: string, body: Record<string, any>) => void} Command sends and shows what goes wrong */
/** @typedef {{ label: string, act: () => void }} Deed what it shows; what it is called says which message it is about, too */

const SHOWN_CHARS = 300;

/** The words of a message that waits. @param {import("./view.js").View} view @param {string} id @returns {string} */
export function textOf(view, id) {
  const text = view.texts.get(id);
  return typeof text === "string" ? text : text && "ref" in text ? "(a long text)" : "…";
}

/** The paused message that "Send next" lets go on, as the chips stand: steers first. @param {State} state @returns {{ id: string, what: Record<string, string[]> } | null} */
export function firstPaused(state) {
  for (const loop of Object.values(state.loops)) {
    const steer = loop.steers.find((entry) => entry.held);
    const input = loop.inbox.find((entry) => entry.held);
    if (steer) return { id: steer.id, what: { steers: [steer.id] } };
    if (input) return { id: input.id, what: { inputs: [input.id] } };
  }
  return null;
}

export class Queue {
  /**
   * @param {{ place: HTMLElement, dialog: HTMLDialogElement | null, can: string[], command: Command,
   *   changeSteer: (id: string, body: { text?: string, as_input?: boolean }) => void, view: import("./view.js").View }} options
   */
  constructor({ place, dialog, can, command, changeSteer, view }) {
    this.place = place;
    this.dialog = dialog;
    this.can = can;
    this.command = command;
    this.changeSteer = changeSteer;
    this.view = view;
    this.drawn = "";
    this.marked = false;
    /** For which delegate the chips stand that are being made; empty: the main agent. */
    this.whom = "";
  }

  /** @param {State} state */
  draw(state) {
    const loops = Object.values(state.loops).map((loop) => ({ ...loop, inbox: loop.inbox.filter((entry) => !isTask(loop, entry)) }));
    const mark = JSON.stringify(loops.map(({ id, turn, steers, inbox }) => [id, Boolean(turn), turn?.mark, steers, inbox, [...steers, ...inbox].map((entry) => this.#start(entry.id)), this.view.nameOf(id)]));
    if (mark === this.drawn) return;
    this.drawn = mark;
    const chips = loops.flatMap((loop) => this.#chipsOf(loop));
    fill(this.place, ...chips);
    this.place.hidden = !chips.length;
  }

  /** @param {import("./state.js").Loop} loop */
  #chipsOf({ id, parent, turn, steers, inbox }) {
    const running = Boolean(turn && !turn.mark);
    this.marked = Boolean(turn?.mark);
    this.whom = parent === null ? "" : this.view.nameOf(id);
    return [...steers.map((steer) => this.#steer(steer, running)), ...inbox.map((entry, at) => this.#input(entry, at, inbox, running))];
  }

  /** As much of a message as a chip shows and says. @param {string} id @returns {string} */
  #start(id) {
    return textOf(this.view, id).slice(0, SHOWN_CHARS * 3);
  }

  /** @param {Steer} steer @param {boolean} running */
  #steer(steer, running) {
    if (this.marked) return this.#chip(steer, "waits for the stop", null, []);
    const where = steer.held ? "paused" : running ? (steer.urgent ? "skips the rest" : "at next step") : "with the next turn";
    const asInput = { label: running ? "After this turn instead" : "Send now", act: () => this.changeSteer(steer.id, { as_input: true }) };
    const back = { label: "Take back", act: () => this.command("withdraw", { steer: steer.id }) };
    const mine = steer.author.id === this.view.you;
    const edit = mine ? [{ label: "Edit", act: () => this.#edit(steer.id, (text) => this.changeSteer(steer.id, { text })) }] : [];
    const owned = mine || this.can.includes("withdraw_any"); // whose words they are decides about them (D8)
    const backs = owned ? [back] : [];
    if (steer.held) return this.#chip(steer, where, release({ steers: [steer.id] }, this.command), [giveBack({ steers: [steer.id] }, this.command), ...edit, ...backs]);
    return this.#chip(steer, where, running || !owned ? null : asInput, [...edit, ...(running && owned ? [asInput] : []), ...backs]);
  }

  /** @param {Input} entry @param {number} at @param {Input[]} inbox @param {boolean} running */
  #input(entry, at, inbox, running) {
    if (this.marked) return this.#chip(entry, entry.held ? "paused" : "waits for the stop", null, []);
    const ahead = inbox.slice(0, at).filter((other) => !other.held).length;
    const place = ahead ? `${ahead + 1}. in line` : running ? "after this turn" : "next";
    const move = (/** @type {string} */ label, /** @type {number} */ position) => ({ label, act: () => this.command("edit", { input: entry.id, position }) });
    const deeds = [
      { label: "Edit", act: () => this.#edit(entry.id, (text) => this.command("edit", { input: entry.id, text })) },
      ...(at > 0 ? [move("Move forward", at - 1)] : []),
      ...(at < inbox.length - 1 ? [move("Move back", at + 1)] : []),
      { label: "Take back", act: () => this.command("retract", { input: entry.id }) },
    ];
    if (entry.held) return this.#chip(entry, "paused", release({ inputs: [entry.id] }, this.command), [giveBack({ inputs: [entry.id] }, this.command), ...deeds]);
    const promote = running ? { label: "Send at next step", act: () => this.command("edit", { input: entry.id, promote: "normal" }) } : null;
    return this.#chip(entry, place, promote, deeds);
  }

  /** @param {Input | Steer} entry @param {string} where @param {Deed | null} first @param {Deed[]} more */
  #chip(entry, where, first, more) {
    const text = this.#start(entry.id);
    const start = startOf(text);
    const acts = this.can.includes("edit");
    const files = this.view.files.get(entry.id);
    const names = files && files.map((file) => (typeof file.name === "string" ? file.name : "erased file")).join("\n");
    const chip = el(
      "span", { class: `chip ${hue(entry.author.id)}${acts ? "" : " read"}`, "data-held": entry.held, "data-id": entry.id },
      el("b", {}, actorName(entry.author)),
      el("span", { class: "what", dir: "auto", title: plain(text) }, text.slice(0, SHOWN_CHARS).replace(/\s+/g, " ")),
      el("span", { class: "where", title: names }, `${this.whom ? `${where}, to ${this.whom}` : where}${withFiles(files)}`),
    );
    if (!acts || !more.length) return chip;
    const named = more.map((deed) => ({ ...deed, name: `${deed.label}: ${start}` }));
    const menu = button(`More about ${plain(entry.author.name)}’s message: ${start}`, () => openMenu(menu, named, `What to do with the message: ${start}`), { kind: "quiet", iconName: "more" });
    chip.append(...(first ? [button(first.label, first.act, { name: `${first.label}: ${start}` })] : []), menu);
    return chip;
  }

  /** @param {string} id @param {(text: string) => void} save */
  #edit(id, save) {
    const { dialog } = this;
    if (!dialog) return;
    const box = /** @type {HTMLTextAreaElement} */ (dialog.querySelector("textarea"));
    const text = this.view.texts.get(id);
    box.value = typeof text === "string" ? text : "";
    const form = /** @type {HTMLFormElement} */ (dialog.querySelector("form"));
    form.onsubmit = () => {
      if (/** @type {HTMLButtonElement} */ (document.activeElement)?.value !== "cancel" && box.value.trim()) save(box.value);
    };
    openDialog(dialog);
    box.focus();
  }
}

/** @param {Record<string, string[]>} what @param {Command} command @returns {Deed} */
const release = (what, command) => ({ label: "Send next", act: () => command("release", what) });

/** @param {Record<string, string[]>} what @param {Command} command @returns {Deed} */
const giveBack = (what, command) => ({ label: "Give back to its author", act: () => command("release", { ...what, to: "authors" }) });
