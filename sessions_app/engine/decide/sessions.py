"""The session itself: closing (K), title and settings, members, erasing (A3)."""

from typing import Any

from sessions_app.engine.commands import ChangeSession, Close, Erase, SetMember
from sessions_app.engine.decide.context import Context, Decision, open_session
from sessions_app.engine.decide.ending import Aftermath, return_all
from sessions_app.engine.decide.interrupting import phase_of
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import REASON_BYTES, TITLE_BYTES, check_text
from sessions_app.engine.state import State

SETTINGS = {"keep_partial_reply": (True, False), "stop_queue": ("run", "hold", "clear")}
"""What a session's settings may hold: whether a cut-off reply goes to the model (C3), and a stop's default for what
waits (E12)."""


def close(state: State, command: Close, context: Context) -> Decision:
    """Latch, then stop what runs; without anything running the session is closed at once. Repeated: joins (K1)."""
    if state.status == "closed":
        return Decision((), {"closed": True}, "closed")
    if state.status == "closing":
        return Decision((), {"closed": False}, "closing")
    latch = Draft("SessionChanged", {"closing": True})
    turns = [loop.turn for loop in state.loops.values() if loop.turn is not None]
    if not turns:
        return Decision((latch, *_end(state, context)), {"closed": True})
    fresh = [turn for turn in turns if turn.mark is None]
    data = {
        "request": command.request,
        "scope": "session",
        "turns": [turn.id for turn in fresh],
        "queue": "clear",
        "phases": {turn.id: phase_of(turn, context) for turn in fresh},
    }
    marks = (Draft("InterruptRequested", data),) if fresh else ()
    return Decision((latch, *marks), {"closed": False})


def _end(state: State, context: Context) -> list[Draft]:
    """What is left to do when nothing runs: everything that waits goes back."""
    events: list[Draft] = []
    for loop in state.loops.values():
        result = Aftermath(loop, context)
        return_all(result)
        events += result.events
    return [*events, Draft("SessionIdle"), Draft("SessionClosed")]


def change_session(state: State, command: ChangeSession, context: Context) -> Decision:
    """Change the title or settings; unknown settings are refused by name."""
    data: dict[str, Any] = {}
    if command.title is not None:
        check_text(command.title, TITLE_BYTES, "title")
        data["title"] = command.title
    if command.settings:
        check_settings(command.settings)
        data["settings"] = dict(command.settings)
    if not data:
        return Decision()  # pins and archives are no part of the history, and a closed session has them too
    open_session(state)
    return Decision((Draft("SessionChanged", data),))


def check_settings(settings: Any) -> None:
    """Refuse settings that do not exist or hold what they may not."""
    for key, value in settings.items():
        if key not in SETTINGS:
            raise Refused("invalid", f"There is no setting `{key}`.", field=f"settings.{key}", known=sorted(SETTINGS))
        if value not in SETTINGS[key]:
            raise Refused("invalid", f"`{key}` is one of {SETTINGS[key]}.", field=f"settings.{key}")


def set_member(state: State, command: SetMember, context: Context) -> Decision:
    """Record a change of somebody's role."""
    data = {"person": command.person, "role": command.role}
    return Decision((Draft("MemberChanged", data),), data)


def erase(state: State, command: Erase, context: Context) -> Decision:
    """Say who forgets the texts of which event, and why; the log's writer then forgets them (A3)."""
    check_text(command.reason, REASON_BYTES, "reason")
    return Decision((Draft("ContentErased", {"seq": command.seq, "reason": command.reason}),), {"seq": command.seq})
