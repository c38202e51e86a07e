/**
 * What the timeline shows, folded from events and live pieces of text. No DOM: `timeline.js` draws what is stamped anew.
 *
 * @typedef {import("./state.js").LogEvent} LogEvent
 * @typedef {import("./state.js").Actor} Actor
 * @typedef {string | { ref: string, size: number } | { erased: true } | null | undefined} Text a long text is a reference
 * @typedef {{ key: string, kind: string, stamp: number, [name: string]: any }} Item
 * @typedef {{ is: string, at: number, tool?: string, writing?: boolean, nextAt?: string, attempt?: number }} Phase
 * @typedef {{ id: string, loop: string | null, index: number | null, input: string | null, by: Actor | null, at: string | null,
 *   endedAt: string | null, headless?: boolean, status: string, end: LogEvent | null, reason: string | null, items: Item[], keys: Map<string, Item>,
 *   finished: Set<number | null>, events: LogEvent[], phase: Phase | null, cost: unknown, goesOn?: boolean, stamp: number,
 *   leaving?: { until: number | null } | null }} TurnView `goesOn`: its end is further down; `leaving`: its worker is on its way out
 * @typedef {{ kind: "turn", key: string, turn: TurnView } | { kind: "note", key: string, event: LogEvent, item: Item }} Block
 * @typedef {{ event: LogEvent, acknowledged: Map<string, number>, ends: LogEvent[], kills: Map<string, import("./stops.js").Kill> }} StopView
 *   `kills`: what it ended in the background, by turn and call
 * @typedef {{ kind: string, tool: string, value: unknown, by: Actor, at: string }} Standing a standing answer, who gave it and when
 * @typedef {{ parent: string, turn: string, key: string, call: string }} Place where a delegate's card stands: a turn of its parent, and the item in it
 * @typedef {{ id: string, task: Text, blocks: Block[], end: LogEvent | null }} AgentView a delegate with its own timeline; `end`: how its last turn ended
 * @typedef {{ processes: any[], surviving: any[], command: string, step: number | null }} Left what a call left running in the background; `command`: what its agent wrote, where known
 */
import { serverNow } from "../clock.js";
import { apart, startOf } from "../words.js";
import { RULES, callKey, goneWords, memberWords, returnedWords } from "./view_rules.js";

let stamps = 0;
/** Changes drive drawing: whatever has a new stamp is drawn anew. */
export const stamp = () => (stamps += 1);

export class View {
  /**
   * @param {Record<string, Text>} [texts] of messages that wait, from the snapshot @param {string} [you] who looks
   * @param {Record<string, import("./files.js").SentFile[]>} [files] of those messages
   */
  constructor(texts = {}, you = "", files = {}) {
    this.you = you;
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {Map<string, TurnView>} */
    this.turns = new Map();
    /** @type {Map<string, Text>} words of inputs and steers by id */
    this.texts = new Map(Object.entries(texts));
    /** @type {Map<string, import("./files.js").SentFile[]>} files of inputs and steers by id */
    this.files = new Map(Object.entries(files));
    /** @type {Map<string, LogEvent[]>} where they were said, until a turn takes them */
    this.waiting = new Map();
    /** @type {Map<string, Actor>} */
    this.authors = new Map();
    /** @type {Map<string, string>} names by person, as far as they were met */
    this.people = new Map();
    /** How many of the processes that outlived a turn have ended since, by the event that says so. @type {Map<number, { turn: string, count: number }>} */
    this.outlived = new Map();
    /** @type {Map<string, StopView>} */
    this.stops = new Map();
    /** @type {Set<string>} messages whose turn failed and that may be tried again */
    this.offered = new Set();
    /** @type {Set<string>} messages that are another try of an earlier one */
    this.retries = new Set();
    /** @type {Set<string>} turns to draw anew */
    this.dirty = new Set();
    /** @type {string | null} the command that queued the newest input */
    this.queuedBy = null;
    /** @type {string | null} the command that created the session */
    this.createdBy = null;
    /** @type {Map<string, Standing>} standing answers by id, revoked ones too as far as they were met */
    this.rules = new Map();
    /** @type {string | null} the loop of the main agent; all others are delegates */
    this.main = null;
    /** @type {Map<string, AgentView>} delegates by loop, as far as they are loaded */
    this.agents = new Map();
    /** @type {Map<string, Place>} where delegates stand, by loop */
    this.places = new Map();
    /** @type {Map<string, Text>} tasks of delegates by loop */
    this.tasks = new Map();
    /** @type {LogEvent[]} events of delegates that nobody knows yet where they stand */
    this.strays = [];
    /** @type {Map<string, Left>} what runs, or ran, in the background, by turn and call */
    this.background = new Map();
    /** @type {Map<string, Actor>} who ended what ran there, once it has ended */
    this.gone = new Map();
    this.closed = false; // what ran in the background ends a moment later
  }

