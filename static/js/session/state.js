/**
 * The reducer: one event further. Pure, no DOM; the twin of `sessions_app/engine/fold.py`, and a test folds the same
 * golden logs with both. The state is the one `GET /api/v1/sessions/{id}/state` answers.
 *
 * @typedef {{ kind: string, id: string, name: string }} Author
 * @typedef {{ kind: string, id: string, name: string, device?: { kind: string, name?: string } | null }} Actor
 * @typedef {{ seq: number, type: string, at: string, loop: string | null, turn: string | null, step: number | null,
 *   actor: Actor, cause: string | null, data: any }} LogEvent
 * @typedef {{ id: string, agency: string, delivery: string, author: Author, seq: number, text_seq: number, held: boolean }} Input
 * @typedef {{ id: string, urgent: boolean, author: Author, seq: number, text_seq: number, held: boolean, for_turn: string | null }} Steer
 * @typedef {{ call: string, tool: string, status: "planned" | "started" | "settled", gate: string | null,
 *   answer: "open" | "allow" | "deny" | "closed" | null, seq: number | null, child: string | null,
 *   killer: { actor: any, cause: string | null } | null }} Call
 * @typedef {{ id: string, kind: string, tool: string, seq: number }} Rule
 * @typedef {{ id: string, index: number, opening: Input, worker: string, epoch: number, at_ms: number, step: number, kept: number,
 *   calls: Call[] | null, step_usage: Record<string, number> | null, usage: Record<string, number>, cost: number | null,
 *   mark: string | null, survivors: { call: string, seq: number, turn: string }[], unknown: boolean, mode: string, model: string, limits: Record<string, number>,
 *   unpriced: boolean, waited_ms: number, asked_ms: number | null, planned: number | null, repeats: number,
 *   delegates: number, steps_below: number, attempt: number }} Turn
 * @typedef {{ call: string, turn: string, seq: number, at_ms: number, worker: string,
 *   killer: { actor: Actor, cause: string | null } | null }} Background
 * @typedef {{ id: string, agent: string, model: string, mode: string, parent: string | null, status: string, turns: number,
 *   epoch: number, inbox: Input[], steers: Steer[], turn: Turn | null, failed: Input[], limits: Record<string, number>,
 *   background: Background[], answer: number | null }} Loop
 * @typedef {{ id: string, seq: number, at_ms: number, actor: Actor, cause: string, queue: string, turns: string[],
 *   phases: Record<string, string>, why: string, then: string[], keep_background: boolean }} Request
 * @typedef {{ v: number, status: "open" | "closing" | "closed", loops: Record<string, Loop>, requests: Record<string, Request>,
 *   settings: Record<string, any>, titled: boolean, rules: Rule[],
 *   spent: { cost: number, day: number, day_cost: number } }} State
 */

export const FOLD = 5;

/** The state before the first event. @returns {State} */
export function initial() {
  return { v: FOLD, status: "open", loops: {}, requests: {}, settings: {}, titled: false, rules: [], spent: { cost: 0, day: 0, day_cost: 0 } };
}

/**
 * The state after `event`. Types without a rule of their own change nothing.
 * @param {State} state
 * @param {LogEvent} event
 * @returns {State}
 */
export function evolve(state, event) {
  const rule = RULES[event.type];
  return rule ? rule(state, event) : state;
}

/** The loop people talk to when they name none. @param {State} state @returns {Loop | null} */
export function primary(state) {
  return Object.values(state.loops).find((loop) => loop.parent === null) || null;
}

/** @param {State} state @param {Loop} loop @returns {State} */
const withLoop = (state, loop) => ({ ...state, loops: { ...state.loops, [loop.id]: loop } });

/** @param {State} state @param {LogEvent} event @param {Partial<Loop>} change @returns {State} */
const changeLoop = (state, event, change) => withLoop(state, { ...loopOf(state, event), ...change });

