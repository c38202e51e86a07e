/** What each event type adds to the timeline; `view.js` calls these, one per type. */
import { actorName, apart, backgroundWords, fromDevice, handedOverWords, leftWords, modeWords, ruleSentence, thing, withdrawnWords } from "../words.js";
import { isOver, numbersOf, ofTurn } from "./stops.js";

/** @typedef {import("./view.js").View} View @typedef {import("./view.js").TurnView} TurnView @typedef {import("./state.js").LogEvent} LogEvent */

/** @typedef {(view: View, event: LogEvent, turn: TurnView) => void} Rule `turn` is there for events that belong to one */

/** @param {View} view @param {LogEvent} event @param {TurnView} turn @param {string} id @param {Record<string, any>} values */
function said(view, event, turn, id, values) {
  const by = view.sender(id);
  view.take(id, turn);
  view.put(turn, `s:${id}`, "said", { id, by, text: view.texts.get(id), files: view.files.get(id), at: event.at, seq: event.seq, ...(view.retries.has(id) && { where: "tried again" }), ...values });
  return by;
}

/** A reply's words, in their final form. @param {View} view @param {LogEvent} event @param {TurnView} turn @param {Record<string, any>} [values] */
function reply(view, event, turn, values = {}) {
  const { data, step } = event;
  for (const [name, key, kind] of [["reasoning", `r:${step}`, "reasoning"], ["text", `t:${step}`, "text"]]) {
    const known = turn.keys.get(key);
    if (data[name] || known?.live) view.put(turn, key, kind, { live: false, text: data[name] ?? "", step, ...values });
  }
}

/** A model may use a call's id again in a later step: only the two together name a call. @param {number | null | undefined} step @param {string | null | undefined} call */
export const callKey = (step, call) => `c:${step}:${call}`;

/** @param {TurnView} turn @param {LogEvent} event @param {string} is @param {string} [tool] */
function phase(turn, event, is, tool) {
  turn.phase = { is, at: Date.parse(event.at), tool };
}

/** Where a steer landed, in words. @param {TurnView} turn @returns {string} */
function landed(turn) {
  const last = turn.items.findLast((item) => item.kind !== "note");
  if (last?.kind === "tool" && last.state === "withdrawn") return `landed here, in place of ${last.more ? "these calls" : `this ${thing(last.tool)}`}`;
  if (last?.kind === "tool") return last.outcome?.outcome === "not_run" ? "landed here, what had not started was skipped" : `landed after this ${thing(last.tool)}`;
  if (last?.replacedBy) return "landed here";
  return turn.items.some((item) => item.kind === "text" || item.kind === "tool") ? "landed here" : "landed with this turn";
}

/** @param {View} view @param {LogEvent} event @param {TurnView} turn @param {string} status */
function ended(view, event, turn, status) {
  turn.end = event;
  turn.endedAt = event.at;
  turn.status = status;
  turn.phase = null;
  turn.cost = event.data.cost ?? turn.cost;
  const agent = view.agents.get(turn.loop || "");
  if (agent) agent.end = event;
  for (const item of turn.items) if (item.live) view.put(turn, item.key, item.kind, { live: false });
}

/** What a turn left running, however it ended. @param {View} view @param {LogEvent} event @param {TurnView} turn */
function left(view, event, turn) {
  if (leftWords(event.data)) view.put(turn, "left", "left", { data: event.data });
}

/** What a stop or failure cut off, struck through but readable. @param {View} view @param {LogEvent} event @param {TurnView} turn */
function cutOff(view, event, turn) {
  for (const [name, kind, prefix] of [["reasoning", "reasoning", "r"], ["text", "text", "t"]]) {
    const open = turn.items.find((item) => item.kind === kind && item.live);
    const text = event.data.cut_off?.[name];
    if (!text && !open) continue;
    view.put(turn, open?.key || `${prefix}:cut`, kind, { live: false, text: text || open?.said || "", cut: "stopped" });
  }
}

/**
 * A reply that a worker left unfinished is asked for again (J4): what had been shown of it stays, struck through, since
 * the log does not have it. @param {View} view @param {LogEvent} event @param {TurnView} turn
 */
function dropped(view, event, turn) {
  for (const item of turn.items.filter((each) => each.live && each.kind !== "tool")) {
    turn.keys.delete(item.key);
    if (!item.said) turn.items.splice(turn.items.indexOf(item), 1);
    else {
      item.key = `${item.key}:${event.seq}`;
      turn.keys.set(item.key, item);
      view.put(turn, item.key, item.kind, { live: false, text: item.said, cut: "dropped", dropped: `n:${event.seq}` });
    }
  }
}

