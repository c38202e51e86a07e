/**
 * Stop. One press stops at once; it never queues up on this device: what could not be sent within five seconds is
 * reported as not sent and is never sent by itself later.
 */
import { button, byId, el, fill, openMenu, setAttribute, write } from "../dom.js";
import { sampleServerTime, serverNow } from "../clock.js";
import { Refused, call, commandId } from "../rest.js";
import { REASONS, actorName, count } from "../words.js";
import { background } from "./agents.js";
import { primary } from "./state.js";
import { delegates, stopping, waiting } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {import("./composer.js").Taken} Taken */
/** @typedef {{ queue?: string, reason?: string, then?: { text: string }, keep_background?: boolean, loop?: string, turn?: string }} Choice `turn`: what a menu was about */

const DEADLINE_MS = 5_000;
/** A socket that has not acknowledged by now may be dead: the same command goes by REST as well (its id makes it one). */
const SECOND_WAY_MS = 1_500;
const LONG_PRESS_MS = 500;
/** Presses this soon after a stop has ended are meant for what was stopped, not for what started after it. */
const AFTERMATH_MS = 1_200;
const CALM_MS = 15_000;

const NOTES = /** @type {Record<string, string>} */ ({
  idle: "Nothing was running, so nothing was stopped.",
  turn_over: "That turn had already ended. Nothing else was stopped.",
  not_started: "Nothing had started yet. What waited is paused.",
  closing: "This session is closing already.",
});

export class Stop {
  /**
   * @param {{ form: HTMLFormElement, place: HTMLElement, connection: import("./socket.js").Connection, session: string,
   *   readState: () => State, takeText: () => Taken | null }} options `takeText`: what is in the composer
   */
  constructor({ form, place, connection, session, readState, takeText }) {
    this.form = form;
    this.place = place;
    this.connection = connection;
    this.session = session;
    this.readState = readState;
    this.takeText = takeText;
    this.group = /** @type {HTMLElement} */ (form.querySelector(".halts"));
    this.button = /** @type {HTMLButtonElement} */ (form.querySelector(".halt:not(.more)"));
    this.more = /** @type {HTMLButtonElement} */ (form.querySelector(".halt.more"));
    this.label = /** @type {HTMLElement} */ (this.button.querySelector("span"));
    this.small = /** @type {HTMLElement} */ (this.button.querySelector("small"));
    this.flying = "";
    /** What was in the box for a stop that seems not sent. @type {Taken | null} */
    this.unsentText = null;
    /** @type {string[]} the command ids of the press that was not sent, as far as anybody knows */
    this.unsent = [];
    /** @type {{ about: string, draw: () => void, close: () => void } | null} the open menu with choices */
    this.menu = null;
    this.endedTurn = "";
    this.endedAt = -Infinity;
    this.calmTimer = 0;
    this.armTimer = 0;
    this.#listen();
  }