/** @param {State} state @param {LogEvent} event @returns {Loop} */
const loopOf = (state, event) => state.loops[event.loop || ""];

/** @param {LogEvent} event @returns {Author} */
const authorOf = (event) => event.data.author ?? ({ kind: event.actor.kind, id: event.actor.id, name: event.actor.name });

/** @template {{ id: string }} T @param {T[]} entries @param {string} id @returns {T[]} */
const without = (entries, id) => entries.filter((entry) => entry.id !== id);

/** @template T @param {T[]} entries @param {number} position @param {T} entry @returns {T[]} */
const inserted = (entries, position, entry) => [...entries.slice(0, position), entry, ...entries.slice(position)];

/** @param {Record<string, number>} a @param {Record<string, number> | null | undefined} b @returns {Record<string, number>} */
function addUsage(a, b) {
  const total = { ...a };
  for (const [key, value] of Object.entries(b || {})) total[key] = (total[key] || 0) + value;
  return total;
}

/** @param {State} state @param {LogEvent} event @param {(turn: Turn) => Turn} change @returns {State} */
function changeTurn(state, event, change) {
  const loop = loopOf(state, event);
  if (!loop.turn) throw new Error(`event ${event.seq} ${event.type} belongs to no running turn`);
  return withLoop(state, { ...loop, turn: change(loop.turn) });
}

/** An input that came with a stop names its request, so that the stop keeps it first (E12). @param {State} state @param {LogEvent} event */
function noteThen(state, event) {
  const request = state.requests[event.data.request || ""];
  if (!request) return state;
  const noted = { ...request, then: [...request.then, event.data.input] };
  return { ...state, requests: { ...state.requests, [request.id]: noted } };
}

/** @param {State} state @param {LogEvent} event @param {boolean} held @returns {State} */
function setHeld(state, event, held) {
  const loop = loopOf(state, event);
  return changeLoop(state, event, {
    inbox: loop.inbox.map((entry) => (event.data.inputs.includes(entry.id) ? { ...entry, held } : entry)),
    steers: loop.steers.map((steer) => (event.data.steers.includes(steer.id) ? { ...steer, held } : steer)),
  });
}

/** Who wants something to end. @param {any} event @returns {{ actor: any, cause: string | null }} */
function killerOf(event) {
  const { kind, id, name, device = null } = event.actor;
  return { actor: { kind, id, name, device }, cause: event.cause };
}

/** @param {State} state @param {LogEvent} event @param {Partial<Call>} changes @returns {State} */
function setCall(state, event, changes) {
  return changeTurn(state, event, (turn) => ({
    ...turn,
    calls: (turn.calls || []).map((call) => (call.call === event.data.call ? { ...call, ...changes } : call)),
  }));
}

/** So many of the newest failed messages may be tried again (B9). */
const FAILED_KEPT = 16;
const DAY_MS = 24 * 3600 * 1000;
const MODES = ["plan", "ask", "auto"];
/** @param {string} a @param {string} b */
const stricter = (a, b) => MODES[Math.min(MODES.indexOf(a), MODES.indexOf(b))];

/** The next model call is due, under the mode of now (I1). @param {State} state @param {LogEvent} event @param {Partial<Turn>} changes @returns {State} */
function nextStep(state, event, changes) {
  const { mode } = loopOf(state, event);
  return changeTurn(state, event, (turn) => ({ ...turn, calls: null, step: turn.step + 1, step_usage: null, mode, attempt: 1, ...changes }));
}

/** A model call is over and paid for, whatever became of its reply (B7, D6). @param {State} state @param {LogEvent} event @returns {State} */
function paid(state, event) {
  const { cost = null, usage } = event.data;
  const next = changeTurn(state, event, (turn) => ({
    ...turn, usage: addUsage(turn.usage, usage), cost: cost === null ? turn.cost : (turn.cost || 0) + cost, unpriced: turn.unpriced || cost === null,
  }));
  return cost === null ? next : spend(next, event, cost);
}

