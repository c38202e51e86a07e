"""The timeline as it is served: a fold of events into blocks that a template can show without any script."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sessions_app.engine.files import IMAGES
from sessions_app.engine.stops import Stops, of_turn
from sessions_app.pages.long import folded
from sessions_app.pages.stops import facts
from sessions_app.pages.terminal import plain_output
from sessions_app.pages.words import (
    ENDED_WITH,
    MODES,
    actor_name,
    answer_words,
    apart,
    asked_at,
    background_words,
    between_ms,
    call_in_full,
    call_line,
    duration,
    earlier_answer,
    failed_words,
    file_size,
    handed_over_words,
    hue,
    left_words,
    may_it,
    money,
    named,
    outcome,
    rule_words,
    sentence,
    stopped_by,
    survivors,
    text_of,
    why_it_asks,
    without_note,
)  # fmt: skip

Event = Mapping[str, Any]
Item = dict[str, Any]
OUTPUT_LINES: Final = 20
OUTPUT_CHARS: Final = 4000
_DOTS: Final = {"ok": "done", "interrupted": "stop", "lost": "stop", "denied": "none", "not_run": "none"}


class Timeline:
    """Blocks in order: turns with their items, and notes between them.

    `texts` are those of messages that wait, `rules` the standing answers of before, `people` names by id, `loops` those
    of the state. A delegate's blocks stand in the card of the call that made it (G1).
    """

    def __init__(
        self,
        texts: Mapping[str, Any],
        rules: Iterable[Mapping[str, Any]],
        people: Mapping[str, str],
        loops: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.people = dict(people)
        self.created_by: str | None = None
        self.rules: dict[str | None, Mapping[str, Any]] = {rule["id"]: rule for rule in rules}
        self.blocks: list[Item] = []
        self._turns: dict[str, Item] = {}
        self._texts: dict[str, Any] = dict(texts)
        self._files: dict[str, list[Mapping[str, Any]]] = {}
        self._retries: set[str] = set()
        self._authors: dict[str, Mapping[str, Any]] = {}
        self._calls: dict[tuple[Any, ...], Item] = {}
        self._main = next((key for key, loop in loops.items() if loop["parent"] is None), None)
        self._agents: dict[str, Item] = {}
        self._places = dict(_places(loops))
        self.left: dict[tuple[str, str], Item] = {}
        self.rules_of: dict[str, Item] = {}  # where turns ended by a stop say so
        self._stops = Stops()
        self.closed = False  # what ran in the background ends a moment later

    def apply(self, event: Event) -> None:
        """One event further."""
        if event["actor"]["kind"] == "person":
            self.people[event["actor"]["id"]] = event["actor"]["name"]
        if event["type"] == "LoopStarted" and event["data"].get("parent"):
            self._delegated(event)
        stop = self._stops.apply(event)
        rule = _RULES.get(event["type"])
        if rule is not None:
            rule(self, event)
        if stop is not None and stop.over:  # whoever is above ends last: its rule tells the whole
            last = stop.ends[-1]
            phase = last["data"]["phase"]
            self.rules_of[last["turn"]]["facts"] = facts(stop.numbers(), phase)

    def turn(self, event: Event) -> Item:
        """The turn an event belongs to; one whose beginning is not among the events begins with it."""
        return self._turn(event["turn"], event["loop"])

    def _turn(self, identity: str, loop: str | None) -> Item:
        if identity not in self._turns:
            turn: Item = {"kind": "turn", "id": identity, "items": [], "status": "running"}
            self._turns[identity] = turn
            self._blocks_of(loop).append(turn)
        return self._turns[identity]

    def give_reason(self, request: str, reason: str) -> None:
        """Why a stop was, as somebody said afterwards: it stands wherever that stop ended a turn."""
        for turn in self._turns.values():
            for item in turn["items"]:
                if item["kind"] == "stopped" and item["request"] == request:
                    item["reason"] = reason

    def known(self, identity: str) -> Item | None:
        """A turn, if it is among the events."""
        return self._turns.get(identity)

    def agent(self, loop: str | None) -> Item | None:
        """The delegate of that loop, at its place: `{blocks}`; None for the main agent's and the session's own."""
        self._main = self._main or loop
        if loop is None or loop == self._main:
            return None
        if loop not in self._agents:
            self._agents[loop] = {"blocks": []}
            place = self._places.get(loop)
            if place is not None:
                parent, turn, step, call = place
                self._turn(turn, parent)
                made = self.call({"turn": turn, "loop": parent, "step": step, "data": {"call": call}})
                made["child"] = self._agents[loop]
                made.update({"agent": True, "status": "working", "dot": "live", "is": "running"} | made)
        return self._agents[loop]

    def _delegated(self, event: Event) -> None:
        """The call that makes a delegate is its parent's newest of that id."""
        data = event["data"]
        turn = next((block for block in reversed(self._blocks_of(data["parent"])) if block["kind"] == "turn"), None)
        keys = (key for key in reversed(self._calls) if turn and key[0] == turn["id"] and key[2] == data["call"])
        key = next(keys, None)
        if key is not None:
            self._places[event["loop"]] = (data["parent"], *key)
            self.agent(event["loop"])

    def _blocks_of(self, loop: str | None) -> list[Item]:
        agent = self.agent(loop)
        return self.blocks if agent is None else agent["blocks"]

    def finish(self) -> list[Item]:
        """The blocks, after the last event."""
        for item in self._calls.values():
            if "child" in item:
                item["earlier"] = _earlier(item)
            turns = [block for block in item["child"]["blocks"] if block["kind"] == "turn"] if "child" in item else []
            if item.get("is") != "running" or "agent" not in item:
                continue
            if not turns or turns[-1]["status"] != "running" or turns[-1].get("waits"):
                item.update(status="waits for a worker", dot="none")
        return self.blocks

    def remember(self, identity: str, event: Event) -> None:
        """Keep a message's words and author until it lands."""
        self._texts[identity] = event["data"].get("text")
        if event["data"].get("files"):
            self._files[identity] = event["data"]["files"]
        self._authors.setdefault(identity, event["data"].get("author") or event["actor"])
        if event["data"].get("retries"):
            self._retries.add(identity)

    def said(self, event: Event, identity: str, **values: Any) -> Item:
        """A message where it landed."""
        if identity in self._retries:
            values.setdefault("where", "tried again")
        author = self._authors.get(identity)
        above = self._above(author)
        item = {
            "kind": "said", "by": above or actor_name(author), "hue": hue(author["id"]) if author and not above else "",
            **folded(text_of(self._texts.get(identity)) or "…"), "files": self._listed(identity), **values,
        }  # fmt: skip
        self.turn(event)["items"].append(item)
        return item

    def _listed(self, identity: str) -> list[Item]:
        """The files that came with a message; a name that was erased is none."""
        return [
            {
                **each,
                "name": each["name"] if isinstance(each["name"], str) else "",
                "image": each["type"] in IMAGES,
                "words": file_size(each["size"]),
            }
            for each in self._files.get(identity, ())
        ]

    def _above(self, author: Mapping[str, Any] | None) -> str:
        """The agent that gave a delegate its task, as people call it; nothing for everybody else."""
        if author is None or author["kind"] != "agent":
            return ""
        return "Main agent" if author["id"] == self._main else "Sub-agent" if author["id"] in self._agents else ""

    def reply(self, event: Event, **values: Any) -> None:
        """A reply's reasoning and words."""
        for kind in ("reasoning", "text"):
            words = text_of(event["data"].get(kind))
            if words:
                self.turn(event)["items"].append({"kind": kind, **folded(words), **values})

    def calls(self, event: Event, status: str, is_: str) -> None:
        """The calls a reply asked for."""
        for call in event["data"].get("calls") or ():
            line = call_line(call["tool"], call["arguments"])
            item: Item = {"kind": "tool", "line": line.split("\n")[0], "status": status, "is": is_, "dot": "none"}
            item |= {"agent": True} if call["tool"] == "delegate" else {}
            item["whole"], item["full"] = line, call_in_full(call["tool"], call["arguments"])
            self._calls[_key(event, call["call"])] = item
            self.turn(event)["items"].append(item)

    def call(self, event: Event) -> Item:
        """One of them; a call whose plan is not among the events is made up from what is known."""
        data = event["data"]
        key = _key(event, data["call"])
        if key not in self._calls:
            item: Item = {"kind": "tool", "line": call_line(data.get("tool") or "tool", data.get("arguments"))}
            item |= {"agent": True} if data.get("tool") == "delegate" else {}
            self._calls[key] = item
            self.turn(event)["items"].append(item)
        return self._calls[key]

    def names(self, identities: Iterable[str]) -> str:
        return " and ".join(sorted({named(self._authors.get(identity)) for identity in identities}))

    def note(self, event: Event, words: str, **values: Any) -> None:
        """A line where it happened: in the turn that runs, or between turns."""
        item = {"kind": "note", "words": sentence(words), "at": event["at"], **values}
        blocks = self._blocks_of(event["loop"])
        last = next((block for block in reversed(blocks) if block["kind"] == "turn"), None)
        (last["items"] if last is not None and last["status"] == "running" else blocks).append(item)

    def end(self, event: Event, status: str) -> Item:
        """The turn's last word."""
        turn, data = self.turn(event), event["data"]
        turn |= {"status": status, "cost": money(data.get("cost"))}
        if "at" in turn:
            turn["length"] = duration(data.get("duration_ms") or between_ms(turn["at"], event["at"]))
        cut = data.get("cut_off") or {}
        for kind in ("reasoning", "text"):
            if text_of(cut.get(kind)):
                turn["items"].append({"kind": kind, **folded(text_of(cut[kind])), "cut": True})
        return turn


