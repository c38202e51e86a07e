"""A turn's coroutine: ask what is next, do it, report it. It holds no rule; every report's answer says how to go on.

Three things can end its work from outside. A mark (heard from the warden, or in any report's answer) sets `stop`: the
model's stream is cancelled, the tool is ended by its warden, a back-off is cut short, and one `EndTurn` settles all of
it. A worker on its way out sets `leave`: at its next resting place the turn is handed over, and another worker's
coroutine goes on from there (J4). A `stale` answer means that the fence or the sweep was quicker: nothing more is said.
"""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Collection, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.engine.commands import Settlement
from sessions_app.engine.errors import Refused
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import Call
from sessions_app.ids import new_id
from sessions_app.log import bell, phases, read
from sessions_app.log.frames import instant
from sessions_app.worker.context import WorkerContext
from sessions_app.worker.models.backoff import wait_s
from sessions_app.worker.models.base import ModelError, Reply, Request, Text, estimate_usage
from sessions_app.worker.models.prices import price
from sessions_app.worker.models.registry import open_model
from sessions_app.worker.prompt import instructions_for
from sessions_app.worker.streaming import Stream
from sessions_app.worker.tools.base import ToolContext, ToolOutcome
from sessions_app.worker.tools.delegate import task_of
from sessions_app.worker.tools.registry import effect_of, run_tool, specs
from sessions_app.worker.uploads import Uploads

T = TypeVar("T")
CHILDREN_S: Final = 0.1
"""How often a turn that is to end asks whether its delegates have ended."""
_BLIND: Final = (400, 404, 413, 415, 422)
"""How providers refuse images that a model, or a server, does not take: it is asked once more without them, and has
the files' paths."""
_log = logging.getLogger(__name__)


Place = Literal["safe_point", "call", "gate", "delegate", "back_off", "model"]


class Stopped(Exception):
    """The turn is marked, or its worker is shutting down: end it now."""


class Leaving(Exception):
    """The worker is on its way out, and here the turn can be handed over (J4)."""

    def __init__(self, at: Place) -> None:
        super().__init__(at)
        self.at: Place = at