/** @param {State} state @param {LogEvent} event @param {number} cost @returns {State} */
function spend(state, event, cost) {
  const day = Math.floor(Date.parse(event.at) / DAY_MS);
  const { spent } = state;
  return { ...state, spent: { cost: spent.cost + cost, day, day_cost: cost + (spent.day === day ? spent.day_cost : 0) } };
}

/** Whether a turn waits for an answer or a child, which no work of its own shortens (B7). @param {Turn} turn */
const waitsNow = (turn) => (turn.calls || []).some((call) => call.answer === "open" || (call.status === "started" && call.child));

/**
 * The wait for an answer, delegates or a worker is over; it does not count as work (B7). Where another of them is left,
 * the turn goes on waiting.
 * @param {Turn} turn @param {LogEvent} event @returns {Turn}
 */
function withoutWait(turn, event) {
  const at = Date.parse(event.at);
  return { ...turn, asked_ms: !turn.worker || waitsNow(turn) ? at : null, waited_ms: turn.waited_ms + Math.max(0, at - (turn.asked_ms ?? at)) };
}

/** A gate is answered or closed. @param {State} state @param {LogEvent} event @returns {State} */
function waited(state, event) {
  return changeTurn(state, event, (turn) => withoutWait(turn, event));
}

/** Whether an event is about that call of that turn. @param {LogEvent} event @param {{ call: string, turn: string }} each */
const names = (event, each) => each.turn === event.turn && each.call === event.data.call;

/** With its last delegate a turn's wait for them is over. @param {Turn} turn @param {LogEvent} event @returns {Turn} */
function withoutDelegates(turn, event) {
  const calls = turn.calls || [];
  const settled = calls.find((call) => call.call === event.data.call);
  const waits = calls.some((call) => call.status === "started" && call.child);
  return !settled?.child || waits ? turn : withoutWait(turn, event);
}

/** How long a turn has worked, without its waits (B7). @param {Turn} turn @param {number} now */
function activeMs(turn, now) {
  return Math.max(0, now - turn.at_ms - turn.waited_ms - (turn.asked_ms === null ? 0 : now - turn.asked_ms));
}

/** What a delegate's turn has used, its time too, and what survived it, is its parent's from now on (B7, E7). @param {State} state @param {Loop} loop @param {LogEvent} event @returns {State} */
function rolledUp(state, loop, event) {
  const parent = state.loops[loop.parent || ""];
  if (!parent?.turn || !loop.turn) return state;
  const { usage, cost = null } = event.data;
  const known = knownCost(event.data);
  let turn = parent.turn;
  if (Object.keys(usage).length || loop.turn.unpriced) {
    turn = { ...turn, usage: addUsage(turn.usage, usage), unpriced: turn.unpriced || cost === null };
  }
  if (known !== null) turn = { ...turn, cost: (turn.cost || 0) + known };
  const waited_ms = turn.waited_ms - activeMs(loop.turn, Date.parse(event.at));
  const unknown = turn.unknown || Boolean(event.data.processes?.unknown);
  return withLoop(state, { ...parent, turn: { ...turn, waited_ms, unknown, survivors: [...turn.survivors, ...loop.turn.survivors], steps_below: turn.steps_below + loop.turn.kept + loop.turn.steps_below } });
}

/** What is known of what a turn has cost, by its terminal; `cost` is null where the price of a call is not known. @param {any} data @returns {number | null} */
const knownCost = (data) => data.known_cost ?? data.cost ?? null;

/** The cause of a stop by the kind of its actor, where nothing else is said (E8). @type {Record<string, string>} */
const CAUSES = { person: "person", token: "token", agent: "token", admin: "admin", system: "closing" };

