/**
 * The live connection: connect, resume after the last event folded, notice silence and gaps, and send commands.
 *
 * A command that may be repeated (its id makes that safe, A4) waits in the outbox until it is acknowledged, over as many
 * connections as that takes. A stop never waits there: see `sendOnce`.
 *
 * @typedef {"connecting" | "updating" | "live" | "reconnecting" | "offline" | "signed_out" | "not_allowed" | "gone"} Status
 * @typedef {{ resolve: (result: any) => void, reject: (error: Refused) => void, frame: Record<string, any>, resend: boolean, done: boolean }} Waiting `done`: an event has said so, and the receipt is yet to come
 */
import { serverNow } from "../clock.js";
import { Refused, call } from "../rest.js";

const BACKOFF_FIRST_MS = 300;
const BACKOFF_LAST_MS = 5_000;
/** Beats come every 15 s: after this long without a frame a socket is presumed dead when somebody looks at the page. */
const SILENCE_MS = 20_000;
/** And after this long it is replaced even when nobody looks. */
const DEAD_MS = 40_000;
const HANDSHAKE_MS = 8_000;
const PROBE_MS = 1_500;
/** A beat may overtake the hint of an event; only a head still ahead after this is a gap. */
const GAP_GRACE_MS = 1_500;
const TICK_MS = 5_000;
const ENDS = /** @type {Record<number, Status>} */ ({ 4401: "signed_out", 4403: "not_allowed", 4404: "gone" });

export class Connection {
  /**
   * @param {{ path: string, check: string, cursor: number, replays?: boolean, onFrame: (frame: any) => void, onStatus: (status: Status) => void }} options
   *   `path` of the socket, `check`: a REST path that says whether we may still look, `cursor`: the snapshot's seq,
   *   `replays`: whether a replay and its `caught_up` follow the hello
   */
  constructor({ path, check, cursor, replays = true, onFrame, onStatus }) {
    this.path = path;
    this.check = check;
    this.replays = replays;
    /** The newest event folded: what every reconnect resumes after. */
    this.cursor = cursor;
    this.onFrame = onFrame;
    this.onStatus = onStatus;
    /** @type {Status} */
    this.status = "connecting";
    this.delayed = false;
    /** When a frame last said how things are (the server's clock), for "as of". */
    this.confirmedAt = serverNow();
    /** @type {Map<string, Waiting>} */
    this.waiting = new Map();
    /** @type {WebSocket | null} */
    this.socket = null;
    this.ready = false;
    this.failures = 0;
    this.heardAt = performance.now();
    this.tickedAt = Date.now();
    this.timers = { retry: 0, handshake: 0, gap: 0, probe: 0 };
  }

  start() {
    for (const type of ["visibilitychange", "pageshow", "focus"]) {
      (type === "visibilitychange" ? document : window).addEventListener(type, () => this.#look());
    }
    addEventListener("online", () => this.replace());
    // A frame handed to a dead network may still be delivered a minute later: a socket does not outlive its network.
    addEventListener("offline", () => this.#drop("offline"));
    setInterval(() => this.#tick(), TICK_MS);
    this.#open();
  }

  /** Ready to carry a command now. */
  get open() {
    return this.ready && this.socket?.readyState === WebSocket.OPEN;
  }

  /**
   * Send a command until it is acknowledged, again after every reconnect.
   * @param {Record<string, any>} frame with `t` and `id`
   * @returns {Promise<any>} the receipt; rejects with `Refused`
   */
  send(frame) {
    return this.#command(frame, true);
  }

  /**
   * Send a command over this connection or not at all: it never leaves later by itself.
   * @param {Record<string, any>} frame
   * @returns {Promise<any>} rejects with the code `unreachable` when the connection is not there or goes
   */
  sendOnce(frame) {
    if (!this.open) return Promise.reject(new Refused("unreachable", "Not connected."));
    return this.#command(frame, false);
  }

  /** Stop waiting for a command; whether it was carried out is unknown. @param {string} id */
  forget(id) {
    this.waiting.delete(id);
  }

  /** An event said that this command was carried out. Its receipt comes right behind it, or goes with the connection (D17). @param {string | null} id */
  #seen(id) {
    const waiting = id ? this.waiting.get(id) : undefined;
    if (waiting) waiting.done = true;
  }

  /** Throw this connection away and make a new one at once. */
  replace() {
    this.#drop("updating");
    this.failures = 0;
    this.#schedule(0);
  }

  /** @param {Record<string, any>} frame @param {boolean} resend @returns {Promise<any>} */
  #command(frame, resend) {
    return new Promise((resolve, reject) => {
      const waiting = { resolve, reject, frame, resend, done: false };
      this.waiting.set(frame.id, waiting);
      if (this.open) this.#put(waiting);
    });
  }

  /** @param {Waiting} waiting */
  #put(waiting) {
    this.socket?.send(JSON.stringify(waiting.frame));
  }