  #listen() {
    let downAt = 0;
    let held = false;
    // By the press's own times, not by a timer: a page that is busy must not take a short press for a long one, and a menu
    // that opens before the finger is up closes as it goes up.
    this.button.addEventListener("pointerdown", (event) => (downAt = event.timeStamp));
    this.button.addEventListener("click", (event) => (held = event.detail > 0 && event.timeStamp - downAt >= LONG_PRESS_MS));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (held) this.openMenu();
      else void this.press();
      held = false;
    });
    this.button.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.openMenu();
    });
    this.more.hidden = false;
    this.more.addEventListener("click", () => this.openMenu());
  }

  /** Something runs, or is about to. */
  get active() {
    return Object.values(this.readState().loops).some((loop) => loop.turn || loop.inbox.some((entry) => !entry.held));
  }

  /** A first Esc: say what a second one would do, for as long as it would. @param {number} ms 0: it would no more */
  arm(ms) {
    clearTimeout(this.armTimer);
    this.armTimer = ms && window.setTimeout(() => this.arm(0), ms);
    setAttribute(this.group, "data-armed", ms > 0);
    if (ms) write(byId("announce"), "Esc again stops everything here.");
    this.draw();
  }

  draw() {
    const state = this.readState();
    const request = stopping(state);
    const running = Object.values(state.loops).some((loop) => loop.turn);
    this.group.dataset.is = request ? "stopping" : running ? "running" : "idle";
    write(this.label, request ? "Stopping" : "Stop");
    this.#drawMenu();
    write(this.small, request ? `by ${actorName(request.actor)}` : this.flying ? "asking" : this.armTimer ? "with Esc again" : endsShort(state, running));
  }

  /** The open menu says what is true now; once what it was about is over, it closes, so that nobody stops what they do not mean. */
  #drawMenu() {
    if (!this.menu) return;
    if (this.menu.about === this.#about()) return this.menu.draw();
    const { about } = this.menu;
    this.menu.close();
    const request = stopping(this.readState());
    const words = request ? `${actorName(request.actor)} has pressed Stop meanwhile.` : about ? "The turn has ended meanwhile." : "A turn has begun meanwhile.";
    this.#say(el("div", { class: "warn calm", role: "status" }, el("span", {}, `${words} Nothing was stopped from your menu.`), this.#close()));
    this.calmTimer = window.setTimeout(() => this.#clear(), CALM_MS);
  }

  /** The turn that a menu is about, and whether somebody stops it already; empty: none runs. */
  #about() {
    const turn = primary(this.readState())?.turn;
    return turn ? `${turn.id} ${turn.mark ?? ""}` : "";
  }

  /** A turn was stopped. @param {string} turn */
  ended(turn) {
    this.endedTurn = turn;
    this.endedAt = performance.now();
  }

  /** An event was caused by this command: what seemed not sent did arrive. @param {string | null} cause */
  seen(cause) {
    if (!cause || !this.unsent.includes(cause)) return;
    this.unsentText?.sent();
    this.#clear();
  }

  /** Stop now. A press while one is on its way changes nothing. @param {Choice} [choice] @param {Taken | null} [text] that is sent with it */
  async press(choice = {}, text = null) {
    if (this.flying && !choice.loop) return;
    const ids = [commandId()];
    // A session's own default is the server's to apply; without one the page's Stop pauses what waits.
    const queue = choice.queue || (this.readState().settings.stop_queue ? undefined : "hold");
    const body = { ...choice, queue, ...(choice.loop ? {} : this.#target()) };
    if (!choice.loop) this.flying = ids[0]; // a stop of one delegate never keeps from stopping everything
    this.#clear();
    text?.going();
    this.draw();
    try {
      const receipt = await this.#send(ids, body, DEADLINE_MS);
      text?.sent();
      this.#tell(receipt);
    } catch (error) {
      text?.back();
      this.#failed(/** @type {Refused} */ (error), ids, choice, text);
    } finally {
      if (this.flying === ids[0]) this.flying = "";
      this.draw();
    }
  }

  /** What a press is meant for: everything, unless this screen shows a stop that is under way or has just ended. */
  #target() {
    const request = stopping(this.readState());
    if (request) return { turn: primary(this.readState())?.turn?.id ?? request.turns[0] };
    if (performance.now() - this.endedAt < AFTERMATH_MS && this.endedTurn) return { turn: this.endedTurn };
    return {};
  }

  /**
   * Within `left` ms or never: what a dead network holds back says itself until when it may arrive, by the server's clock.
   * An answer that it came too late, here in time, means that this device's idea of that clock is wrong (it slept, or was
   * paused its clock): it is put right, and the press still counts, as a command of its own, since the first may still be
   * on its way by the socket and be answered later.
   * @param {string[]} ids the press's command; a second try adds its own @param {Record<string, any>} body @param {number} left @returns {Promise<any>}
   */
  async #send(ids, body, left) {
    const end = performance.now() + left;
    try {
      return await this.#twoWays(ids[0], { ...body, not_after: new Date(serverNow() + left).toISOString() }, left);
    } catch (error) {
      const { code, data } = /** @type {Refused} */ (error);
      if (code !== "too_late" || performance.now() > end) throw error;
      sampleServerTime(/** @type {number} */ (data.now_ms), true);
      this.connection.forget(ids[0]);
      ids.push(commandId());
      const rest = Math.max(0, end - performance.now());
      return this.#twoWays(ids[1], { ...body, not_after: new Date(serverNow() + rest).toISOString() }, rest);
    }
  }

  /**
   * By the socket, and by REST when that is not there or does not answer; the first answer counts.
   * @param {string} id @param {Record<string, any>} body @param {number} left ms @returns {Promise<any>}
   */
  #twoWays(id, body, left) {
    const path = `/sessions/${this.session}/interrupt`;
    const byRest = (/** @type {number} */ timeout) => call("POST", path, { id, body: { ...body, wait: 0 }, timeout });
    const bySocket = this.connection.open ? this.connection.sendOnce({ t: "interrupt", id, ...body }) : null;
    return new Promise((resolve, reject) => {
      let open = bySocket ? 2 : 1;
      const failed = (/** @type {Refused} */ error) => {
        open -= 1;
        if (error.code !== "unreachable" || open === 0) reject(error);
      };
      const wait = bySocket ? Math.min(SECOND_WAY_MS, left / 2) : 0;
      const timer = setTimeout(() => byRest(Math.max(0, left - wait)).then(resolve, failed), wait);
      bySocket?.then((receipt) => { clearTimeout(timer); resolve(receipt); }, (error) => {
        if (error.code !== "unreachable") clearTimeout(timer);
        failed(error);
      });
      setTimeout(() => reject(new Refused("unreachable", "The server did not answer within 5 s.")), left);
    });
  }

  /** @param {Refused} error @param {string[]} ids @param {Choice} choice @param {Taken | null} text */
  #failed(error, ids, choice, text) {
    this.unsent = ids;
    this.unsentText = text;
    if (error.code !== "unreachable") {
      this.#say(el("div", { class: "warn", role: "alert" }, el("span", {}, `Not stopped. ${error.detail}`), this.#again(choice, text), this.#close()));
      return;
    }
    for (const id of ids) this.connection.forget(id);
    // What is still in a dead socket's buffer need not wait there; should it arrive, the server refuses it (`not_after`).
    this.connection.replace();
    const words = "NOT sent. The server did not answer, so nothing was stopped by this press, and it will not be sent by itself later.";
    this.#say(el("div", { class: "warn", role: "alert" }, el("span", {}, words), this.#again(choice, text), this.#close()));
  }

  /** @param {{ joined: boolean, turns: string[], note: string | null, background?: any[] }} receipt */
  #tell({ joined, note, background: ends = [] }) {
    const request = stopping(this.readState());
    const text = note === "idle" && ends.length ? `No agent was running. ${count(ends.length, "process is", "processes are")} being ended in the background.` : joined ? `Already stopping${request ? `, asked by ${actorName(request.actor)}` : ""}.` : NOTES[note || ""];
    if (!text) return;
    this.#say(el("div", { class: "warn calm", role: "status" }, el("span", {}, text), this.#close()));
    this.calmTimer = window.setTimeout(() => this.#clear(), CALM_MS);
  }

  /** @param {Choice} choice @param {Taken | null} text */
  #again(choice, text) {
    return button("Try again", () => void this.press(choice, text));
  }

  #close() {
    return button("Close", () => this.#clear(), { kind: "quiet", iconName: "close" });
  }

  /** @param {HTMLElement} element */
  #say(element) {
    clearTimeout(this.calmTimer);
    fill(this.place, element);
  }

  #clear() {
    clearTimeout(this.calmTimer);
    this.unsent = [];
    fill(this.place);
  }

  openMenu() {
    const chosen = this.readState().settings.stop_queue || "hold";
    const queue = el("fieldset", {}, el("legend", {}, "What waits"),
      ...[["hold", "Stays paused"], ["run", "The next one starts"], ["clear", "Goes back to whoever wrote it"]].map(([value, words]) =>
        el("label", { class: "choice" }, el("input", { type: "radio", name: "queue", value, checked: value === chosen }), words)));
    const reason = el("input", { "aria-label": "Reason", placeholder: "Another reason", maxlength: "400", dir: "auto" });
    const reasons = el("div", { class: "reasons", role: "group", "aria-label": "Why" }, ...REASONS.map((words) => button(words, () => (reason.value = words))), reason);
    const aim = primary(this.readState())?.turn?.id;
    const act = (/** @type {boolean} */ andSend) => {
      const text = this.takeText();
      const choice = /** @type {Choice} */ ({ queue: /** @type {HTMLInputElement} */ (queue.querySelector(":checked")).value });
      if (aim) choice.turn = aim;
      if (keep.checked) choice.keep_background = true;
      if (reason.value.trim()) choice.reason = reason.value.trim();
      menu.hidePopover();
      if (andSend && text) void this.press({ ...choice, then: { text: text.text, ...(text.files.length && { files: text.files }) } }, text);
      else void this.press(choice);
    };
    const keep = el("input", { type: "checkbox", name: "keep" });
    const send = button("Stop and send what is in the box", () => act(true));
    const ends = el("p", { class: "ends", "aria-live": "polite" });
    const kept = el("span");
    const keeps = el("label", { class: "choice" }, keep, kept);
    const why = [el("h3", {}, "Why (you can say it afterwards)"), reasons];
    const form = el("form", { class: "stop-menu", on: { submit: (event) => { event.preventDefault(); act(false); } } },
      ends, keeps, queue, ...why, el("button", { class: "btn danger", type: "submit" }, "Stop"), send);
    const draw = () => {
      const state = this.readState();
      const { held, inputs, steers } = waiting(state);
      keeps.hidden = !background(state).length;
      if (keeps.hidden) keep.checked = false;
      write(ends, this.#endsWords(keep.checked));
      write(kept, `Keep ${processes(state)} in the background running`);
      queue.hidden = held + inputs + steers === 0;
      for (const part of why) part.hidden = !aim;
      send.disabled = !this.takeText();
    };
    draw();
    keep.addEventListener("change", draw);
    const menu = openMenu(this.more, [form], "Stop, with choices");
    const opened = { about: this.#about(), draw, close: () => menu.hidePopover() };
    this.menu = opened;
    menu.addEventListener("beforetoggle", (event) => {
      if (/** @type {ToggleEvent} */ (event).newState === "closed" && this.menu === opened) this.menu = null;
    });
  }

  /** Whom a stop with choices ends. @param {boolean} kept what runs in the background goes on */
  #endsWords(kept) {
    const state = this.readState();
    const agents = delegates(state).length;
    const running = Object.values(state.loops).some((loop) => loop.turn);
    const left = background(state).length && !kept ? `${processes(state)} in the background` : "";
    if (!running) return left ? `No agent runs now. Ends ${left}.` : "No agent runs now.";
    const ends = [agents ? "the main agent" : "the agent’s turn", agents && count(agents, "sub-agent"), left].filter(Boolean);
    return `Ends ${ends.length > 1 ? `${ends.slice(0, -1).join(", ")} and ${ends[ends.length - 1]}` : ends[0]}.`;
  }
}

/** What a press ends, in the few words that stand on Stop: what runs in the background ends, too (E13). @param {State} state @param {boolean} running */
function endsShort(state, running) {
  const left = background(state).length;
  if (!running) return left ? processes(state) : "no agent runs";
  return left ? `${everything(state)} and ${processes(state)}` : everything(state);
}

/** @param {State} state */
const everything = (state) => (delegates(state).length ? `all ${delegates(state).length + 1} agents` : "everything here");

/** @param {State} state */
const processes = (state) => count(background(state).length, "process", "processes");