  /** One event further. Each event is applied once, in order. @param {LogEvent} event */
  apply(event) {
    if (event.type === "LoopStarted") this.#delegated(event);
    const agent = this.#agentOf(event.loop);
    const later = LATER.has(event.type);
    const turn = !event.turn ? null : later ? this.turns.get(event.turn) || null : this.turn(event);
    if (event.actor.kind === "person") this.people.set(event.actor.id, event.actor.name);
    if (!later) this.file(event, turn);
    RULES[event.type]?.(this, event, /** @type {TurnView} */ (turn));
    if (turn) this.touch(turn);
    else if (agent) this.touchAgent(agent);
  }

  /** Keep an event with the block it is folded into. @param {LogEvent} event @param {TurnView | null} turn */
  file(event, turn) {
    const agent = this.#agentOf(event.loop);
    if (agent) (this.#root(agent)?.events || this.strays).push(event);
    else turn?.events.push(event);
  }

  /** Keep an event with a turn that it says nothing of itself: the two are folded together. @param {LogEvent} event @param {string} id */
  fileWith(event, id) {
    const turn = this.turns.get(id);
    const agent = turn && this.agents.get(turn.loop || "");
    (agent ? this.#root(agent) : turn)?.events.push(event);
  }

  /** A call of the delegate tool has made an agent (G1): it stands in that call's card. @param {LogEvent} event */
  #delegated({ loop, data }) {
    if (!data.parent) this.main = loop;
    if (!data.parent || !loop) return;
    this.tasks.set(loop, data.task);
    const last = this.#blocksOf(data.parent).findLast((block) => block.kind === "turn");
    const turn = last?.kind === "turn" ? last.turn : null;
    const item = turn?.items.findLast((each) => each.kind === "tool" && each.call === data.call);
    if (turn && item) this.places.set(loop, { parent: data.parent, turn: turn.id, key: item.key, call: data.call });
  }

  /** The delegate of that loop, at its place; null for the main agent's and the session's own. @param {string | null} loop @returns {AgentView | null} */
  #agentOf(loop) {
    if (loop === null || loop === this.main) return null;
    if (this.main === null) {
      this.main = loop;
      return null;
    }
    const known = this.agents.get(loop);
    const agent = known || { id: loop, task: undefined, blocks: [], end: null };
    if (!known) this.agents.set(loop, agent);
    agent.task ??= this.tasks.get(loop);
    const place = this.places.get(loop);
    if (!place) return agent;
    const turn = this.turns.get(place.turn) || this.#begin(place.turn, place.parent);
    if (turn.keys.get(place.key)?.child !== agent) {
      const item = turn.keys.get(place.key);
      this.put(turn, place.key, "tool", { ...(!item && { call: place.call, tool: "delegate", state: "running", live: true }), child: agent });
      this.touch(turn);
    }
    return agent;
  }