  #open() {
    clearTimeout(this.timers.retry);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const joint = this.path.includes("?") ? "&" : "?";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path}${joint}after=${this.cursor}&live=1`);
    this.socket = socket;
    this.heardAt = performance.now();
    this.timers.handshake = window.setTimeout(() => this.#lost(), HANDSHAKE_MS);
    socket.onmessage = (message) => this.#heard(JSON.parse(message.data));
    socket.onclose = (event) => (ENDS[event.code] ? this.#end(ENDS[event.code]) : this.#lost());
  }

  /** @param {any} frame */
  #heard(frame) {
    this.heardAt = performance.now();
    this.confirmedAt = serverNow();
    if (frame.t === "event") this.#event(frame);
    else if (frame.t === "ack" || (frame.t === "error" && frame.id)) this.#answer(frame);
    else {
      if (frame.t === "hello") this.delayed = Boolean(frame.live?.delayed);
      if (frame.t === "delayed") this.delayed = Boolean(frame.delayed);
      if (frame.t === "hello") this.#hello();
      if (frame.t === "resync") this.#drop("updating", 0);
      if (frame.t === "beat") this.#beat(frame.head);
      this.onFrame(frame);
      if (frame.t === "caught_up") this.#set("live");
    }
  }

  /** In order and once each, whatever arrives (L1). @param {any} event */
  #event(event) {
    if (event.seq <= this.cursor) return;
    if (event.seq > this.cursor + 1) {
      this.#drop("updating", 0);
      return;
    }
    this.onFrame(event);
    this.cursor = event.seq;
    this.#seen(event.cause);
  }

  #hello() {
    clearTimeout(this.timers.handshake);
    this.ready = true;
    this.failures = 0;
    this.#set(this.replays ? "updating" : "live");
    if (document.visibilityState === "hidden") this.#looking(false);
    for (const waiting of this.waiting.values()) if (waiting.resend) this.#put(waiting);
  }

  /** @param {any} frame */
  #answer(frame) {
    const waiting = this.waiting.get(frame.id);
    if (!waiting) return;
    this.waiting.delete(frame.id);
    if (frame.t === "ack") waiting.resolve(frame.result);
    else waiting.reject(new Refused(frame.code, frame.detail, frame.data || {}));
  }

  /** @param {number} head */
  #beat(head) {
    clearTimeout(this.timers.gap);
    if (head <= this.cursor) return;
    this.timers.gap = window.setTimeout(() => {
      if (head > this.cursor) this.#drop("updating", 0);
    }, GAP_GRACE_MS);
  }

  #lost() {
    this.failures += 1;
    this.#drop(navigator.onLine ? "reconnecting" : "offline", this.#delay());
    // A refused handshake looks like a lost network: ask over REST whether we may still look.
    if (this.failures % 3 === 0) void this.#mayLook();
  }

  async #mayLook() {
    try {
      await call("GET", this.check, { timeout: 5_000 });
    } catch (error) {
      const code = /** @type {Refused} */ (error).code;
      if (code === "unauthenticated") this.#end("signed_out");
      if (code === "session_not_found") this.#end("gone");
    }
  }

  #delay() {
    const full = Math.min(BACKOFF_LAST_MS, BACKOFF_FIRST_MS * 2 ** Math.min(this.failures - 1, 10));
    return full / 2 + (Math.random() * full) / 2;
  }

  /** @param {Status} status @param {number} [retryMs] make a new connection after this long */
  #drop(status, retryMs = this.#delay()) {
    const { socket } = this;
    this.socket = null;
    this.ready = false;
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
    if (socket) {
      socket.onmessage = null;
      socket.onclose = null;
      socket.close();
    }
    for (const [id, waiting] of this.waiting) {
      if (waiting.resend && !waiting.done) continue;
      this.waiting.delete(id);
      if (waiting.done) waiting.resolve({});
      else waiting.reject(new Refused("unreachable", "The connection was lost."));
    }
    this.#set(status);
    this.#schedule(retryMs);
  }

  /** @param {number} ms */
  #schedule(ms) {
    clearTimeout(this.timers.retry);
    this.timers.retry = window.setTimeout(() => this.#open(), ms);
  }

  /** @param {Status} status for good */
  #end(status) {
    this.#drop(status);
    clearTimeout(this.timers.retry);
  }

  /** @param {Status} status */
  #set(status) {
    if (this.status === status) return;
    this.status = status;
    this.onStatus(status);
  }

  get ended() {
    return this.status === "signed_out" || this.status === "not_allowed" || this.status === "gone";
  }

  /** Somebody looks at the page again: a socket that was silent is replaced rather than believed (D37). */
  #look() {
    if (document.visibilityState === "hidden") this.#looking(false);
    if (document.visibilityState === "hidden" || this.ended) return;
    const slept = Date.now() - this.tickedAt > TICK_MS * 3;
    if (slept || performance.now() - this.heardAt > SILENCE_MS) this.replace();
    else if (!this.socket) this.#schedule(0);
    else if (this.open) this.#probe();
    this.tickedAt = Date.now();
  }

  /** Whoever looks away may be told by a notification instead. @param {boolean} visible */
  #looking(visible) {
    if (this.replays && this.open) this.socket?.send(JSON.stringify({ t: "looking", visible }));
  }

  /** The server answers a look with a beat: a socket that stays silent then died while nobody looked (D37). */
  #probe() {
    if (!this.replays) return;
    const { socket, heardAt } = this;
    this.#looking(true);
    clearTimeout(this.timers.probe);
    this.timers.probe = window.setTimeout(() => {
      if (this.socket === socket && this.heardAt === heardAt && !this.ended) this.replace();
    }, PROBE_MS);
  }

  #tick() {
    const slept = Date.now() - this.tickedAt > TICK_MS * 3;
    this.tickedAt = Date.now();
    if (this.ended || !this.socket) return;
    if (slept || performance.now() - this.heardAt > DEAD_MS) this.replace();
  }
}