/** @param {State} state @param {LogEvent} event @returns {State} */
function turnEnded(state, event) {
  const { turn } = loopOf(state, event);
  const cutOff = turn ? (knownCost(event.data) ?? 0) - (turn.cost ?? 0) : 0;
  const paidFor = cutOff > 0 ? spend(state, event, cutOff) : state; // a model call that has no reply was paid for all the same
  const next = rolledUp(changeLoop(paidFor, event, { turn: null }), loopOf(state, event), event);
  const running = new Set(Object.values(next.loops).map((loop) => loop.turn?.id));
  const requests = Object.entries(next.requests).filter(([, request]) => request.turns.some((turn) => running.has(turn)));
  return pruned({ ...next, requests: Object.fromEntries(requests) });
}

/** Without the delegates that have closed, once their parent's turn is over. @param {State} state @returns {State} */
function pruned(state) {
  const stays = (/** @type {Loop} */ loop) => loop.parent === null || loop.status !== "closed" || state.loops[loop.parent]?.turn;
  return { ...state, loops: Object.fromEntries(Object.entries(state.loops).filter(([, loop]) => stays(loop))) };
}

/** @param {State} state @param {LogEvent} event @returns {State} */
function steerGone(state, event) {
  return changeLoop(state, event, { steers: without(loopOf(state, event).steers, event.data.steer) });
}

