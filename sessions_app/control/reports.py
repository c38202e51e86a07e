"""What workers, the fence and the sweep report: the same lock-decide-append as everybody's commands.

A report has a derived id (turn, epoch, step, call, kind), so the same report after a broken commit lands once (A4). One
that comes too late is refused as `stale` (C1). Blocking; workers call it in threads.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from psycopg import Cursor

from sessions_app.control.transact import Order, execute
from sessions_app.engine import commands
from sessions_app.engine.actors import SYSTEM, Actor
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id, report_id
from sessions_app.log.db import Row


def worker_actor(worker: str) -> Actor:
    """The author of what a worker does on its own."""
    return Actor("system", worker, "worker")


def claim(session: str, loop: str, worker: str, turn: str | None = None, *, resume: bool = True) -> dict[str, Any]:
    """Take a loop's next input: `{claimed, turn, epoch, step, index}`; `claimed` false where there is none to take.

    `turn` is the new turn's id: a claim that is repeated with it finds what it took the first time (A4). A turn that
    was given back keeps its own, and is `resumed` by a worker that can (`resume`, J4). Refused `stale` where the
    worker's own lease is over (J1).
    """
    turn = turn or new_id()
    order = _order(
        session, commands.Claim(loop, turn, worker, resume), turn, report_id(turn, 0, 0, None, "claim"), worker
    )

    def lives(cur: Cursor[Row]) -> None:
        cur.execute("SELECT 1 FROM worker WHERE id = %s AND alive_until >= clock_timestamp()", (worker,))
        if cur.fetchone() is None:
            raise Refused("stale", "This worker's lease is over.")

    return execute(replace(order, recheck=lives)).receipt


Report = (
    commands.HandOver
    | commands.BeginStep
    | commands.FinishModel
    | commands.StartTool
    | commands.SettleTool
    | commands.Fail
    | commands.EndTurn
)
"""What a worker says of a turn it holds."""


def report(session: str, command: Report, worker: str) -> dict[str, Any]:
    """Report progress of a turn. The answer says `marked` where a stop has won; raises `Refused` `stale`."""
    step = getattr(command, "step", 0)
    call = getattr(command, "call", None)
    kind = type(command).__name__
    id = report_id(command.turn, command.epoch, step, call, kind)
    if isinstance(command, commands.BeginStep):
        id = new_id()  # a repeated safe point drains what came since: repeating it is right, not a repetition
    elif isinstance(command, commands.StartTool):
        # The gate it would open tells one try from the next: after an answer the same call is looked at anew.
        id = report_id(command.turn, command.epoch, step, call, f"{kind} {command.gate}")
    order = _order(session, command, command.turn, id, worker)
    # The end of a stopped turn is part of the stop: a full pool never delays it (E11).
    return execute(replace(order, purpose="stop") if isinstance(command, commands.EndTurn) else order).receipt


def end_turn(session: str, command: commands.EndTurn, recheck: Callable[[Cursor[Row]], None]) -> dict[str, Any]:
    """The fence or the sweep ends a turn; `recheck` is asked under the session's lock whether it still may.

    Its id is not that of the worker's own end: whoever is second is refused, not told that it was first (E9).
    """
    id = report_id(command.turn, command.epoch, 0, None, f"{type(command).__name__} by {command.by}")
    return execute(replace(_order(session, command, command.turn, id, ""), recheck=recheck, purpose="stop")).receipt


def survivors_ended(
    session: str, loop: str, turn: str, call: str, ended: list[dict[str, Any]], worker: str = ""
) -> None:
    """Processes that had survived their kill are gone at last (E7)."""
    command = commands.SurvivorsEnded(turn, loop, call, ended)
    execute(_order(session, command, turn, report_id(turn, 0, 0, call, "SurvivorsEnded"), worker))


def background_ended(session: str, command: commands.BackgroundEnded, worker: str = "") -> None:
    """Declared background processes have ended, or outlived their kill (E13)."""
    kind = f"BackgroundEnded {len(command.surviving)}"
    execute(_order(session, command, command.turn, report_id(command.turn, 0, 0, command.call, kind), worker))


def _order(session: str, command: commands.Command, turn: str, id: str, worker: str) -> Order:
    actor = worker_actor(worker) if worker else SYSTEM

    def allow(cur: Cursor[Row]) -> Actor:
        return actor

    # The lease is the permission: the engine compares turn and epoch. Content is not compared: the id says it all.
    return Order(session, command, f"turn:{turn}", id, None, allow)