def _earlier(item: Item) -> list[Item]:
    """A delegate's answers that the agent above does not get: its last one counts (G3)."""
    done = (block for block in item["child"]["blocks"] if block["kind"] == "turn" and block["status"] == "done")
    texts = ([each for each in turn["items"] if each["kind"] == "text" and not each.get("cut")] for turn in done)
    answers = [each[-1] for each in texts if each]
    settled = item.get("outcome", {}).get("outcome")
    return [{**each, "became": earlier_answer(settled)} for each in (answers[:-1] if settled == "ok" else answers)]


def _places(loops: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, tuple[str, str, int, str]]]:
    """Where the delegates at work stand: their parent's loop, turn, step and call."""
    for loop in loops.values():
        for call in (loop["turn"] or {}).get("calls") or ():
            if call["child"] is not None:
                yield call["child"], (loop["id"], loop["turn"]["id"], loop["turn"]["step"], call["call"])


def _key(event: Event, call: str) -> tuple[Any, ...]:
    """What names a call: a model may use its id again in a later step."""
    return event["turn"], event["step"], call


def _queued(timeline: Timeline, event: Event) -> None:
    timeline.remember(event["data"].get("input") or event["data"]["steer"], event)


def _turn_started(timeline: Timeline, event: Event) -> None:
    turn = timeline.turn(event)
    item = timeline.said(event, event["data"]["input"])
    turn |= {"index": event["data"]["index"], "at": event["at"], "by": item["by"], "hue": item["hue"]}