/** The stop that a command made. @param {View} view @param {LogEvent} event */
const stopOf = (view, event) => [...view.stops.values()].find((stop) => stop.event.cause === event.cause && stop.event.actor.id === event.actor.id);

/** The rule of whoever is above all others that a stop ended tells the whole. @param {View} view @param {import("./view.js").StopView | undefined} stop */
function tellWhole(view, stop) {
  const last = stop && isOver(stop) ? stop.ends[stop.ends.length - 1] : null;
  const turn = last && view.turns.get(last.turn || "");
  if (!stop || !turn) return;
  view.put(turn, "end", "stopped", { numbers: numbersOf(stop) });
  view.touch(turn);
}

/** How an approval ended. @param {View} view @param {LogEvent} event @param {TurnView} turn @param {Record<string, any>} end */
function answered(view, event, turn, end) {
  const { call } = event.data;
  const key = callKey(event.step, call);
  const approval = { ...turn.keys.get(key)?.approval, by: event.actor, ...end };
  view.put(turn, key, "tool", { call, state: "planned", approval });
  phase(turn, event, "next");
}

/** Words given back, kept readable. @param {View} view @param {LogEvent} event @param {string} id */
function givenBack(view, event, id) {
  if (event.data.text !== undefined) view.texts.set(id, event.data.text);
  const { reason, text } = event.data;
  if (["promoted", "as_input"].includes(reason)) return;
  view.take(id);
  if (event.data.files) view.files.set(id, event.data.files);
  const given = { id, reason, text: text ?? view.texts.get(id), files: view.files.get(id), loop: event.loop === view.main ? "" : event.loop };
  const values = returnedWords(view, given);
  view.note(event, { given, ...values }, values.back === undefined ? event.loop : null); // one's own words are never folded away
}

/**
 * Words that came back, for a note. To their author it gives them whole, since they may stand nowhere else: the page that
 * took them back may be gone, or its box may be full. What somebody took back is nobody else's news.
 * @param {View} view @param {{ id: string, reason: string, text: unknown, loop: string | null }} given
 * @returns {{ words: string, hidden: boolean, back?: unknown, quote?: unknown }}
 */
export function returnedWords(view, { id, reason, text, loop }) {
  const author = view.authors.get(id);
  const mine = author !== undefined && author.id === view.you;
  const words = `${actorName(author)}’s message was ${withdrawnWords(reason, view.agents.get(loop || "")?.end?.type === "TurnInterrupted")}: `;
  return { words, hidden: !mine && ["client_retracted", "sender", "owner"].includes(reason), ...(mine ? { back: text } : { quote: text }) };
}

/** Who made whom what, as far as it is known: observers are not told. @param {View} view @param {{ by: import("./state.js").Actor, person?: string, role?: string | null }} member */
export function memberWords(view, { by, person, role }) {
  if (!person) return `${actorName(by)} changed who takes part`;
  if (person === by.id) return role ? `${actorName(by)} is an ${role} now` : `${actorName(by)} left this session`;
  const name = view.people.get(person);
  const whom = name === undefined ? "somebody" : apart(name);
  return `${actorName(by)} ${role ? `made ${whom} an ${role}` : `removed ${whom}`}`;
}

/** How what ran in the background ended, by what its agent wrote, as soon as that is known. @param {View} view @param {{ of: string, data: any, by: import("./state.js").Actor, closed: boolean }} gone */
export function goneWords(view, { of, data, by, closed }) {
  const left = view.background.get(of);
  const command = left?.command || "";
  return { words: backgroundWords(data, by, { command, left: left?.processes, closed }), title: command };
}