  /** The main agent's turn in which a delegate works, however deep; null while its place is not known. @param {AgentView} agent @returns {TurnView | null} */
  #root(agent) {
    const turn = this.turns.get(this.places.get(agent.id)?.turn || "");
    const above = turn && this.agents.get(turn.loop || "");
    return above ? this.#root(above) : turn || null;
  }

  /** An agent's own timeline. @param {string | null} loop @returns {Block[]} */
  #blocksOf(loop) {
    return (loop !== null && this.#agentOf(loop)?.blocks) || this.blocks;
  }

  /** Where the snapshot says that the delegates at work stand: their beginning may not be loaded. @param {import("./state.js").State} state */
  settle(state) {
    for (const { id: parent, turn } of Object.values(state.loops)) {
      for (const { call, child } of turn?.calls || []) {
        if (!turn || !child) continue;
        this.places.set(child, { parent, turn: turn.id, key: callKey(turn.step, call), call });
        const agent = this.#agentOf(child);
        const root = agent && this.#root(agent);
        if (!root) continue;
        root.events.push(...this.strays.filter((event) => event.loop === child));
        this.strays = this.strays.filter((event) => event.loop !== child);
        root.events.sort((a, b) => a.seq - b.seq);
      }
    }
  }

  /** The turn an event belongs to; one whose beginning is not loaded yet begins here. @param {LogEvent} event @returns {TurnView} */
  turn(event) {
    const id = /** @type {string} */ (event.turn);
    return this.turns.get(id) || this.#begin(id, event.loop);
  }

  /** @param {string} id @param {string | null} loop @returns {TurnView} */
  #begin(id, loop) {
    /** @type {TurnView} */
    const turn = {
      id, loop, index: null, input: null, by: null, at: null, endedAt: null, status: "running", end: null, reason: null,
      items: [], keys: new Map(), finished: new Set(), events: [], phase: null, cost: null, stamp: stamp(),
    };
    this.turns.set(id, turn);
    this.#blocksOf(loop).push({ kind: "turn", key: id, turn });
    return turn;
  }

  /** A delegate's turn is drawn with the card it stands in. @param {TurnView} turn */
  touch(turn) {
    turn.stamp = stamp();
    const agent = this.agents.get(turn.loop || "");
    if (agent) this.touchAgent(agent);
    else this.dirty.add(turn.id);
  }

  /** @param {AgentView} agent */
  touchAgent(agent) {
    const place = this.places.get(agent.id);
    const turn = this.turns.get(place?.turn || "");
    const card = turn?.keys.get(place?.key || "");
    if (!turn || !card) return;
    card.stamp = stamp();
    this.touch(turn);
  }

  /** How a delegate is called: by the start of its task. @param {string} loop @returns {string} */
  nameOf(loop) {
    const name = this.startOf(loop);
    return name ? `sub-agent “${apart(name)}”${this.#which(loop)}` : "a sub-agent";
  }

  /** The start of its task with its number, in a list. @param {string} loop @returns {string} */
  shortName(loop) {
    return `${this.startOf(loop) || "Sub-agent"}${this.#which(loop)}`;
  }

  /** @param {string} loop */
  startOf(loop) {
    const task = this.tasks.get(loop);
    return typeof task === "string" ? startOf(task) : "";
  }

  /** Which of those of one turn that have the same task. @param {string} loop */
  #which(loop) {
    const turn = this.places.get(loop)?.turn;
    const same = turn ? [...this.tasks.keys()].filter((each) => this.places.get(each)?.turn === turn && this.startOf(each) === this.startOf(loop)) : [];
    return same.length > 1 ? ` ${same.sort().indexOf(loop) + 1}` : "";
  }

  /** Who wrote a message; a delegate's task is the word of the agent above it. @param {string} id @returns {Actor | null} */
  sender(id) {
    const by = this.authors.get(id) || null;
    if (by?.kind !== "agent" || (by.id !== this.main && !this.tasks.has(by.id))) return by;
    const name = this.nameOf(by.id);
    return { kind: "above", id: by.id, name: by.id === this.main ? "Main agent" : `${name.charAt(0).toUpperCase()}${name.slice(1)}` };
  }

  /**
   * Add or change one item of a turn; it keeps its place. What streams is not in the log yet: whatever the log says
   * meanwhile stands before it, as for those who come later.
   * @param {TurnView} turn @param {string} key @param {string} kind @param {Record<string, any>} values
   * @returns {Item}
   */
  put(turn, key, kind, values) {
    let item = turn.keys.get(key);
    if (!item) {
      item = { key, kind, stamp: 0 };
      turn.keys.set(key, item);
      const streams = values.live ? -1 : turn.items.findIndex((each) => each.live && each.kind !== "tool");
      turn.items.splice(streams === -1 ? turn.items.length : streams, 0, item);
    }
    Object.assign(item, values, { kind, stamp: stamp() });
    return item;
  }

  /**
   * A line where it happened: in the turn that runs, or between turns.
   * @param {LogEvent} event @param {Record<string, any>} values
   * @param {string | null} [loop] whose timeline it stands in
   */
  note(event, values, loop = event.loop) {
    const key = `n:${event.seq}`;
    const blocks = this.#blocksOf(loop);
    const running = unended(blocks);
    if (!running) {
      blocks.push({ kind: "note", key, event, item: { key, kind: "note", stamp: stamp(), at: event.at, seq: event.seq, ...values } });
      return;
    }
    this.put(running, key, "note", { at: event.at, seq: event.seq, ...values });
    if (blocks === this.blocks && running.events[running.events.length - 1] !== event) running.events.push(event);
    this.touch(running);
  }

  /** Every note, wherever it stands. @returns {{ item: Item, turn: TurnView | null }[]} */
  #notes() {
    /** @type {{ item: Item, turn: TurnView | null }[]} */
    const notes = [];
    for (const block of [this.blocks, ...[...this.agents.values()].map((agent) => agent.blocks)].flat()) {
      if (block.kind === "note") notes.push({ item: block.item, turn: null });
      else for (const item of block.turn.items) if (item.kind === "note") notes.push({ item, turn: block.turn });
    }
    return notes;
  }

  /** Names that no event said. What was told without one is told again. @param {{ id: string, name: string }[]} people */
  meet(people) {
    for (const { id, name } of people) this.people.set(id, name);
    this.#tellAgain();
  }

  #tellAgain() {
    for (const { item, turn } of this.#notes()) {
      const { member, given, gone } = item;
      /** @type {Record<string, unknown> | null} */
      const values = member ? { words: memberWords(this, member) } : given ? returnedWords(this, given) : gone?.of ? goneWords(this, gone) : null;
      if (!values || (values.words === item.words && values.title === item.title)) continue;
      Object.assign(item, values, { stamp: stamp() });
      if (turn) this.touch(turn);
    }
  }

  /** Some of what came back was written before the loaded part: nobody knows yet whose it is. */
  get lacksAuthor() {
    return this.#notes().some(({ item }) => item.given && !this.authors.has(item.given.id));
  }

  /** @param {string} id of an input or steer @param {LogEvent} event that holds its words */
  remember(id, event) {
    if (event.data.text !== undefined) this.texts.set(id, event.data.text);
    if (event.data.files) this.files.set(id, event.data.files); // changed words keep theirs
    if (!this.authors.has(id)) this.authors.set(id, event.data.author ?? event.actor);
    if (event.data.retries) this.retries.add(id);
    this.waiting.set(id, [...(this.waiting.get(id) || []), event]);
  }

  /** The events of a message stay with the main agent's turn that took it; a delegate's are with its card. @param {string} id @param {TurnView} [turn] without: it came back */
  take(id, turn) {
    if (turn?.loop === this.main) turn?.events.push(...(this.waiting.get(id) || []));
    this.waiting.delete(id);
  }

  /** What the snapshot knows of a running turn whose beginning is not loaded. @param {import("./state.js").Turn} running */
  begun({ id, index, at_ms: at, opening }) {
    const turn = this.turns.get(id);
    if (turn && turn.at === null) Object.assign(turn, { index, input: opening.id, at: new Date(at).toISOString(), headless: true });
  }

  /** Which messages of failed turns may be tried again, and which no more (B9). @param {import("./state.js").State} state */
  retryable(state) {
    const loops = state.status === "open" ? Object.values(state.loops).filter((loop) => loop.status !== "closed") : [];
    this.offered = new Set(loops.flatMap((loop) => loop.failed.map((entry) => entry.id)));
    for (const turn of this.turns.values()) {
      const retry = turn.status === "failed" && this.offered.has(turn.input || "") ? turn.input : undefined;
      if (turn.keys.get("end")?.retry === retry) continue;
      this.put(turn, "end", "failed", { retry });
      this.touch(turn);
    }
  }

  /**
   * A piece of live text. Offsets count Unicode code points; a higher attempt starts again; what is finished ignores it (L2).
   * @param {{ turn: string, step: number, attempt: number, kind: string, call?: string | null, offset: number, text: string }} piece
   * @returns {"ok" | "old" | "gap"} gap: a piece before this one is missing
   */
  stream(piece) {
    const turn = this.turns.get(piece.turn);
    if (!turn || turn.end || turn.phase?.is === "waiting") return "old";
    const item = piece.kind === "tool" ? turn.keys.get(callKey(piece.step, piece.call)) : this.#streamed(turn, piece);
    if (!item || !item.live || piece.attempt < (item.attempt ?? 0)) return "old";
    if (piece.attempt > (item.attempt ?? 0)) Object.assign(item, { attempt: piece.attempt, said: "", points: 0 });
    if (piece.offset > item.points) return "gap";
    const known = item.points - piece.offset;
    const fresh = known ? [...piece.text].slice(known) : piece.text;
    const text = typeof fresh === "string" ? fresh : fresh.join("");
    if (!text) return "ok";
    item.said += text;
    item.points += codePoints(text);
    item.stamp = stamp();
    if (piece.kind !== "tool") this.#writing(turn, piece);
    this.touch(turn);
    return "ok";
  }

  /** @param {TurnView} turn @param {{ step: number, kind: string, attempt: number }} piece @returns {Item | null} */
  #streamed(turn, piece) {
    if (turn.finished.has(piece.step)) return null;
    const key = `${piece.kind === "reasoning" ? "r" : "t"}:${piece.step}`;
    const live = { live: true, said: "", points: 0, attempt: piece.attempt, step: piece.step };
    return turn.keys.get(key) || this.put(turn, key, piece.kind === "reasoning" ? "reasoning" : "text", live);
  }

  /** @param {TurnView} turn @param {{ kind: string }} piece */
  #writing(turn, piece) {
    const writing = piece.kind === "text";
    if (turn.phase?.is !== "model") turn.phase = { is: "model", at: serverNow(), writing };
    else turn.phase.writing = writing;
  }

  /** The worker heard the stop. @param {{ request: string, turn: string, acknowledged_ms: number }} frame */
  acknowledged(frame) {
    this.stops.get(frame.request)?.acknowledged.set(frame.turn, frame.acknowledged_ms);
  }

  /** The turn's worker is on its way out (J4). @param {string} id @param {number | null} [grace] ms until what then still runs is ended; null: never */
  leaving(id, grace = null) {
    const turn = this.turns.get(id);
    if (!turn || turn.end) return;
    turn.leaving = { until: grace === null ? null : serverNow() + grace };
    this.touch(turn);
  }

  /** What the server knows of a turn's phase this moment. @param {{ turn: string, phase: string, since?: string, attempt?: number, next_at?: string, step?: number, call?: string, leaving?: boolean }} live */
  setPhase(live) {
    const turn = this.turns.get(live.turn);
    if (!turn || turn.end) return;
    if (live.leaving && !turn.leaving) this.leaving(live.turn);
    const at = live.since ? Date.parse(live.since) : turn.phase?.at || serverNow();
    const call = live.call ? turn.keys.get(callKey(live.step, live.call)) : undefined;
    if (live.phase === "tool" && call && call.state !== "running") return; // the log knows further: that call is over
    if (live.phase === "gate" && call && call.state !== "asked") return; // and that it was answered, or will say so
    if (live.phase !== turn.phase?.is || live.phase === "retry") {
      turn.phase = { is: live.phase, at, tool: call?.tool || turn.phase?.tool, nextAt: live.next_at, attempt: live.attempt };
      this.touch(turn);
    }
  }

  /**
   * Put an older page before everything. The turn cut by the page's edge is folded again from both halves, with the
   * notes that came before the first turn of the newer one: they may have been made while it ran.
   * @param {LogEvent[]} events in order
   */
  prepend(events) {
    const older = this.#fold(events);
    const first = this.blocks.findIndex((block) => block.kind === "turn");
    const edge = this.blocks.splice(0, first === -1 ? this.blocks.length : first);
    const again = edge.flatMap((block) => (block.kind === "note" ? [block.event] : []));
    const cut = [...older.turns.keys()].flatMap((id) => this.turns.get(id) || []);
    again.push(...this.strays, ...cut.filter((turn) => turn.loop === this.main).flatMap((turn) => turn.events));
    for (const event of again.sort((a, b) => a.seq - b.seq)) older.apply(event);
    for (const [id, before] of older.turns) if (this.turns.has(id)) carryLive(/** @type {TurnView} */ (this.turns.get(id)), before);
    this.strays = older.strays;
    this.#adopt(older);
    const twice = new Set(older.blocks.map((block) => block.key)); // a note that names its turn and came after its end
    this.blocks = this.blocks.filter((block) => block.kind === "turn" || !twice.has(block.key));
    this.blocks = [...older.blocks, ...this.blocks.filter((block) => block.kind !== "turn" || !older.turns.has(block.key))];
    for (const [id, turn] of older.turns) this.turns.set(id, turn);
    for (const [id, agent] of older.agents) this.agents.set(id, agent);
    for (const turn of this.turns.values()) this.#findWords(turn);
    this.#tellAgain();
    for (const turn of older.turns.values()) this.touch(turn);
  }

  /** Events folded anew beside what is known here. @param {LogEvent[]} events in order @returns {View} */
  #fold(events) {
    const view = new View({}, this.you);
    view.people = this.people;
    view.rules = new Map(this.rules);
    view.retries = this.retries;
    view.offered = this.offered;
    view.gone = this.gone;
    view.main = this.main;
    view.places = new Map(this.places);
    view.tasks = new Map(this.tasks);
    for (const event of events) view.apply(event);
    return view;
  }

  /** Another part of the log, from before what is here. What had not ended in it ends further down, and is left out. @param {LogEvent[]} events in order @returns {View} */
  part(events) {
    const part = this.#fold(events);
    part.texts = new Map([...this.texts, ...part.texts]);
    part.authors = new Map([...this.authors, ...part.authors]);
    this.#adopt(part);
    const turn = unended(part.blocks);
    if (turn) part.#cut(turn);
    for (const each of part.turns.values()) part.#findWords(each);
    part.#tellAgain();
    return part;
  }

  /** @param {TurnView} turn */
  #cut(turn) {
    turn.goesOn = true;
    turn.phase = null;
    for (const item of turn.items) if (item.live || ["planned", "asked", "running"].includes(item.state)) turn.keys.delete(item.key);
    turn.items = turn.items.filter((item) => turn.keys.has(item.key));
  }

  /**
   * Every event that is shown, in order. A turn has also those of the messages it took, which may be from long before the
   * loaded part: they would open a hole in the log.
   * @param {number} first seq where the loaded part begins @returns {LogEvent[]}
   */
  events(first) {
    const shown = this.blocks.flatMap((block) => (block.kind === "turn" ? block.turn.events : [block.event])).filter((event) => event.seq >= first);
    return [...new Map([...shown, ...this.strays].map((event) => [event.seq, event])).values()].sort((a, b) => a.seq - b.seq);
  }

  /** How many events are shown, about. */
  get size() {
    return this.blocks.reduce((sum, block) => sum + (block.kind === "turn" ? block.turn.events.length : 1), 0);
  }

  /** Learn what was said in events from before the loaded part, without showing them. @param {LogEvent[]} events in order */
  learn(events) {
    const older = new View();
    const started = new Map();
    for (const event of events) {
      if (event.type === "LoopStarted") older.tasks.set(event.loop || "", event.data.task);
      else if (event.type === "ToolStarted") started.set(event.data.call, event.data.arguments);
      else if (event.type === "ToolSettled") older.left(event, started.get(event.data.call));
      else older.remember(event.data.input || event.data.steer, event);
    }
    this.#adopt(older);
    for (const turn of this.turns.values()) this.#findWords(turn);
    this.#tellAgain();
  }

  /** What is known here is newer. @param {View} older */
  #adopt(older) {
    for (const [id, text] of older.texts) if (!this.texts.has(id)) this.texts.set(id, text);
    for (const [id, files] of older.files) if (!this.files.has(id)) this.files.set(id, files);
    for (const [id, actor] of older.authors) if (!this.authors.has(id)) this.authors.set(id, actor);
    for (const [id, rule] of older.rules) if (!this.rules.has(id)) this.rules.set(id, rule);
    for (const [id, place] of older.places) if (!this.places.has(id)) this.places.set(id, place);
    for (const [id, task] of older.tasks) if (!this.tasks.has(id)) this.tasks.set(id, task);
    this.closed ||= older.closed;
    for (const [id, left] of older.background) {
      const known = this.background.get(id);
      if (!known?.command) this.background.set(id, { ...left, surviving: known?.surviving ?? left.surviving });
    }
    for (const agent of this.agents.values()) agent.task ??= this.tasks.get(agent.id);
  }

  /** What a call left running in the background (E13). @param {LogEvent} event its settlement @param {any} [given] its arguments, where its turn is not loaded */
  left(event, given) {
    const { call, processes } = event.data;
    if (!processes?.background?.length) return;
    const args = this.turns.get(event.turn || "")?.keys.get(callKey(event.step, call))?.args ?? given;
    this.background.set(`${event.turn} ${call}`, { processes: processes.background, surviving: [], command: typeof args?.command === "string" ? args.command : "", step: event.step });
  }

  /** Words that were said before the loaded part began, now known. @param {TurnView} turn */
  #findWords(turn) {
    for (const item of turn.items) {
      if (item.kind === "said" && item.text === undefined && this.texts.has(item.id)) {
        Object.assign(item, { text: this.texts.get(item.id), files: this.files.get(item.id), by: this.sender(item.id) || item.by, stamp: stamp() });
        turn.by ||= item.by;
        this.touch(turn);
      }
    }
  }

  /**
   * Forget all but the newest events, so that a page left open stays light. What runs is kept, however old.
   * @param {number} most @param {import("./state.js").State} state @param {number} first seq where the loaded part begins
   * @returns {number} and where it begins now
   */
  keep(most, state, first) {
    const events = this.events(first).slice(-most);
    const part = this.#fold(events);
    for (const { id: loop, turn: running } of Object.values(state.loops)) {
      const from = running && this.turns.get(running.id);
      if (!from) continue;
      const to = part.turns.get(from.id) || part.#begin(from.id, loop);
      const headless = to.at === null;
      carryLive(from, to);
      Object.assign(to, { by: to.by || from.by, status: from.status, headless });
    }
    this.#adopt(part);
    const shown = new Set([...part.turns.values()].flatMap((turn) => turn.items.flatMap((item) => (item.kind === "said" ? [item.id] : []))));
    this.texts = new Map([...this.texts].filter(([id]) => part.texts.has(id) || shown.has(id) || isWanted(state, id)));
    this.files = new Map([...this.files].filter(([id]) => this.texts.has(id)));
    Object.assign(this, { blocks: part.blocks, turns: part.turns, agents: part.agents, strays: part.strays });
    this.settle(state);
    for (const turn of this.turns.values()) {
      this.#findWords(turn);
      this.touch(turn);
    }
    this.#tellAgain();
    return events[0]?.seq ?? first;
  }
}

