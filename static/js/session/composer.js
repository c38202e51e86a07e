/**
 * The composer: three ways to send, and words for where each will land. A draft is kept on this device until the server
 * says it received it; a refused text stays in the box (D15). One command id belongs to one text, so that sending it
 * again after a lost answer is the same command (D17).
 */
import { button, el, fill, setAttribute, write } from "../dom.js";
import { Refused, commandId } from "../rest.js";
import { count as countOf, counting, size, thing } from "../words.js";
import { count, since, stopCounting } from "../clock.js";
import { Attachments, listenForFiles } from "./attachments.js";
import { wordsBeside } from "./files.js";
import { primary } from "./state.js";
import { delegated, isTask, stopping, waiting } from "./strip.js";

/** @typedef {import("./state.js").State} State @typedef {"steer" | "urgent" | "queue"} Way @typedef {import("./files.js").SentFile} SentFile */
/** @typedef {{ text: string, files: string[], going: () => void, sent: () => void, back: () => void }} Taken what is in the box goes with a stop: `going`, until it is `sent` or stays (`back`) */
/** @typedef {{ text: string, way?: Way, id?: string, target?: string, files?: SentFile[] }} Draft */

const INPUT_BYTES = 1_048_576;
const STEER_BYTES = 8_192;
/** A text of more goes one way. */
const LONG_CHARS = 50_000;
/** An answer usually takes some milliseconds; only a wait longer than this is worth words. */
const SLOW_MS = 600;
const RECEIPT_MS = 5_000;
/** The agent above a sub-agent gets one answer, the last (G3). */
const REPLACES = "Its next answer replaces the one it gives now";

export class Composer {
  /**
   * @param {{ form: HTMLFormElement, says: HTMLElement, connection: import("./socket.js").Connection, session: string, you: string,
   *   readState: () => State, view: import("./view.js").View }} options
   */
  constructor({ form, says, connection, session, you, readState, view }) {
    this.form = form;
    this.says = says;
    this.connection = connection;
    this.readState = readState;
    this.view = view;
    /** Somebody else who signs in here finds no words that were not theirs. */
    this.key = `steerweb:draft:${you}:${session}`;
    /** What this page has put into the store that all pages share. @type {string | null} */
    this.kept = null;
    this.box = /** @type {HTMLTextAreaElement} */ (form.querySelector("textarea"));
    this.sendButton = /** @type {HTMLButtonElement} */ (form.querySelector(".send"));
    this.ways = /** @type {HTMLElement} */ (form.querySelector(".ways"));
    this.clip = /** @type {HTMLButtonElement} */ (form.querySelector(".clip"));
    this.hint = /** @type {HTMLElement} */ (this.ways.querySelector(".hint"));
    /** @type {Way} */
    this.way = "steer";
    /** The delegate it talks to; empty: the main agent. */
    this.target = "";
    this.to = /** @type {HTMLElement} */ (document.getElementById("to"));
    this.flying = "";
    /** What was in the box is on its way with a stop: one may type on, and nothing is sent until it is there. */
    this.goesWithStop = false;
    /** @type {[string, string, SentFile[]][]} */
    this.returned = [];
    this.receipt = "";
    /** The message the receipt is about: what is said of it holds as long as it waits. */
    this.landing = "";
    /** And it is for the next turn, so that nothing need run. */
    this.landsLater = false;
    /** And it is for a sub-agent. */
    this.landsBelow = false;
    this.receiptTimer = 0;
    this.hinted = "";
    /** What is said is what the message waits for. */
    this.waits = false;
    const draft = this.#readDraft();
    this.box.value = draft.text;
    this.draft = draft;
    const tell = (/** @type {string} */ text) => (this.flying ? this.#tellBeside(text) : this.#tell(text, true));
    this.attachments = new Attachments({ place: /** @type {HTMLElement} */ (form.querySelector(".files")), session, tell, onChange: () => this.#changed() });
    this.attachments.restore(draft.files || []);
    listenForFiles({ form, dock: /** @type {HTMLElement} */ (form.closest(".dock")), add: (files, said) => {
      if (!this.flying) this.#tell("");
      this.attachments.add(files, said);
    } });
    this.#listen();
    this.#fit();
  }

  #listen() {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.send(this.#now());
    });
    this.to.querySelector("button")?.addEventListener("click", () => this.aim(""));
    for (const choice of this.ways.querySelectorAll("button")) {
      choice.addEventListener("click", () => {
        this.way = /** @type {Way} */ (choice.dataset.way);
        this.draw();
        this.box.focus();
      });
    }
    this.box.addEventListener("input", () => {
      this.#writeDraft(this.#written());
      this.#fit();
      this.#tell("");
      this.draw();
    });
    this.box.addEventListener("keydown", (event) => this.#key(event));
  }

  /** What stands in the box, with what is uploaded for it. @returns {Draft} */
  #written() {
    const files = this.attachments.sent;
    return files.length ? { text: this.box.value, files } : { text: this.box.value };
  }