/** @type {Record<string, (state: State, event: LogEvent) => State>} */
const RULES = {
  SessionCreated: (state, { data }) => ({ ...state, settings: data.settings, titled: !data.untitled }),
  SessionChanged(state, { data }) {
    const settings = data.settings ? { ...state.settings, ...data.settings } : state.settings;
    return { ...state, settings, titled: state.titled || "title" in data, status: data.closing ? "closing" : state.status };
  },
  SessionClosed(state) {
    const loops = Object.entries(state.loops).map(([id, loop]) => [id, { ...loop, status: "closed" }]);
    return { ...state, status: "closed", loops: Object.fromEntries(loops), requests: {} };
  },
  LoopStarted(state, { loop, data, at }) {
    const made = {
      id: loop || "", agent: data.agent, model: data.model, mode: data.mode, parent: data.parent ?? null,
      status: "idle", turns: 0, epoch: 0, inbox: [], steers: [], turn: null, failed: [], limits: {}, background: [],
      answer: null,
    };
    const parent = state.loops[data.parent || ""];
    if (!parent?.turn) return withLoop(state, made);
    const calls = (parent.turn.calls || []).map((call) => (call.call === data.call ? { ...call, child: made.id } : call));
    const turn = { ...parent.turn, calls, asked_ms: parent.turn.asked_ms ?? Date.parse(at) }; // its delegates' work counts instead (B7)
    let next = withLoop(withLoop(state, { ...parent, turn }), { ...made, limits: turn.limits });
    for (let above = next.loops[parent.id]; above; above = next.loops[above.parent || ""]) {
      if (above.turn) next = withLoop(next, { ...above, turn: { ...above.turn, delegates: above.turn.delegates + 1 } });
    }
    return next;
  },
  LoopClosed(state, event) { // what runs on in its background is its parent's from now on (E13)
    const loop = loopOf(state, event);
    const parent = state.loops[loop.parent || ""];
    const next = parent ? withLoop(state, { ...parent, background: [...parent.background, ...loop.background] }) : state;
    return changeLoop(next, event, { status: "closed", background: [] });
  },
  LoopIdle: (state, event) => changeLoop(state, event, { status: "idle" }),
  InputQueued(state, event) {
    const { data, seq } = event;
    const entry = { id: data.input, agency: data.agency, delivery: data.delivery, author: authorOf(event), seq, text_seq: seq, held: false };
    const { inbox, failed } = loopOf(state, event);
    return noteThen(changeLoop(state, event, { inbox: inserted(inbox, data.position, entry), failed: without(failed, data.retries) }), event);
  },
  InputChanged(state, event) {
    const { inbox } = loopOf(state, event);
    const entry = inbox.find((waiting) => waiting.id === event.data.input);
    if (!entry) throw new Error(`event ${event.seq} changes an input that does not wait`);
    const changed = { ...entry, text_seq: event.seq };
    return noteThen(changeLoop(state, event, { inbox: inserted(without(inbox, entry.id), event.data.position, changed) }), event);
  },
  InputHeld: (state, event) => setHeld(state, event, true),
  InputReleased: (state, event) => setHeld(state, event, false),
  InputCancelled: (state, event) => changeLoop(state, event, { inbox: without(loopOf(state, event).inbox, event.data.input) }),
  SteerQueued(state, event) {
    const { data, seq } = event;
    const { steers } = loopOf(state, event);
    if (steers.some((steer) => steer.id === data.steer)) { // an edited steer keeps its place and its author
      return changeLoop(state, event, { steers: steers.map((steer) => (steer.id === data.steer ? { ...steer, text_seq: seq } : steer)) });
    }
    const steer = { id: data.steer, urgent: data.urgent, author: authorOf(event), seq, text_seq: seq, held: false, for_turn: data.for_turn ?? null };
    return changeLoop(state, event, { steers: [...steers, steer] });
  },
  SteerDelivered: steerGone,
  SteerWithdrawn: steerGone,
  TurnStarted(state, event) {
    const { data } = event;
    const opening = /** @type {Input} */ (loopOf(state, event).inbox.find((entry) => entry.id === data.input));
    const turn = {
      id: event.turn || "", index: data.index, opening, worker: data.worker, epoch: data.epoch, at_ms: Date.parse(event.at),
      step: 1, kept: 0, calls: null, step_usage: null, usage: {}, cost: null, mark: null, survivors: [], unknown: false, mode: loopOf(state, event).mode,
      model: loopOf(state, event).model, limits: loopOf(state, event).limits, unpriced: false, waited_ms: 0, asked_ms: null, planned: null, repeats: 0,
      delegates: 0, steps_below: 0, attempt: 1,
    };
    const inbox = without(loopOf(state, event).inbox, data.input);
    return changeLoop(state, event, { status: "running", turns: data.index, epoch: data.epoch, inbox, turn, answer: null });
  },
  TurnHandedOver: (state, event) => // nobody has it, and until somebody does it does not work (B7)
    changeTurn(event.data.usage ? paid(state, event) : state, event, (turn) => ({ ...turn, worker: "", asked_ms: turn.asked_ms ?? Date.parse(event.at), attempt: event.data.attempt ?? 1 })),
  TurnResumed(state, event) {
    const { worker, epoch } = event.data;
    return changeTurn(changeLoop(state, event, { epoch }), event, (turn) => {
      const resumed = { ...turn, worker, epoch };
      return waitsNow(turn) ? resumed : withoutWait(resumed, event);
    });
  },
  StepPlanned: (state, event) =>
    changeTurn(paid(state, event), event, (turn) => ({
      ...turn, planned: event.seq, repeats: event.data.repeats ?? 1,
      calls: event.data.calls.map((/** @type {any} */ { call, tool }) => ({ call, tool, status: "planned", gate: null, answer: null, seq: null, child: null, killer: null })),
      kept: turn.kept + 1, step_usage: event.data.usage,
    })),
  ToolStarted: (state, event) => setCall(state, event, { status: "started" }),
  ToolSettled(state, event) {
    const { call, processes } = event.data;
    let next = changeTurn(setCall(state, event, { status: "settled" }), event, (turn) => withoutDelegates(turn, event));
    if (processes.surviving.length) {
      next = changeTurn(next, event, (turn) => ({ ...turn, survivors: [...turn.survivors, { call, seq: event.seq, turn: event.turn || "" }] }));
    }
    if (!processes.background.length) return next;
    const { background, turn } = loopOf(next, event);
    const kept = { call, turn: event.turn || "", seq: event.seq, at_ms: Date.parse(event.at), worker: turn?.worker || "", killer: null };
    return changeLoop(next, event, { background: [...background, kept] });
  },
  KeepRevoked: (state, event) => setCall(state, event, { killer: killerOf(event) }), // whatever it will leave running is to end (E13)
  KillRequested(state, event) {
    const killer = killerOf(event);
    const { background } = loopOf(state, event);
    return changeLoop(state, event, { background: background.map((each) => (names(event, each) && !each.killer ? { ...each, killer } : each)) });
  },
  ProcessesEnded(state, event) { // what survived, or ran in the background, has ended: nothing waits for it any more (E7, E13)
    if (event.data.processes.surviving.length) return state;
    const loops = Object.entries(state.loops).map(([id, loop]) => {
      if (event.data.background) return [id, { ...loop, background: loop.background.filter((each) => !names(event, each)) }];
      const turn = loop.turn && { ...loop.turn, survivors: loop.turn.survivors.filter((each) => !names(event, each)) };
      return [id, { ...loop, turn }];
    });
    return pruned({ ...state, loops: Object.fromEntries(loops) });
  },
  StepDone(state, event) {
    const turn = loopOf(state, event).turn;
    if (turn?.calls) return nextStep(state, event, {}); // it was committed, counted and paid by its StepPlanned
    return nextStep(paid(changeLoop(state, event, { answer: event.seq }), event), event, { kept: (turn?.kept || 0) + 1 });
  },
  OutputSuperseded: (state, event) => nextStep(paid(state, event), event, {}),
  GateOpened: (state, event) => setCall(changeTurn(state, event, (turn) => ({ ...turn, asked_ms: turn.asked_ms ?? Date.parse(event.at) })), event, { gate: event.data.gate, answer: "open", seq: event.seq }),
  GateResolved(state, event) {
    const { decision, rule } = event.data;
    const next = waited(setCall(state, event, { answer: decision, seq: event.seq }), event);
    return rule ? { ...next, rules: [...next.rules, { id: rule.id, kind: rule.kind, tool: rule.tool, seq: event.seq }] } : next;
  },
  GateClosed: (state, event) => waited(setCall(state, event, { answer: "closed", seq: event.seq }), event),
  RuleRevoked: (state, { data }) => ({ ...state, rules: without(state.rules, data.rule) }),
  ModeChanged(state, event) {
    const { turn } = loopOf(state, event);
    const { mode } = event.data;
    return changeLoop(state, event, { mode, turn: turn && { ...turn, mode: stricter(turn.mode, mode) } });
  },
  LoopChanged(state, event) {
    const { model, limits } = loopOf(state, event);
    return changeLoop(state, event, { model: event.data.model ?? model, limits: { ...limits, ...event.data.limits } });
  },
  TurnDone: turnEnded,
  TurnFailed(state, event) {
    const { turn } = loopOf(state, event);
    const next = turnEnded(state, event);
    return turn && turn.kept === 0 ? changeLoop(next, event, { failed: [...loopOf(next, event).failed, turn.opening].slice(-FAILED_KEPT) }) : next;
  },
  TurnFoldedInto: (state, event) => changeLoop(state, event, { inbox: without(loopOf(state, event).inbox, event.data.input) }),
  TurnInterrupted: turnEnded,
  InterruptRequested(state, event) {
    const { data } = event;
    if (!data.turns.length) return state;
    const loops = Object.entries(state.loops).map(([id, loop]) =>
      loop.turn && data.turns.includes(loop.turn.id) ? [id, { ...loop, turn: { ...loop.turn, mark: data.request } }] : [id, loop],
    );
    const request = {
      id: data.request, seq: event.seq, at_ms: Date.parse(event.at), actor: event.actor, cause: event.cause || "", queue: data.queue,
      turns: data.turns, phases: data.phases, why: state.status === "closing" ? "closing" : (data.cause ?? CAUSES[event.actor.kind]), then: [],
      keep_background: data.keep_background ?? false,
    };
    return { ...state, loops: Object.fromEntries(loops), requests: { ...state.requests, [data.request]: request } };
  },
};