/** What waits, or has opened what runs. @param {import("./state.js").State} state @param {string} id */
const isWanted = (state, id) =>
  Object.values(state.loops).some((loop) => loop.turn?.opening.id === id || [...loop.inbox, ...loop.steers].some((entry) => entry.id === id));

/** What happens to a call's processes long after: said where it happens, not where the call stands. */
const LATER = new Set(["KillRequested", "ProcessesEnded"]);

/** The turn that runs, as far as it is loaded. @param {Block[]} blocks @returns {TurnView | null} */
function unended(blocks) {
  const last = blocks.findLast((block) => block.kind === "turn");
  return last?.kind === "turn" && !last.turn.end ? last.turn : null;
}

/** @param {TurnView} from @param {TurnView} to */
function carryLive(from, to) {
  if (to.at === null) Object.assign(to, { index: from.index, input: from.input, at: from.at, headless: from.headless });
  for (const item of from.items) {
    const twin = to.keys.get(item.key);
    if (item.dropped && !twin) { // what had been shown of a reply that nobody finished, before the note that says so
      const note = to.items.findIndex((each) => each.key === item.dropped);
      if (note !== -1) to.items.splice(note, 0, item);
      if (note !== -1) to.keys.set(item.key, item);
    }
    if (!item.live) continue;
    if (twin) Object.assign(twin, item, { stamp: stamp() });
    else {
      to.keys.set(item.key, item);
      to.items.push(item);
    }
  }
  to.phase = from.phase || to.phase;
  to.leaving = from.leaving ?? to.leaving;
}

/** @param {string} text @returns {number} */
export function codePoints(text) {
  let count = 0;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit < 0xdc00 || unit > 0xdfff || i === 0 || !isHigh(text.charCodeAt(i - 1))) count += 1;
  }
  return count;
}

/** @param {number} unit */
const isHigh = (unit) => unit >= 0xd800 && unit <= 0xdbff;