  /** The files changed: one came, is there, or went. */
  #changed() {
    if (!this.flying) this.#writeDraft(this.#written()); // else it is what is on its way, with its command
    if (this.waits && !this.attachments.waits) this.#tell("");
    this.draw();
  }

  get #empty() {
    return this.box.value.trim() === "" && !this.attachments.any;
  }

  /** Enter sends, Alt+Enter after this turn, Shift+Enter is a new line; under a thumb Enter is a new line. @param {KeyboardEvent} event */
  #key(event) {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    const thumb = matchMedia("(pointer: coarse)").matches;
    if (thumb && !event.altKey && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    void this.send(event.altKey ? "queue" : this.#now());
  }

  /** Whom it talks to: null once that delegate has ended. @returns {import("./state.js").Loop | null} */
  #loop() {
    const state = this.readState();
    if (!this.target) return primary(state);
    const loop = state.loops[this.target];
    return loop && loop.status !== "closed" ? loop : null;
  }

  /** Talk to another agent; what was typed stays. @param {string} loop empty: the main agent */
  aim(loop) {
    this.target = loop === primary(this.readState())?.id ? "" : loop;
    this.draw();
    this.box.focus();
  }

  /** Something runs that is not being stopped: only then there are three ways. */
  #steerable() {
    const turn = this.#loop()?.turn;
    return Boolean(turn && !turn.mark);
  }

  /** @returns {Way} */
  #now() {
    return this.#steerable() ? this.way : "queue";
  }

  draw() {
    const steerable = this.#steerable();
    for (const choice of this.ways.querySelectorAll("button")) {
      choice.hidden = !steerable;
      setAttribute(choice, "aria-pressed", String(choice.dataset.way === this.way));
    }
    this.sendButton.disabled = Boolean(this.flying) || this.goesWithStop || this.#empty || !this.#loop();
    this.clip.disabled = Boolean(this.flying);
    this.attachments.hold(Boolean(this.flying));
    const whom = this.target ? "it" : "the agent"; // its name stands above
    this.box.placeholder = `${steerable ? "Steer" : "Tell"} ${whom}`;
    this.#drawTarget();
    this.#drawHint(steerable);
    for (const put of /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".note button[value]"))) {
      const files = (put.dataset.files || "").split(" ").filter(Boolean).map((id) => ({ id }));
      setAttribute(put, "data-there", this.#there(put.value, files));
    }
  }

  /** Whom one talks to, where that is not the main agent; one that has ended gets nothing, and no other gets it instead. */
  #drawTarget() {
    const name = this.target && this.view.nameOf(this.target);
    const words = !name ? "" : this.#loop() ? `To ${name}` : `${name.charAt(0).toUpperCase()}${name.slice(1)} has ended: this goes nowhere`;
    this.to.hidden = !words;
    write(/** @type {Element} */ (this.to.firstElementChild), words);
  }

  /** @param {boolean} steerable */
  #drawHint(steerable) {
    const state = this.readState();
    if (this.receipt && !this.#waits(state)) this.receipt = "";
    const turn = this.#loop()?.turn || null;
    const waits = Boolean(turn && delegated(turn));
    const phase = turn ? this.view.turns.get(turn.id)?.phase : null;
    const mark = JSON.stringify([this.receipt, steerable, this.way, this.target, Boolean(this.#loop()), waits, phase?.is, phase?.at, waiting(state), stopping(state)?.id]);
    if (mark === this.hinted) return;
    this.hinted = mark;
    stopCounting(this.hint);
    if (this.receipt) write(this.hint, this.receipt);
    else if (!this.#loop()) write(this.hint, "");
    else if (!steerable) write(this.hint, this.target && !turn ? "After its task; its last answer counts" : idleHint(state));
    else if (this.way === "queue") write(this.hint, queueHint(/** @type {import("./state.js").Loop} */ (this.#loop())));
    else if (waits) write(this.hint, waitsHint(this.target ? "this sub-agent" : "the main agent", this.way));
    else if (phase?.is === "gate") write(this.hint, this.way === "urgent" ? "Lands instead of what is being asked" : "Lands after the approval");
    else if (phase?.is === "tool") count(this.hint, () => `${this.way === "urgent" ? "Skips the rest, lands" : "Lands"} after this ${thing(phase.tool || "")}, ${counting(since(phase.at))} so far`);
    else write(this.hint, this.way === "urgent" ? "Withdraws what has not started, then lands" : "Lands at the next step, or replaces a last answer");
  }

  /** The message just sent still waits for what the receipt says; its event may come after its receipt. @param {State} state */
  #waits(state) {
    const there = Object.values(state.loops).some((loop) => [...loop.steers, ...loop.inbox].some((entry) => entry.id === this.landing));
    return (there || !this.view.authors.has(this.landing)) && (this.#steerable() || this.landsLater);
  }

  /** What is in the box for a stop that sends it, or null. @returns {Taken | null} */
  takeText() {
    const text = this.box.value;
    if (this.#empty || this.attachments.waits || this.flying || this.target) return null; // what a delegate was to read goes to no other
    const files = this.attachments.sent.map((file) => file.id);
    const isGoing = (/** @type {boolean} */ going) => {
      this.goesWithStop = going;
      this.draw();
    };
    const sent = () => {
      this.goesWithStop = false;
      if (!this.flying && this.box.value === text) this.#received(files);
      else { // what was typed since stays
        this.attachments.take(files);
        this.#changed();
      }
    };
    return { text, files, going: () => isGoing(true), sent, back: () => isGoing(false) };
  }

  /**
   * Words that came back, with their files. An empty box takes them; a full one is not touched.
   * @param {string} text @param {string} [loop] whom they were for: nobody else gets them unasked @param {SentFile[]} [files] @returns {boolean}
   */
  giveBack(text, loop = "", files = []) {
    if (!this.#empty) return false;
    this.box.value = wordsBeside(text, files);
    this.target = loop;
    this.attachments.restore(files);
    this.#writeDraft(this.#written());
    this.#fit();
    this.draw();
    return true;
  }

  /** Words one asked back: into an empty box, or below what stands there; while that is being sent, afterwards. @param {string} text @param {string} [loop] @param {SentFile[]} [files] */
  putIn(text, loop = "", files = []) {
    const words = wordsBeside(text, files);
    if (this.flying) this.returned.push([text, loop, files]);
    else if (!this.#there(words, files) && !this.giveBack(text, loop, files)) {
      if (words && !this.#holds(words)) this.box.value = `${this.box.value.trimEnd()}\n\n${words}`.trimStart();
      this.attachments.restore(files);
      this.#writeDraft(this.#written());
      this.#fit();
      this.draw();
    }
    this.box.focus();
  }

  /** These words stand in the box, as lines of their own. @param {string} text */
  #holds(text) {
    return `\n\n${this.box.value}\n\n`.includes(`\n\n${text}\n\n`);
  }

  /** What came back is in the box already, with its files. @param {string} words @param {{ id: string }[]} files */
  #there(words, files) {
    const ids = this.attachments.sent.map((file) => file.id);
    return (!words || this.#holds(words)) && files.every((file) => ids.includes(file.id));
  }

  /** What was on its way when its page was left: the log may say that it came. @param {import("./state.js").LogEvent[]} events */
  begin(events) {
    const { id } = this.draft;
    if (!id) return;
    if (events.some((event) => event.cause === id)) this.#received();
    else this.#tell("This was on its way when its page was left. Send it again: it is never taken twice.", true);
  }

  /** An event says that this command was carried out. @param {string | null} cause */
  seen(cause) {
    if (cause && cause === this.draft.id && !this.flying) this.#received();
  }

  /** @param {Way} way */
  async send(way) {
    const text = this.box.value;
    if (this.flying || this.goesWithStop || this.#empty || !this.#loop()) return;
    if (this.attachments.waits) {
      this.#tell(this.attachments.waits, true);
      this.waits = true;
      return;
    }
    const limit = way === "queue" ? INPUT_BYTES : STEER_BYTES;
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > limit) {
      this.#tell(`This ${way === "queue" ? "message" : "steer"} has ${size(bytes)}; at most ${size(limit)} are allowed. Nothing was sent.${way === "queue" ? "" : " Shorten it, or send it after this turn."}`, true);
      return;
    }
    const { target } = this;
    const files = this.attachments.sent.map((file) => file.id);
    const same = JSON.stringify((this.draft.files || []).map((file) => file.id)) === JSON.stringify(files);
    const again = same && this.draft.text === text && this.draft.way === way && (this.draft.target || "") === target;
    const id = (again && this.draft.id) || commandId();
    this.#writeDraft({ ...this.#written(), way, id, target });
    this.flying = id;
    this.box.readOnly = true;
    this.#tell("");
    this.receipt = "";
    this.draw();
    const slow = setTimeout(() => this.#slow(id), SLOW_MS);
    try {
      const whom = { ...(target && { loop: target }), ...(files.length && { files }) };
      const frame = way === "queue" ? { t: "submit", id, text, ...whom } : { t: "steer", id, text, urgent: way === "urgent", ...whom };
      const receipt = await this.connection.send(frame);
      if (this.flying !== id) return;
      this.landsBelow = Boolean(target);
      this.#received();
      this.#landed(way, receipt);
    } catch (error) {
      if (this.flying === id) this.#refused(/** @type {Refused} */ (error));
    } finally {
      clearTimeout(slow);
    }
  }

  /** What was written is with the server. @param {string[]} [files] with these */
  #received(files = (this.draft.files || []).map((file) => file.id)) {
    this.#land();
    this.box.value = "";
    this.attachments.take(files);
    this.way = "steer";
    this.target = "";
    this.#writeDraft(this.#written());
    this.#tell("");
    this.#fit();
    this.draw();
  }

  #land() {
    this.flying = "";
    this.box.readOnly = false;
    const back = this.returned.splice(0);
    queueMicrotask(() => back.forEach((words) => this.putIn(...words)));
  }

  /** @param {Way} way @param {any} receipt */
  #landed(way, receipt) {
    this.landing = receipt.input || receipt.steer || "";
    this.landsLater = receipt.lands?.when === "next_turn";
    if (way === "queue") this.receipt = this.landsBelow ? `Received. ${REPLACES}` : "Received. It runs after this turn";
    else if (receipt.lands) this.receipt = `Received. ${landsWords(receipt.lands, way)}`;
    else if (receipt.input || !this.#steerable()) return;
    else this.receipt = `Received. ${landsWords(this.#landsNow(), way)}`; // the receipt went with its connection
    this.draw();
    clearTimeout(this.receiptTimer);
    this.receiptTimer = window.setTimeout(() => {
      this.receipt = "";
      this.draw();
    }, RECEIPT_MS);
  }

  /** Where a steer lands as this page sees it. */
  #landsNow() {
    const turn = this.#loop()?.turn;
    return { when: "safe_point", after: turn ? this.view.turns.get(turn.id)?.phase?.is : undefined };
  }

  /** @param {Refused} error */
  #refused(error) {
    this.#land();
    if (error.code === "file_not_found") this.attachments.lost(error.data.files);
    this.#writeDraft(this.#written()); // the next try is a new command
    this.#tell(error.code === "command_id_reused" ? "Not sent. Please send it again." : `Not sent. ${error.detail}`, true);
    this.draw();
    this.box.focus();
  }

  /** @param {string} id */
  #slow(id) {
    if (this.flying !== id) return;
    const back = button("Keep it as a draft", () => {
      this.connection.forget(id);
      this.#land();
      this.#tell("");
      this.draw();
    });
    fill(this.says, el("div", { class: "warn calm", role: "status" }, el("span", {}, "Not received yet. It is sent again as soon as the connection is back."), back));
  }

  /** @param {string} text @param {boolean} [bad] */
  #tell(text, bad = false) {
    this.waits = false;
    setAttribute(/** @type {Element} */ (this.form.querySelector(".box")), "data-bad", bad);
    fill(this.says, text && el("div", { class: "says", "data-is": bad && "bad", role: bad ? "alert" : "status" }, text));
  }

  /** While a message is on its way, beside what is said of that. @param {string} text */
  #tellBeside(text) {
    this.says.querySelector(":scope > .says")?.remove();
    this.says.append(el("div", { class: "says", role: "status" }, text));
  }

  /** The box goes the way of its text, and is as high where the stylesheet cannot do that. */
  #fit() {
    this.box.dir = "auto";
    if (this.box.value.length > LONG_CHARS) this.box.dir = getComputedStyle(this.box).direction; // ten times as fast as each line for itself
    if (CSS.supports("field-sizing", "content")) return;
    this.box.style.setProperty("height", "auto");
    this.box.style.setProperty("height", `${this.box.scrollHeight}px`);
  }

  /** This page's own, over a reload too; a new page has what was written last. @returns {Draft} */
  #readDraft() {
    try {
      this.kept = localStorage.getItem(this.key);
      const draft = JSON.parse(sessionStorage.getItem(this.key) || this.kept || "null");
      if (!draft || typeof draft.text !== "string") return { text: "" };
      return { ...draft, files: Array.isArray(draft.files) ? draft.files : [] };
    } catch {
      return { text: "" };
    }
  }

  /** @param {Draft} draft */
  #writeDraft(draft) {
    this.draft = draft;
    const kept = draft.text || draft.files?.length ? JSON.stringify(draft) : null;
    try {
      if (kept) [sessionStorage, localStorage].forEach((store) => store.setItem(this.key, kept));
      else {
        sessionStorage.removeItem(this.key);
        if (localStorage.getItem(this.key) === this.kept) localStorage.removeItem(this.key); // else it is another page's
      }
      this.kept = kept;
    } catch {
      // Storage that is full or forbidden costs only the draft's survival of a reload.
    }
  }
}