def _folded_into(timeline: Timeline, event: Event) -> None:
    timeline.said(event, event["data"]["input"], where="joined this turn")


def _steer_delivered(timeline: Timeline, event: Event) -> None:
    timeline.said(event, event["data"]["steer"], steer=True, where="landed here")


def _step_planned(timeline: Timeline, event: Event) -> None:
    timeline.reply(event)
    timeline.calls(event, "not started", "planned")


def _gate_opened(timeline: Timeline, event: Event) -> None:
    data, item = event["data"], timeline.call(event)
    full = item.get("full")
    ask = {
        "gate": data["gate"], "at": event["at"], "question": may_it(data["tool"]), "why": why_it_asks(data["question"]),
        "line": item["line"] if full else "", "full": folded(str(full or item.get("whole") or item["line"])),
        "offers": [_offer(offer) for offer in data["offers"]],
    }  # fmt: skip
    item.update(status="asks", dot="wait", ask=ask, **{"is": "asked"})


def _offer(offer: Mapping[str, Any]) -> Item:
    words, code = rule_words(offer)
    if offer["kind"] == "command":
        words, code = "exactly this command", ""
    return {**offer, "words": words, "code": code}


def _gate_ended(timeline: Timeline, event: Event) -> None:
    answer = sentence(answer_words(event))
    timeline.call(event).update(status="not started", dot="none", ask=None, answer=answer, **{"is": "planned"})
    rule = event["data"].get("rule")
    if rule:
        timeline.rules[rule["id"]] = {**rule, "by": event["actor"]}


def _tool_started(timeline: Timeline, event: Event) -> None:
    item = timeline.call(event)
    item.update(status="working" if item.get("agent") else "running", dot="live", **{"is": "running"})
    item["at"] = event["at"]
    rule = timeline.rules.get(event["data"].get("rule"))
    if rule is not None:
        words, code = rule_words(rule)
        item["answer"] = sentence(f"Allowed by a rule of {named(rule['by'])}: {words} {apart(code)}")


