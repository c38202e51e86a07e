"""A session's frames as readable text: what streams is written as it comes, and each text only once.

One agent writes at a time, under its name: what another one streams meanwhile waits until something happens, or the
one that writes is silent, or has been waited for long enough.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sessions_app.cli.agents import MAIN, NAME, Agents
from sessions_app.cli.terminal import clean, one_line
from sessions_app.cli.words import plural, rule_words, seconds
from sessions_app.engine.stops import Numbers, Stop, Stops, of_turn
from sessions_app.pages.stops import unproven
from sessions_app.pages.words import (
    MODES,
    background_words,
    counted,
    handed_over_words,
    plain,
    process_names,
    start_of,
    stopped_by,
    took_ms,
)  # fmt: skip

Write = Callable[[str], None]
Frame = Mapping[str, Any]
Key = tuple[str, int, str, str]
"""One stream: turn, step, kind and, for a tool's output, call."""

SILENT_S: Final = 1.0
"""Whoever has said nothing for so long lets the others write: a command may run for hours without an event."""
_PATIENCE_S: Final = 10.0
"""And after so long also one that never pauses does."""

_PLAIN: Final = ""
_DIM: Final = "2"
_RED: Final = "31"
_BOLD: Final = "1"
_AMBER: Final = "33"
_CLOSED: Final = {"stop": "stopped", "steer": "an urgent message came first", "mode": "the mode changed"}
_GONE: Final = {
    "client_retracted": "taken back",
    "promoted": "sent at the next step instead",
    "cleared": "given back by a stop",
    "turn_interrupted": "dropped with the stopped turn",
    "turn_failed": "dropped with the failed turn",
}


def words_of(value: Any) -> str:
    """The words of a text field: a text, a text that was erased, or one kept elsewhere because of its size."""
    if isinstance(value, Mapping):
        if value.get("erased"):
            return "[erased]"
        if "ref" in value:
            return f"[{value.get('size', 0):,} bytes, not fetched]"
    return "" if value is None else str(value)