/** @param {{ when: string, after?: string }} lands @param {Way} way */
function landsWords(lands, way) {
  if (lands.when === "next_turn") return "Nothing is running now: it lands with the next turn";
  if (lands.after === "gate") return way === "urgent" ? "It lands instead of what was being asked" : "It lands after the approval";
  return "It lands at the next step";
}

/** Where it lands while an agent waits for those below it: their calls have started, and are not touched (D5). @param {string} whom @param {Way} way */
function waitsHint(whom, way) {
  return `${way === "urgent" ? `Skips what ${whom} has not started; read` : `${whom.charAt(0).toUpperCase()}${whom.slice(1)} reads it`} when its sub-agents are done`;
}

/** @param {State} state */
function idleHint(state) {
  if (stopping(state)) return "What you write waits until the stop has ended";
  const { held, inputs } = waiting(state);
  if (inputs) return `What you write waits behind ${countOf(inputs, "message")}`;
  if (held) return `Starts a turn now; ${countOf(held, "paused message stays", "paused messages stay")} paused`;
  return "Starts a turn";
}

/** @param {import("./state.js").Loop} loop */
function queueHint(loop) {
  const inputs = loop.inbox.filter((entry) => !entry.held && !isTask(loop, entry)).length;
  if (loop.parent !== null) return inputs ? `${inputs} before it; its last answer counts` : REPLACES;
  return `After this turn${inputs ? `, ${inputs} before it` : ""}`;
}