def _tool_settled(timeline: Timeline, event: Event) -> None:
    data = event["data"]
    is_ = "cut" if data["outcome"] == "not_run" else "settled"
    item = timeline.call(event)
    said_above = data["outcome"] == "denied" and item.get("answer")
    text = "" if said_above else text_of(data.get("output"))
    text = without_note(text) if data["processes"]["background"] else text
    lines = plain_output(text).rstrip("\n").split("\n")
    output = "\n".join(lines[-OUTPUT_LINES:])[-OUTPUT_CHARS:]
    dot = _DOTS.get(data["outcome"], "")
    left = survivors(data.get("processes"))
    item["outcome"] = data
    item.update(
        status=outcome(data), dot=dot, output=output, left=sentence(f"Outlived its kill: {left}") if left else "",
        **{"is": is_},
    )  # fmt: skip
    if item.get("agent"):
        _agent_settled(item, event)
    if data["processes"]["background"]:
        timeline.left[event["turn"], data["call"]] = item


def _agent_settled(item: Item, event: Event) -> None:
    """How a delegate ended, as its card says it."""
    outcome_, end = event["data"]["outcome"], (item.get("child") or {}).get("end")
    took = f", {duration(between_ms(item['at'], event['at']))}" if "at" in item else ""
    if outcome_ in ("ok", "error"):
        item["status"] = {"ok": "done", "error": "failed"}[outcome_] + took
    if outcome_ == "interrupted":
        item["output"] = ""  # for the agent above; people read who stopped it
    if outcome_ == "interrupted" and end is not None:
        cause, how = end["data"]["cause"], "stopped with the agent above it"
        if cause in ("person", "token", "admin"):
            how = f"stopped by {named(end['actor'])}"
        item["status"] = sentence(how if cause == "parent" else ENDED_WITH.get(cause, how))
    elif outcome_ == "interrupted":
        item["status"] = "stopped before it began"


def _step_done(timeline: Timeline, event: Event) -> None:
    timeline.reply(event)


def _superseded(timeline: Timeline, event: Event) -> None:
    names = timeline.names(event["data"]["steers"])
    timeline.reply(event, cut=True, replaced=sentence(names))
    timeline.calls(event, sentence(f"withdrawn by the message of {names}"), "cut")


def _interrupted(timeline: Timeline, event: Event) -> None:
    turn, data = timeline.end(event, "stopped"), event["data"]
    agent = timeline.agent(event["loop"])
    if agent is not None:
        agent["end"] = event
    for item in turn["items"]:  # what ended a call is known only now
        if item.get("outcome", {}).get("outcome") == "interrupted" and not item.get("agent"):
            item["status"] = outcome(item["outcome"], data["cause"])
    actor = event["actor"] if data.get("request") else None
    said: Item = {
        "kind": "stopped", "head": sentence(stopped_by(data, actor)),
        "at": asked_at(event["at"], data),
        "turn": event["turn"], "seq": event["seq"], "request": data.get("request"),
        "reason": text_of(data.get("reason")),
        "facts": facts(of_turn(data), data["phase"], data.get("grace_ms")),
    }  # fmt: skip
    turn["items"].append(said)
    timeline.rules_of[event["turn"]] = said
    _left(timeline, event)


def _reason_given(timeline: Timeline, event: Event) -> None:
    timeline.give_reason(event["data"]["request"], text_of(event["data"]["reason"]))


def _left(timeline: Timeline, event: Event) -> None:
    """What a turn left running, however it ended."""
    words = left_words(event["data"])
    if words:
        timeline.turn(event)["items"].append({"kind": "note", "words": sentence(words), "bad": True})


def _failed(timeline: Timeline, event: Event) -> None:
    turn, error = timeline.end(event, "failed"), event["data"]["error"]
    detail = text_of(error.get("detail")) or error["code"]
    turn["items"].append({"kind": "failed", "head": failed_words(error), "at": event["at"], "text": detail})
    _left(timeline, event)


def _done(timeline: Timeline, event: Event) -> None:
    timeline.end(event, "done")
    _left(timeline, event)


def _handed_over(timeline: Timeline, event: Event) -> None:
    timeline.turn(event)["waits"] = True
    timeline.note(event, handed_over_words(event["data"]))


