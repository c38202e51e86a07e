"""Approvals and modes: answering a gate, the rules that standing answers make, and what an agent may do (H, I)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import orjson

from sessions_app.control.permitted import known_id, run
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.engine.model_names import check_name
from sessions_app.engine.state import Mode
from sessions_app.ids import new_id
from sessions_app.log import db
from sessions_app.log.frames import instant
from sessions_app.log.payload import whole
from sessions_app.people.principals import Principal

_END_OF_GATE: Final = """SELECT type, actor, at, facts FROM event
    WHERE session_id = %s AND type IN ('GateResolved', 'GateClosed') AND position(%s IN facts) > 0
    ORDER BY seq DESC LIMIT 1"""


def resolve(
    principal: Principal,
    session: str,
    command: str,
    gate: str,
    *,
    decision: Literal["allow", "allow_rule", "deny"],
    rule: dict[str, str] | None = None,
    message: str | None = None,
) -> dict[str, Any]:
    """Answer an approval (H3): `{gate, decision, seq}`. A late one is `gate_closed`, with who answered what (H1)."""
    chosen = None if rule is None else commands.RuleSpec(rule.get("kind", ""), rule.get("value", ""))
    order = commands.Resolve(gate, decision, chosen, message, new_id())
    content, told = [gate, decision, rule, message], told_if_closed(session, gate)
    return run(principal, session, command, "resolve", order, content, told=told).receipt


@contextmanager
def told_if_closed(session: str, gate: str) -> Iterator[None]:
    """`gate_not_found` stays so for what never was; a gate that has ended is `gate_closed`, and says how it ended."""
    try:
        yield
    except Refused as refused:
        end = _end(session, gate) if refused.code == "gate_not_found" else None
        if end is None:
            raise
        by, said = end["by"], end["decision"]
        words = {"allow": f"{by} has allowed it already.", "deny": f"{by} has denied it already."}
        raise Refused("gate_closed", words.get(said or "", "It is not asked any more."), gate=gate, **end) from None


def _end(session: str, gate: str) -> dict[str, Any] | None:
    known = f'"gate":"{known_id(gate, "gate_not_found", "There is no such approval.")}"'
    with db.cursor("read") as cur:
        row = cur.execute(_END_OF_GATE, (session, known.encode())).fetchone()
    if row is None:
        return None
    type_, actor, at, facts = row
    data = whole(bytes(facts), None)
    name = orjson.loads(actor)["name"] if type_ == "GateResolved" else None
    return {"by": name, "decision": data.get("decision"), "reason": data.get("reason"), "at": instant(at)}


def revoke_rule(principal: Principal, session: str, command: str, rule: str) -> dict[str, Any]:
    """Take a standing answer back (H3): `{rule, seq}`."""
    return run(principal, session, command, "resolve", commands.RevokeRule(rule), ["revoke", rule]).receipt


def set_mode(
    principal: Principal, session: str, command: str, *, mode: Mode, loop: str | None = None
) -> dict[str, Any]:
    """Change what an agent may do without asking (I1): `{mode, changed, seq?}`."""
    return run(principal, session, command, "set_mode", commands.SetMode(loop, mode), [loop, mode]).receipt


def change_loop(
    principal: Principal,
    session: str,
    command: str,
    *,
    loop: str | None = None,
    mode: Mode | None = None,
    model: str | None = None,
    instructions: str | None = None,
    limits: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Change an agent's model, instructions or limits from its next turn on (I1): `{loop, seq}`.

    With a `mode`, which binds at once, that too; all of it is one command, and a part that is refused refuses the rest.
    """
    if mode is not None and model is None and instructions is None and not limits:
        return set_mode(principal, session, command, mode=mode, loop=loop)
    problem = None if model is None else check_name(model)
    if problem is not None:
        raise Refused("invalid", problem, field="model")
    later, content = commands.ChangeLoop(loop, model, instructions, limits), [loop, model, instructions, limits]
    if mode is None:
        return run(principal, session, command, "change", later, content).receipt
    order = commands.SetMode(loop, mode)
    also = ("set_mode",)
    return run(principal, session, command, "change", order, [*content, mode], also=also, then=later).receipt