class Printer:
    """Writes frames to a terminal. Streams are counted in code points (L2), so an event adds only what is missing."""

    def __init__(self, write: Write, *, colour: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._colour = colour
        self._at_start = True
        self._streaming: Key | None = None
        self._shown: dict[Key, tuple[int, int]] = {}
        self._live: list[Frame] = []
        self._heard: set[str] = set()
        self._calls: dict[str, dict[str, str]] = {}
        self._agents = Agents()
        self._loops: dict[str, str] = {}
        self._about = self._speaker = MAIN
        self._waiting: list[Frame] = []
        self._streamed_at = self._waiting_since = 0.0
        self._finished: dict[str, set[tuple[int, str]]] = {}
        self._over: set[str] = set()
        self._begun = False
        self._stops = Stops()
        self._started: dict[tuple[str, str], Frame] = {}
        self._left: dict[tuple[str, str], Frame] = {}
        self._told: set[str] = set()

    def frame(self, frame: Frame) -> None:
        """Write one frame. Frames and events of types unknown here are not an error: more may be added."""
        rule = _FRAMES.get(frame.get("t", ""))
        if rule is not None:
            self._take(rule, frame)
        if self._waiting and self._had_its_turn():
            self._end_stream()
        if self._streaming is None:  # whoever comes first may write now, and the others go on waiting
            waiting, self._waiting = self._waiting, []
            for piece in waiting:
                self._take(Printer._delta, piece)

    def _had_its_turn(self) -> bool:
        now = self._clock()
        return now - self._streamed_at >= SILENT_S or now - self._waiting_since >= _PATIENCE_S

    def known(self, started: Frame) -> None:
        """A `LoopStarted` from before what is watched."""
        self._agents.started(started)

    def _take(self, rule: Callable[["Printer", Frame], None], frame: Frame) -> None:
        turn, loop = frame.get("turn"), frame.get("loop")
        if turn and loop:
            self._loops[turn] = loop
        loop = loop or self._loops.get(turn or "")
        self._about = self._speaker if loop is None else self._agents.of(loop)  # the session's own news names nobody
        rule(self, frame)

    def interrupted(self) -> None:
        """Something else is about to be written to the same terminal."""
        self._end_stream()

    def note(self, text: str) -> None:
        """A line of our own, dimmed."""
        self._line(text, _DIM)

    # Frames

    def _hello(self, frame: Frame) -> None:
        session = frame["session"]
        if not self._begun:  # a connection that was lost and found again is the same watching
            self._line(one_line(session.get("title") or session.get("id", ""), 100), _BOLD)
        self._begun = True
        self._live = list(frame.get("live", {}).get("steps", ()))

    def _caught_up(self, frame: Frame) -> None:
        # The running step's text belongs below the history, which came after `hello`.
        for step in self._live:
            self._take(Printer._delta, step)
        self._live = []

    def _delta(self, frame: Frame) -> None:
        key: Key = (frame["turn"], frame["step"], frame["kind"], frame.get("call") or "")
        if self._is_finished(key):
            return
        if self._streaming is not None and self._loops.get(self._streaming[0]) != frame.get("loop"):
            if not self._waiting:
                self._waiting_since = self._clock()
            self._waiting.append(frame)
            return
        attempt, shown = self._shown.get(key, (frame["attempt"], 0))
        if frame["attempt"] < attempt:
            return
        if frame["attempt"] > attempt:
            attempt, shown = frame["attempt"], 0
            self.note("(asked again)")
        fresh = frame["text"][max(0, shown - frame["offset"]) :]
        if frame["offset"] > shown:
            self._stream(key, " … ")
        self._shown[key] = (attempt, max(shown, frame["offset"] + len(frame["text"])))
        self._stream(key, fresh)

    def _stopping(self, frame: Frame) -> None:
        # One turn's stop is told in several frames; the worker hears of it once.
        if frame.get("acknowledged_ms") is not None and frame["turn"] not in self._heard:
            self._heard.add(frame["turn"])
            self.note(f"… the worker got it after {frame['acknowledged_ms']:,} ms")

    def _retrying(self, frame: Frame) -> None:
        self.note(f"… the model did not answer ({frame.get('status') or 'no connection'}); asking again")

    def _event(self, frame: Frame) -> None:
        stop = self._stops.apply(frame)
        rule = _EVENTS.get(frame["type"])
        if rule is not None:
            rule(self, frame, frame["data"])
        if stop is not None:
            self._stopped(stop)

    # Events

    def _loop_started(self, frame: Frame, data: Frame) -> None:
        self._agents.started(frame)

    def _input_queued(self, frame: Frame, data: Frame) -> None:
        if frame["actor"]["id"] == self._agents.parent(self._about):  # its task
            above = self._agents.of(frame["actor"]["id"])
            if not self._agents.named_whole(self._about):
                self._line(f"{self._agents.name(above)}: ", _BOLD, end="")
                self._put(words_of(data.get("text")) + "\n", _PLAIN)
            return
        self._said(frame, ", tried again" if data.get("retries") else "", words_of(data.get("text")))
        self._files(data)

    def _steer_queued(self, frame: Frame, data: Frame) -> None:
        self._said(frame, ", urgent" if data.get("urgent") else ", at the next step", words_of(data.get("text")))
        self._files(data)

    def _folded_into(self, frame: Frame, data: Frame) -> None:
        self.note("· the message has joined this turn")

    def _steer_delivered(self, frame: Frame, data: Frame) -> None:
        self.note("· the message has reached the agent")

    def _steer_withdrawn(self, frame: Frame, data: Frame) -> None:
        self.note(f"· taken back: {one_line(words_of(data.get('text')))}")

    def _input_cancelled(self, frame: Frame, data: Frame) -> None:
        why = _GONE.get(str(data.get("reason")), "given back")
        self.note(f"· {why}: {one_line(words_of(data.get('text')))}")

    def _input_held(self, frame: Frame, data: Frame) -> None:
        self.note(f"· {plural(len(data['inputs']) + len(data['steers']), 'message')} paused")

    def _turn_started(self, frame: Frame, data: Frame) -> None:
        self._agents.turn_started(frame)
        if self._about == MAIN and data.get("index") != 1:  # the first one is what was asked just now
            self._line(f"── turn {data.get('index')}", _DIM)

    def _handed_over(self, frame: Frame, data: Frame) -> None:
        self.note(f"· {handed_over_words(data)}")

    def _resumed(self, frame: Frame, data: Frame) -> None:
        self.note("· Goes on with another worker")

    def _step(self, frame: Frame, data: Frame) -> None:
        text = words_of(data.get("text"))
        self._finish(frame, "text", text)
        calls = {call["call"]: _call(call["tool"], call.get("arguments")) for call in data.get("calls") or ()}
        self._calls[frame["turn"]] = calls
        if text and not calls:
            self._agents.answered(self._about, text)

    def _gate_opened(self, frame: Frame, data: Frame) -> None:
        asked = self._calls.get(frame["turn"], {}).get(data["call"], one_line(data.get("tool")))
        risky = " (called risky)" if data.get("question") == "risk" else ""
        self._line(f"? waits for approval{risky}: {asked}", _AMBER)

    def _gate_resolved(self, frame: Frame, data: Frame) -> None:
        message = words_of(data.get("message"))
        said = "denied" if data["decision"] == "deny" else "allowed"
        rule = f", and from now on: {rule_words(data['rule'])}" if data.get("rule") else ""
        self._line(f"· {said} by {_who(frame)}{rule}{f': {one_line(message, 200)}' if message else ''}", _AMBER)

    def _gate_closed(self, frame: Frame, data: Frame) -> None:
        self.note(f"· not asked any more: {_CLOSED.get(str(data.get('reason')), 'the turn has ended')}")

    def _rule_revoked(self, frame: Frame, data: Frame) -> None:
        self.note(f"· {_who(frame)} took back what was always allowed")

    def _mode_changed(self, frame: Frame, data: Frame) -> None:
        self.note(f"· {_who(frame)} changed the mode: the agent {MODES.get(str(data['mode']), data['mode'])}")

    def _output_superseded(self, frame: Frame, data: Frame) -> None:
        self._finish(frame, "text", words_of(data.get("text")))
        self.note("· that reply was replaced by a message")

    def _tool_started(self, frame: Frame, data: Frame) -> None:
        tool, arguments = str(data.get("tool")), data.get("arguments")
        self._started[frame["turn"], str(data.get("call"))] = frame
        self._line(_delegated(arguments) if tool == "delegate" else _call(tool, arguments), _BOLD)

    def _tool_settled(self, frame: Frame, data: Frame) -> None:
        call, output = str(data.get("call") or ""), words_of(data.get("output"))
        delegated = self._agents.settled(frame.get("loop"), call)
        whose = "" if delegated is None else f"{self._agents.name(delegated[0])}: "
        if delegated is not None and output == delegated[1]:
            output = ""  # it stands where the delegate wrote it
        self._finish(frame, "tool", output, call)
        outcome = str(data.get("outcome")).replace("_", " ")
        exit_code = "" if data.get("exit") is None else f", exit {data['exit']}"
        style = _DIM if outcome == "ok" else _RED
        began = None if delegated is None else self._agents.began(delegated[0])
        ms = None if outcome in ("lost", "not run") else took_ms(data, began, frame.get("at"))
        took = "" if ms is None else f", {seconds(ms)}"
        left = ""
        if (data.get("processes") or {}).get("background"):
            self._left[frame["turn"], call] = frame
            left = ", left running in the background"
        else:
            self._started.pop((frame["turn"], call), None)
        self._line(f"[{whose}{outcome}{exit_code}{took}{left}]", style)
        named = _survivors(data)
        if named:
            self._line(f"! outlived its kill: {named}", _RED)

    def _interrupt_requested(self, frame: Frame, data: Frame) -> None:
        if data.get("cause") == "parent":
            self.note("■ the agent that had started it has come to its end")
            return
        reason = words_of(data.get("reason"))
        self._line(f"■ stop asked by {_who(frame)}{f': {one_line(reason, 200)}' if reason else ''}", _RED)

    def _turn_interrupted(self, frame: Frame, data: Frame) -> None:
        self._end_turn(frame["turn"])
        numbers = of_turn(data)
        asked = data["cause"] in ("person", "token", "admin")
        head = f"■ stopped by {_who(frame)}" if asked else f"■ {plain(stopped_by(data, None))}"
        stop = self._stops.by_request.get(data.get("request") or "")
        partly = stop is not None and (len(stop.asked["data"]["turns"]) > 1 or stop.kills)
        what = "its turn" if partly else "everything"  # the whole is told when all of it has ended
        parts = [f"{head}, {what} ended {seconds(numbers['settled_ms'])} later" if asked else head]
        if unproven(numbers):
            parts = [f"{head}, but something may still run"]
        elif data.get("grace_ms") is not None:
            parts.append(f"after a grace of {seconds(data['grace_ms'])}")
        self._line("; ".join([*parts, *_came_to(numbers)]), _RED)
        self._left_over(data)

    def _stopped(self, stop: Stop) -> None:
        """A stop of more than one turn is over: all of it, as every other screen says it."""
        numbers, request = stop.numbers(), stop.asked["data"]["request"]
        several = len(stop.ends) + len(stop.kills) > 1
        if not stop.over or not several or numbers["ending"] or request in self._told:
            return
        self._told.add(request)
        what = "the turns" if unproven(numbers) else "everything"
        agents = [plural(numbers["agents"], "agent")] if numbers["agents"] > 1 else []
        said = [f"■ {what} ended {seconds(numbers['settled_ms'])} after it was asked", *agents, *_came_to(numbers)]
        self._line("; ".join(said), _RED)

    def _left_over(self, data: Frame) -> None:
        """What a turn left running, however it ended, and what that means for what waits (E7)."""
        named = _survivors(data)
        if named:
            self._line(f"! still running when the turn ended: {named}", _RED)
        if data.get("note") == "held_processes":
            self._line("! what waits stays paused until somebody sends it", _RED)

    def _processes_ended(self, frame: Frame, data: Frame) -> None:
        call = frame["turn"], str(data.get("call"))
        processes = data["processes"]
        if not data.get("background") and not processes["surviving"]:
            names = _names(processes["ended"])
            self.note(f"· what had outlived its kill has ended{f': {names}' if names else ''}")
            return
        arguments = self._started.get(call, {}).get("data", {}).get("arguments")
        command = arguments.get("command") if isinstance(arguments, Mapping) else None
        settled = self._left.get(call)
        left = () if settled is None else settled["data"]["processes"]["background"]
        said = background_words(frame, command if isinstance(command, str) else "", left)
        self._line(f"· {one_line(plain(said), 300)}", _RED if processes["surviving"] else _DIM)

    def _turn_done(self, frame: Frame, data: Frame) -> None:
        self._end_turn(frame["turn"])
        self.note(f"── done: {plural(data.get('steps') or 0, 'step')}, {seconds(data.get('duration_ms') or 0)}")
        self._left_over(data)

    def _turn_failed(self, frame: Frame, data: Frame) -> None:
        error = data.get("error") or {}
        self._end_turn(frame["turn"])
        head = "ended by a limit" if error.get("code") == "repeated_call" else "failed"
        self._line(f"── {head}: {one_line(words_of(error.get('detail')) or error.get('code'), 300)}", _RED)
        self._left_over(data)

    def _session_closed(self, frame: Frame, data: Frame) -> None:
        self.note("── the session is closed")

    # Writing

    def _said(self, frame: Frame, how: str, text: str) -> None:
        name = one_line(frame["actor"]["name"], 40)
        self._line(f"{name}{how}: ", _BOLD, end="")
        self._put(text + "\n", _PLAIN)

    def _files(self, data: Frame) -> None:
        """The files that came with a message."""
        for file in data.get("files") or ():
            self.note(f"· with {one_line(words_of(file['name']))}, {file['size']:,} bytes")

    def _finish(self, frame: Frame, kind: str, text: str, call: str = "") -> None:
        """Write what of a finished text has not been streamed, and forget the stream."""
        key: Key = (frame["turn"], frame["step"], kind, call)
        self._finished.setdefault(key[0], set()).add((key[1], call))
        _, shown = self._shown.pop(key, (0, 0))
        if text[shown:]:
            self._stream(key, text[shown:])
        self._end_stream()

    def _is_finished(self, key: Key) -> bool:
        """Whether an event has said all of it: pieces that come later, or again after a reconnect, are old (L2)."""
        turn, step, _, call = key
        return turn in self._over or (step, call) in self._finished.get(turn, ())

    def _end_turn(self, turn: str) -> None:
        """Nothing more comes of it."""
        self._over.add(turn)
        self._finished.pop(turn, None)
        self._calls.pop(turn, None)
        self._shown = {key: value for key, value in self._shown.items() if key[0] != turn}

    def _stream(self, key: Key, text: str) -> None:
        if self._streaming != key:
            self._end_stream()
            self._streaming = key
        self._streamed_at = self._clock()
        self._put(text, _PLAIN if key[2] == "text" else _DIM)

    def _end_stream(self) -> None:
        self._streaming = None
        if not self._at_start:
            self._put_raw("\n", _PLAIN)

    def _line(self, text: str, style: str, end: str = "\n") -> None:
        self._end_stream()
        self._put(text + end, style)

    def _put(self, text: str, style: str) -> None:
        if not text:
            return
        if self._about != self._speaker:
            self._speaker = self._about
            self._put_raw(f"── {self._agents.name(self._speaker)}\n", _BOLD)
        self._put_raw(clean(text), style)  # whoever wrote it: only our own colours are orders to the terminal

    def _put_raw(self, text: str, style: str) -> None:
        self._at_start = text.endswith("\n")
        self._write(f"\x1b[{style}m{text}\x1b[0m" if style and self._colour else text)


def _came_to(numbers: Numbers) -> list[str]:
    """What a stop, or one agent's part of it, came to."""
    said = [
        f"{plural(numbers['steps_kept'], 'step')} kept",
        f"{plural(numbers['cut_off'], 'character')} cut off" if numbers["cut_off"] else "",
        f"{counted(numbers['ended'], 'process', 'processes')} ended" if numbers["ended"] else "",
        f"{plural(numbers['approvals'], 'approval')} closed" if numbers["approvals"] else "",
    ]
    return [each for each in said if each]


def _delegated(arguments: Any) -> str:
    """What a sub-agent is asked to do, as its name says it; all of it follows where that is too little."""
    task = arguments.get("task") if isinstance(arguments, Mapping) else None
    return f"delegate: {one_line(start_of(plain(task), NAME))}" if isinstance(task, str) else "delegate"


def _call(tool: str, arguments: Any) -> str:
    """A call as one would type it."""
    command = arguments.get("command") if isinstance(arguments, Mapping) else None
    if tool == "shell" and command:
        return f"$ {command}"
    return f"{one_line(tool)} {one_line(_arguments(arguments), 100)}".rstrip()


def _arguments(value: Any) -> str:
    """A call's arguments on one line: `path=a.txt text=…`; other texts as `words_of` has them."""
    if not isinstance(value, Mapping) or "erased" in value or "ref" in value:
        return words_of(value)
    return " ".join(f"{name}={item if isinstance(item, str) else json.dumps(item)}" for name, item in value.items())


def _survivors(data: Frame) -> str:
    """Processes that outlived their kill: `sleep 999 (41), a process (42)`."""
    return _names((data.get("processes") or {}).get("surviving") or ())


def _names(processes: Iterable[Frame]) -> str:
    return one_line(plain(process_names(processes)), 300)


def _who(frame: Frame) -> str:
    actor = frame["actor"]
    device = actor.get("device")
    return one_line(f"{actor['name']} ({device['kind']})" if device else actor["name"], 60)


_FRAMES: Final[Mapping[str, Callable[[Printer, Frame], None]]] = {
    "hello": Printer._hello,
    "caught_up": Printer._caught_up,
    "delta": Printer._delta,
    "stopping": Printer._stopping,
    "retrying": Printer._retrying,
    "event": Printer._event,
}
_EVENTS: Final[Mapping[str, Callable[[Printer, Frame, Frame], None]]] = {
    "LoopStarted": Printer._loop_started,
    "InputQueued": Printer._input_queued,
    "SteerQueued": Printer._steer_queued,
    "SteerDelivered": Printer._steer_delivered,
    "SteerWithdrawn": Printer._steer_withdrawn,
    "InputCancelled": Printer._input_cancelled,
    "InputHeld": Printer._input_held,
    "TurnFoldedInto": Printer._folded_into,
    "TurnStarted": Printer._turn_started,
    "TurnHandedOver": Printer._handed_over,
    "TurnResumed": Printer._resumed,
    "StepPlanned": Printer._step,
    "StepDone": Printer._step,
    "OutputSuperseded": Printer._output_superseded,
    "GateOpened": Printer._gate_opened,
    "GateResolved": Printer._gate_resolved,
    "GateClosed": Printer._gate_closed,
    "RuleRevoked": Printer._rule_revoked,
    "ModeChanged": Printer._mode_changed,
    "ToolStarted": Printer._tool_started,
    "ToolSettled": Printer._tool_settled,
    "InterruptRequested": Printer._interrupt_requested,
    "TurnInterrupted": Printer._turn_interrupted,
    "TurnDone": Printer._turn_done,
    "TurnFailed": Printer._turn_failed,
    "ProcessesEnded": Printer._processes_ended,
    "SessionClosed": Printer._session_closed,
}