/** @type {Record<string, Rule>} */
export const RULES = {
  SessionChanged(view, event) {
    const made = event.cause !== null && event.cause === view.queuedBy; // by the server, from the first message
    if (event.data.title && !made) view.note(event, { words: `${actorName(event.actor)} named this session `, quote: event.data.title });
    if (event.data.closing) view.note(event, { words: `${actorName(event.actor)} closes this session` });
  },
  SessionClosed(view, event) {
    view.closed = true;
    view.note(event, { words: "This session is closed. Its record stays." });
  },
  SessionCreated: (view, event) => void (view.createdBy = event.cause),
  MemberChanged(view, event) {
    const first = event.cause !== null && event.cause === view.createdBy; // whoever creates a session owns it: no news
    if (first) return;
    const member = { by: event.actor, ...event.data };
    view.note(event, { member, words: memberWords(view, member) });
  },
  ContentErased: (view, event) => view.note(event, { words: `${actorName(event.actor)} erased the words of an earlier entry` }),
  ModeChanged: (view, event) => view.note(event, { words: `${actorName(event.actor)} changed the mode: the agent ${modeWords(event.data.mode)}` }),
  LoopChanged: (view, event) => view.note(event, { words: `${actorName(event.actor)} changed the agent’s settings` }),
  InputQueued(view, event) {
    view.remember(event.data.input, event);
    view.queuedBy = event.cause;
  },
  InputChanged: (view, event) => view.remember(event.data.input, event),
  InputCancelled: (view, event) => givenBack(view, event, event.data.input),
  SteerQueued: (view, event) => view.remember(event.data.steer, event),
  SteerWithdrawn: (view, event) => givenBack(view, event, event.data.steer),
  InputReleased(view, event) {
    const n = event.data.inputs.length + event.data.steers.length;
    view.note(event, { words: `${actorName(event.actor)} let ${n === 1 ? "a paused message" : `${n} paused messages`} go on` });
  },
  TurnStarted(view, event, turn) {
    Object.assign(turn, { index: event.data.index, input: event.data.input, at: event.at, headless: false });
    turn.by = said(view, event, turn, event.data.input, { opening: true });
    phase(turn, event, "model");
  },
  TurnResumed(view, event, turn) {
    turn.leaving = null;
    view.put(turn, `n:${event.seq}`, "note", { at: event.at, words: "Goes on with another worker" });
    phase(turn, event, turn.items.some((item) => item.state === "asked") ? "gate" : "model");
  },
  TurnHandedOver(view, event, turn) {
    dropped(view, event, turn);
    turn.leaving = null;
    view.put(turn, `n:${event.seq}`, "note", { at: event.at, words: handedOverWords(event.data) });
    phase(turn, event, "waiting");
  },
  TurnFoldedInto: (view, event, turn) => void said(view, event, turn, event.data.input, { where: "joined this turn" }),
  SteerDelivered: (view, event, turn) => void said(view, event, turn, event.data.steer, { steer: true, where: landed(turn) }),
  StepPlanned(view, event, turn) {
    reply(view, event, turn);
    turn.finished.add(event.step);
    for (const { call, tool, arguments: args } of event.data.calls) view.put(turn, callKey(event.step, call), "tool", { call, tool, args, state: "planned" });
    phase(turn, event, "next");
  },
  GateOpened(view, event, turn) {
    const { gate, call, tool, question, offers } = event.data;
    view.put(turn, callKey(event.step, call), "tool", { call, tool, state: "asked", approval: { gate, question, offers, at: event.at } });
    phase(turn, event, "gate", tool);
  },
  GateResolved(view, event, turn) {
    const { decision, rule, message } = event.data;
    if (rule) view.rules.set(rule.id, { ...rule, by: event.actor, at: event.at });
    answered(view, event, turn, { decision, rule, message });
  },
  GateClosed: (view, event, turn) => answered(view, event, turn, { closed: event.data.reason }),
  RuleRevoked(view, event) {
    const rule = view.rules.get(event.data.rule);
    view.note(event, { words: `${actorName(event.actor)} took back what was always allowed${rule ? `: ${ruleSentence(rule)}` : ""}` });
  },
  ToolStarted(view, event, turn) {
    const { call, tool, arguments: args, rule } = event.data;
    view.put(turn, callKey(event.step, call), "tool", { call, tool, args, state: "running", live: true, said: "", points: 0, startedAt: event.at, rule });
    phase(turn, event, "tool", tool);
  },
  ToolSettled(view, event, turn) {
    const { call, tool, output } = event.data;
    view.put(turn, callKey(event.step, call), "tool", { call, ...(tool && { tool }), state: "settled", live: false, text: output, outcome: event.data, endedAt: event.at, gone: view.gone.get(`${event.turn} ${call}`) });
    view.left(event);
    phase(turn, event, "next");
  },
  StepDone(view, event, turn) {
    if (!turn.finished.has(event.step)) reply(view, event, turn);
    turn.finished.add(event.step);
    phase(turn, event, "model");
  },
  OutputSuperseded(view, event, turn) {
    const names = [...new Set(event.data.steers.map((/** @type {string} */ id) => actorName(view.authors.get(id))))].join(" and ");
    reply(view, event, turn, { cut: "replaced", replacedBy: names });
    turn.finished.add(event.step);
    for (const { call, tool, arguments: args } of event.data.calls || []) {
      view.put(turn, callKey(event.step, call), "tool", { call, tool, args, state: "withdrawn", replacedBy: names, more: event.data.calls.length > 1 });
    }
    phase(turn, event, "model");
  },
  InterruptRequested(view, event) {
    view.stops.set(event.data.request, { event, acknowledged: new Map(), ends: [], kills: new Map() });
    view.fileWith(event, event.data.turns.at(-1)); // whoever is above all others
    for (const id of event.data.turns) {
      const marked = view.turns.get(id);
      if (marked && !marked.end) {
        marked.status = "stopping";
        for (const item of marked.items) if (item.state === "running" || item.state === "asked") view.put(marked, item.key, item.kind, { ending: true });
        view.touch(marked);
      }
    }
    if (event.data.turns.length) return;
    const what = event.data.scope === "session" || event.data.scope === view.main ? "pressed Stop" : `stopped ${view.nameOf(event.data.scope)}`;
    view.note(event, { words: `${actorName(event.actor)} ${what}${fromDevice(event.actor)} before anything had started` });
  },
  TurnInterrupted(view, event, turn) {
    cutOff(view, event, turn);
    ended(view, event, turn, "stopped");
    for (const item of turn.items) if (item.outcome?.outcome === "interrupted") view.put(turn, item.key, item.kind, { outcome: { ...item.outcome, cause: event.data.cause } });
    const stop = view.stops.get(event.data.request);
    stop?.ends.push(event);
    view.put(turn, "end", "stopped", { event, actor: event.data.request ? event.actor : null, numbers: ofTurn(event.data), phase: event.data.phase });
    tellWhole(view, stop);
    left(view, event, turn);
  },
  TurnFailed(view, event, turn) {
    cutOff(view, event, turn);
    ended(view, event, turn, "failed");
    view.put(turn, "end", "failed", { event, retry: turn.input !== null && view.offered.has(turn.input) ? turn.input : undefined });
    left(view, event, turn);
  },
  TurnDone(view, event, turn) {
    ended(view, event, turn, "done");
    left(view, event, turn);
  },
  InterruptReasonGiven(view, event, turn) {
    const { reason, request } = event.data;
    const stopped = turn || view.turns.get(event.data.turn);
    // It is why the stop was, which may have ended sub-agents as well.
    const hits = new Set([stopped, ...[...view.turns.values()].filter((each) => request && each.end?.data.request === request)]);
    for (const hit of hits) {
      if (!hit?.end) continue;
      hit.reason = reason;
      view.put(hit, "end", "stopped", { later: { by: event.actor, reason } });
      view.touch(hit);
    }
  },
  KillRequested(view, event) {
    const stop = stopOf(view, event);
    const of = `${event.turn} ${event.data.call}`;
    if (!stop || stop.kills.has(of)) return;
    stop.kills.set(of, { asked: event, left: view.background.get(of)?.processes || [], ended: null });
    view.fileWith(event, stop.event.data.turns.at(-1));
  },
  ProcessesEnded(view, event, turn) {
    const { call, processes } = event.data;
    const left = view.background.get(`${event.turn} ${call}`);
    const stop = [...view.stops.values()].find((each) => each.kills.has(`${event.turn} ${call}`));
    const kill = stop?.kills.get(`${event.turn} ${call}`);
    if (kill) kill.ended = event;
    tellWhole(view, stop);
    if (left) left.surviving = processes.surviving;
    if (!event.data.background && event.turn) view.outlived.set(event.seq, { turn: event.turn, count: processes.ended.length });
    if (event.data.background && !processes.surviving.length) {
      view.gone.set(`${event.turn} ${call}`, event.actor);
      const settled = left && turn?.keys.get(callKey(left.step, call));
      if (turn && settled) view.put(turn, settled.key, "tool", { gone: event.actor });
    }
    if (!turn || left || processes.surviving.length || event.actor.kind !== "system") {
      const gone = { of: `${event.turn} ${call}`, data: event.data, by: event.actor, closed: view.closed };
      view.note(event, { gone, ...goneWords(view, gone), bad: processes.surviving.length > 0 }, null);
    } else {
      view.put(turn, `n:${event.seq}`, "note", { words: "Processes that had outlived their kill have ended." });
      view.file(event, turn);
    }
  },
};