def _resumed(timeline: Timeline, event: Event) -> None:
    timeline.turn(event)["waits"] = False
    timeline.note(event, "Goes on with another worker")


def _processes_ended(timeline: Timeline, event: Event) -> None:
    data = event["data"]
    item = timeline.left.get((event["turn"], data["call"]))
    surviving = data["processes"]["surviving"]
    if item is not None and not surviving:
        item["status"] = sentence(outcome(item["outcome"], gone=event["actor"]))
    turn = timeline.known(event["turn"])
    if turn is None or item is not None or surviving or event["actor"]["kind"] != "system":
        left = () if item is None else item["outcome"]["processes"]["background"]
        command = "" if item is None else str(item.get("whole") or "")
        words = background_words(event, command, left, closed=timeline.closed)
        timeline.note({**event, "loop": None}, words, bad=bool(surviving))
        return
    turn["items"].append({"kind": "note", "words": "Processes that had outlived their kill have ended."})


def _created(timeline: Timeline, event: Event) -> None:
    timeline.created_by = event["cause"]


def _member_changed(timeline: Timeline, event: Event) -> None:
    if event["cause"] is not None and event["cause"] == timeline.created_by:
        return  # whoever creates a session owns it: no news
    by, person, role = event["actor"], event["data"].get("person"), event["data"].get("role")
    if not person:
        words = "changed who takes part"
    elif person == by["id"]:
        words = f"is an {role} now" if role else "left this session"
    else:
        whom = apart(timeline.people[person]) if person in timeline.people else "somebody"
        words = f"made {whom} an {role}" if role else f"removed {whom}"
    timeline.note(event, f"{named(by)} {words}")


def _mode_changed(timeline: Timeline, event: Event) -> None:
    mode = event["data"]["mode"]
    timeline.note(event, f"{named(event['actor'])} changed the mode: the agent {MODES.get(mode, mode)}")


def _loop_changed(timeline: Timeline, event: Event) -> None:
    timeline.note(event, f"{named(event['actor'])} changed the agent\u2019s settings")


def _released(timeline: Timeline, event: Event) -> None:
    n = len(event["data"]["inputs"]) + len(event["data"]["steers"])
    what = "a paused message" if n == 1 else f"{n} paused messages"
    timeline.note(event, f"{named(event['actor'])} let {what} go on")


def _rule_revoked(timeline: Timeline, event: Event) -> None:
    rule = timeline.rules.get(event["data"]["rule"])
    words, code = rule_words(rule) if rule else ("", "")
    which = f": {words} {apart(code)}" if code else ""
    timeline.note(event, f"{named(event['actor'])} took back what was always allowed{which}")


def _closed(timeline: Timeline, event: Event) -> None:
    timeline.closed = True
    timeline.note(event, "This session is closed. Its record stays.")


_RULES: Final[dict[str, Callable[[Timeline, Event], None]]] = {
    "InputQueued": _queued,
    "InputChanged": _queued,
    "SteerQueued": _queued,
    "TurnStarted": _turn_started,
    "TurnFoldedInto": _folded_into,
    "SteerDelivered": _steer_delivered,
    "StepPlanned": _step_planned,
    "GateOpened": _gate_opened,
    "GateResolved": _gate_ended,
    "GateClosed": _gate_ended,
    "ToolStarted": _tool_started,
    "ToolSettled": _tool_settled,
    "StepDone": _step_done,
    "OutputSuperseded": _superseded,
    "TurnInterrupted": _interrupted,
    "InterruptReasonGiven": _reason_given,
    "TurnFailed": _failed,
    "TurnDone": _done,
    "ProcessesEnded": _processes_ended,
    "TurnHandedOver": _handed_over,
    "TurnResumed": _resumed,
    "SessionCreated": _created,
    "MemberChanged": _member_changed,
    "ModeChanged": _mode_changed,
    "LoopChanged": _loop_changed,
    "InputReleased": _released,
    "RuleRevoked": _rule_revoked,
    "SessionClosed": _closed,
}


def fold(
    events: Iterable[Event],
    texts: Mapping[str, Any],
    rules: Iterable[Mapping[str, Any]] = (),
    people: Mapping[str, str] | None = None,
    loops: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Item]:
    """The blocks of a page of events in order."""
    timeline = Timeline(texts, rules, people or {}, loops or {})
    for event in events:
        timeline.apply(event)
    return timeline.finish()