class TurnRun:
    """One running turn of this worker. `claim` is its claim's receipt: a new turn, or one that was handed over."""

    def __init__(self, worker: WorkerContext, session: str, loop: str, claim: dict[str, Any]) -> None:
        self.worker, self.session, self.loop = worker, session, loop
        self.turn: str = claim["turn"]
        self.epoch: int = claim["epoch"]
        self.stop = asyncio.Event()
        self._claim = claim
        self._leave, self._drop = asyncio.Event(), asyncio.Event()
        self._attempt_number: int = claim.get("attempt", 1)
        self._phase = "model"
        self._told_at: float | None = None
        self._ends_at = math.inf
        self._shutdown_at: float | None = None
        self._transcript = Transcript()
        self._cursor = 0
        self._step: int = claim["step"]
        self._cut_off: dict[str, str] = {}
        self._usage: dict[str, int] = {}
        self._cost: float | None = None
        self._settlements: dict[str, Settlement] = {}
        self._acknowledged: int | None = None
        self._acknowledging = asyncio.Lock()
        self._workspace = Path()
        self._uploads = Uploads(session)
        self._spent = ""
        self._alarm: asyncio.TimerHandle | None = None
        self._telling: asyncio.Future[None] | None = None

    def mark(self) -> None:
        """A stop for this turn was heard of."""
        self.stop.set()

    def leave(self, grace_s: float | None = None) -> None:
        """The worker is on its way out: hand the turn over at its next resting place (J4), and tell whoever watches.

        `grace_s`: when what then still runs is ended; None: never. Told again, an earlier end counts.
        """
        now = time.monotonic()
        ends_at = math.inf if grace_s is None else now + grace_s
        if grace_s is not None and self._told_at is None:
            self._told_at = now
        if not self._leave.is_set() or ends_at < self._ends_at:
            self._ends_at = ends_at
            grace_ms = None if grace_s is None else round(grace_s * 1000)
            frame = {"t": "leaving", "loop": self.loop, "turn": self.turn, "grace_ms": grace_ms}
            self._telling = asyncio.ensure_future(asyncio.to_thread(bell.frame, self.session, frame))
        self._leave.set()

    def drop(self) -> None:
        """There is little time left: a model call in flight is dropped, and asked again elsewhere."""
        self._leave.set()
        self._drop.set()

    def shut_down(self) -> None:
        """The worker is about to end: so is the turn."""
        if self._shutdown_at is None:
            self._shutdown_at = time.monotonic()
        self.stop.set()

    def _allow(self, left_s: float) -> None:
        """The turn may work for so long from now on; then it is ended as by a stop (B7)."""
        self._forbid()
        self._alarm = asyncio.get_running_loop().call_later(left_s, self._time_is_over)

    def _forbid(self) -> None:
        """No more alarm, until the next call starts or the next step begins."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _time_is_over(self) -> None:
        self._spent = "wall_s"
        self.stop.set()

    async def run(self) -> None:
        """Run the turn to its terminal, whichever that is."""
        try:
            await self._run()
        finally:
            self._forbid()

    async def _run(self) -> None:
        try:
            try:
                await self._steps()
            except Leaving as leaving:
                await self._hand_over(leaving.at)
            except Stopped:
                await self._end()
        except Refused as refused:
            if refused.code != "stale":
                raise
            _log.info("turn %s was ended by somebody else", self.turn)
            for call in self._settlements:  # what runs on of it is in nobody's list (E13)
                self.worker.background.kill(self.turn, call)
        except ModelError as error:
            await self._fail(error.code, error.detail)
        except Exception as error:  # noqa: BLE001 (the turn must have its terminal, whatever broke in it)
            _log.exception("turn %s failed", self.turn)
            await self._fail("internal", f"{type(error).__name__}: {error}")

    async def _steps(self) -> None:
        self._workspace = await self.worker.persistently(self.worker.workspace, self.session)
        if self._claim.get("resumed"):
            await self._go_on()
        while True:
            self._rest("safe_point")
            begun = await self._report(commands.BeginStep(self.turn, self.epoch))
            if begun.get("outcome") == "interrupted":  # a budget was used up
                return
            self._step = begun["step"]
            self._allow(begun["left_ms"] / 1000)
            reply = await self._ask_model()
            calls = tuple(commands.PlannedCall(call.id, call.tool, call.arguments) for call in reply.calls)
            finished = await self._report(
                commands.FinishModel(
                    self.turn,
                    self.epoch,
                    self._step,
                    reply.text,
                    reply.reasoning,
                    calls,
                    _usage(reply),
                    reply.replaced,
                    price(self._transcript.model, reply.usage),
                )
            )
            self._cut_off, self._usage, self._cost = {}, {}, None
            if finished["outcome"] in ("done", "failed"):
                return
            if finished["outcome"] == "planned":
                await self._run_calls(reply.calls)

    async def _go_on(self) -> None:
        """Take up a turn that was handed over: first what is left of its step's calls."""
        await self._read_on()
        self._allow(self._claim["left_ms"] / 1000)
        if self._transcript.unsettled:
            await self._run_calls(self._transcript.unsettled, self._claim["delegated"])

    def _rest(self, at: Place) -> None:
        """A resting place: where a stop ends the turn, and a worker on its way out hands it over."""
        if self.stop.is_set():
            raise Stopped
        if self._leave.is_set():
            raise Leaving(at)

    # -- the model

    async def _ask_model(self) -> Reply:
        tries = 0
        while True:
            request = await self._request()  # anew for each attempt: a text may have been erased in the meantime
            try:
                reply = await self._attempt(request, self._attempt_number)
            except ModelError as error:
                if request.images and error.status in _BLIND:
                    self._uploads.images = False
                    continue
                tries += 1
                pause = wait_s(tries, error, random.random())  # noqa: S311 (spreads retries, guards nothing)
                if pause is None:
                    raise
                self._attempt_number += 1
                await self._back_off(error, self._attempt_number, pause)
            else:
                self._attempt_number = 1
                return reply

    async def _read_on(self) -> None:
        """Bring the transcript up to the log."""
        events = await self.worker.persistently(read.engine_events, self.session, self._cursor, self.loop)
        self._transcript.feed(events)
        self._cursor = events[-1].seq if events else self._cursor
        if self._transcript.stale:  # a text that it holds was erased: not sent again (A3)
            self._transcript, self._cursor = Transcript(), 0
            await self._read_on()

    async def _request(self) -> Request:
        await self._read_on()
        mode = self._transcript.mode
        bring = self._uploads.bring
        entries, images = await self.worker.persistently(bring, self._workspace, self._transcript.entries)
        return Request(
            self._transcript.model,
            instructions_for(self._workspace, self._transcript.instructions, mode),
            entries,
            specs(mode),
            images,
        )

    async def _attempt(self, request: Request, attempt: int) -> Reply:
        """One try at the model call. What it streamed is kept for review should it be cut off (C3)."""
        self._phase = "model"
        if attempt > 1:
            await self.worker.persistently(phases.set_model, self.turn, self.epoch, attempt)
        text, reasoning = self._stream(attempt, "text"), self._stream(attempt, "reasoning")
        try:
            return await self._unless(self._consume(request, text, reasoning), self._drop, "model")
        finally:
            self._cut_off = {"text": text.text(), "reasoning": reasoning.text()}
            usage = estimate_usage(request, text.text() + reasoning.text())
            self._usage = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            self._cost = price(self._transcript.model, usage)
            self.worker.streams.close(text)
            self.worker.streams.close(reasoning)

    async def _consume(self, request: Request, text: Stream, reasoning: Stream) -> Reply:
        model = await asyncio.to_thread(open_model, request.model)  # the first one of a provider loads its library
        async with contextlib.aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    return piece
                self.worker.streams.add(text if isinstance(piece, Text) else reasoning, piece.text)
        raise ModelError("bad_reply", "The model's stream ended without a reply.", retryable=True)

    async def _back_off(self, error: ModelError, attempt: int, pause: float) -> None:
        """Wait before the next attempt, in sight of everybody and within reach of a stop (E6)."""
        self._phase = "retry"
        next_at = await self.worker.persistently(phases.set_retry, self.turn, self.epoch, attempt, pause)
        frame = {
            "t": "retrying", "loop": self.loop, "turn": self.turn, "step": self._step, "attempt": attempt,
            "next_at": None if next_at is None else instant(next_at), "status": error.status, "detail": error.detail,
        }  # fmt: skip
        await asyncio.to_thread(bell.frame, self.session, frame)
        await self._unless(asyncio.sleep(pause), self._leave, "back_off")

    async def _unless(self, work: Coroutine[Any, Any, T], leave: asyncio.Event, at: Place) -> T:
        """The work's result; or `Stopped` or `Leaving` when that comes first, once the cancelled work has ended."""
        task = asyncio.ensure_future(work)
        signs = [asyncio.ensure_future(event.wait()) for event in (self.stop, leave)]
        try:
            await asyncio.wait({task, *signs}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Stopped if self.stop.is_set() else Leaving(at)
            return task.result()
        finally:
            for sign in signs:
                sign.cancel()
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ModelError):
                    await task

    # -- the tools

    async def _run_calls(self, calls: tuple[Call, ...], delegated: Collection[str] = ()) -> None:
        """Run what is left of a step's calls, one at a time, delegates beside each other (C2)."""
        waiting = set(delegated)
        for call in (each for each in calls if each.id not in waiting):
            task = task_of(call.tool, call.arguments)
            if waiting and task is None:
                await self._await_delegates()
                waiting.clear()
            self._rest("call")
            outcome = await self._start(call, task)
            if outcome == "skipped":
                break
            if outcome == "settled":  # denied, or not allowed in this mode, or over a limit
                continue
            if task is not None:
                waiting.add(call.id)
                continue
            self._phase = "tool"
            settlement = await self._run_tool(call)
            self._settlements[call.id] = settlement
            if self.stop.is_set():
                raise Stopped  # the terminal's own transaction settles it, and lists what was ended
            await self._report(commands.SettleTool(self.turn, self.epoch, self._step, call.id, settlement))
            self._settlements.clear()
            self._phase = "model"
        if waiting:
            await self._await_delegates()

    async def _await_delegates(self) -> None:
        """Until the last delegate's end has settled its call (G3); the worker has room for others meanwhile (G2)."""
        self._phase = "delegate"
        self._forbid()  # their time is what counts (B7)
        await self._unless(self.worker.answered(self.turn), self._leave, "delegate")
        self._phase = "model"

    async def _start(self, call: Call, task: str | None) -> str:
        """Say that the call is about to start, and wait at its gate: `started`, `skipped` or `settled`."""
        effect = effect_of(call.tool, call.arguments)
        child = None if task is None else commands.Child(new_id(), new_id(), task, self._transcript.instructions)
        while True:
            intent = commands.StartTool(
                self.turn, self.epoch, self._step, call.id, call.arguments, effect, new_id(), child
            )
            started = await self._report(intent)
            if "left_ms" in started:
                self._allow(started["left_ms"] / 1000)
            if started["outcome"] != "asked":
                self._phase = "model"
                return str(started["outcome"])
            self._phase = "gate"
            self._forbid()
            await self._unless(self.worker.answered(self.turn), self._leave, "gate")

    async def _run_tool(self, call: Call) -> Settlement:
        """Run one call; a stop ends it inside, and it says itself how it ended (C4)."""
        output = self._stream(1, "tool", call.id)
        clock = asyncio.get_running_loop().time
        began = clock()
        context = ToolContext(
            workspace=self._workspace,
            call=call.id,
            turn=self.turn,
            session=self.session,
            loop=self.loop,
            epoch=self.epoch,
            warden=self.worker.warden,
            emit=lambda text: self.worker.streams.add(output, text),
            stop=self.stop,
            scratch_home=self.worker.scratch_home(self.session),
            keeper=self.worker.background,
        )
        try:
            outcome = await run_tool(call.tool, call.arguments, context)
        finally:
            self.worker.streams.close(output)
        return _settlement(outcome, int((clock() - began) * 1000))

    def _stream(self, attempt: int, kind: str, call: str = "") -> Stream:
        return self.worker.streams.open(Stream(self.session, self.loop, self.turn, self._step, attempt, kind, call))

    # -- ends

    async def _report(self, command: reports.Report) -> dict[str, Any]:
        """Report, as often as the database needs; raises `Stopped` when the answer says that a stop has won."""
        if self._shutdown_at is not None and not isinstance(command, commands.SettleTool | commands.EndTurn):
            raise Stopped
        answer = await self._deliver(command)
        if answer.get("marked"):
            self.stop.set()
            raise Stopped
        return answer

    async def _deliver(self, command: reports.Report) -> dict[str, Any]:
        return await self.worker.persistently(reports.report, self.session, command, self.worker.id)

    async def acknowledge(self) -> None:
        """Tell everybody, once, that the worker got the stop, and how long that took."""
        async with self._acknowledging:
            if self._acknowledged is None:
                await self._acknowledge_now()

    async def _acknowledge_now(self) -> None:
        heard = await self.worker.persistently(phases.acknowledge, self.turn)
        if heard is not None:
            request, phase, self._acknowledged = heard
            frame = {
                "t": "stopping", "request": request, "loop": self.loop, "turn": self.turn,
                "phase": phase, "acknowledged_ms": self._acknowledged,
            }  # fmt: skip
            await asyncio.to_thread(bell.frame, self.session, frame)

    async def _hand_over(self, at: Place) -> None:
        """Give the turn back; a stop that came first ends it instead."""
        dropped = at == "model"
        usage, attempt = self._usage if dropped else {}, self._attempt_number + dropped
        answer = await self._deliver(
            commands.HandOver(self.turn, self.epoch, at, usage, attempt, self._cost if dropped else None)
        )
        if answer.get("marked"):
            await self._end()

    async def _end(self) -> None:
        await self.acknowledge()
        since = self._shutdown_at
        command = commands.EndTurn(
            self.turn,
            self.epoch,
            "worker",
            cause="worker_shutdown" if since is not None else "budget" if self._spent else None,
            which="" if since is not None else self._spent,
            settlements=self._settlements,
            cut_off={key: text for key, text in self._cut_off.items() if text},
            usage=self._usage,
            cost=self._cost,
            phase=self._phase,
            acknowledged_ms=self._acknowledged,
            settled_ms=0 if since is None else int((time.monotonic() - since) * 1000),
            grace_ms=None if since is None or self._told_at is None else int((since - self._told_at) * 1000),
        )
        await self._conclude(command)

    async def _fail(self, code: str, detail: str) -> None:
        command = commands.Fail(
            self.turn, self.epoch, code, detail, self._usage, {k: text for k, text in self._cut_off.items() if text},
            self._cost, settlements=self._settlements,
        )  # fmt: skip
        try:
            answer = await self._conclude(command)
            if answer.get("marked"):
                await self._end()
        except Refused as refused:
            if refused.code != "stale":
                raise

    async def _conclude(self, command: commands.EndTurn | commands.Fail) -> dict[str, Any]:
        """Report the end, again while it waits for the ends of delegates (G3); each stop of theirs has its own id."""
        while True:
            answer = await self._deliver(replace(command, request=new_id()))
            if answer.get("outcome") != "waiting":
                return answer
            await asyncio.sleep(CHILDREN_S)


def _usage(reply: Reply) -> dict[str, int]:
    usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return {**usage, "cached_tokens": reply.usage.cached_tokens} if reply.usage.cached_tokens else usage


def _settlement(outcome: ToolOutcome, duration_ms: int) -> Settlement:
    processes = {
        "ended": [process.to_json() for process in outcome.ended],
        "surviving": [process.to_json() for process in outcome.surviving],
        "background": [process.to_json() for process in outcome.background],
    }
    return Settlement(outcome.outcome, outcome.output, outcome.exit, duration_ms, processes, outcome.replaced)
