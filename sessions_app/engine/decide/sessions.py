"""The session itself: closing (K), title and settings, members, erasing (A3)."""

from typing import Any

from sessions_app.engine.commands import ChangeSession, Close, Erase, SetMember
from sessions_app.engine.decide.context import Context, Decision, open_session
from sessions_app.engine.decide.course import Course
from sessions_app.engine.decide.ending import end_given_back, phase_of
from sessions_app.engine.decide.fates import Aftermath, return_all
from sessions_app.engine.decide.settling import kills
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import REASON_BYTES, TITLE_BYTES, check_text
from sessions_app.engine.state import Loop, State

SETTINGS = {"keep_partial_reply": (True, False), "stop_queue": ("run", "hold", "clear")}
"""What a session's settings may hold: whether a cut-off reply goes to the model (C3), and a stop's default for what
waits (E12)."""


def close(state: State, command: Close, context: Context) -> Decision:
    """Latch, then stop what runs; without anything running the session is closed at once. Repeated: joins (K1)."""
    if state.status == "closed":
        return Decision((), {"closed": True}, "closed")
    if state.status == "closing":
        return Decision((), {"closed": False}, "closing")
    course = Course(state, context)
    course.add(Draft("SessionChanged", {"closing": True}))
    loops = [*state.below(state.primary()), state.primary()]
    running = [loop.turn for loop in loops if loop.turn is not None]
    fresh = [turn for turn in running if turn.mark is None]
    if fresh:
        phases = {turn.id: phase_of(turn, context) for turn in fresh}
        data = {
            "request": command.request, "scope": "session", "turns": list(phases), "queue": "clear", "phases": phases,
        }  # fmt: skip
        course.add(Draft("InterruptRequested", data))
    course.add(*(each for loop in loops for each in kills(loop)))
    if not running:
        _give_back(course, loops)
    end_given_back(course, loops)
    return course.decision({"closed": course.state.status == "closed"})


def _give_back(course: Course, loops: list[Loop]) -> None:
    """What is left to do when nothing runs: everything that waits goes back."""
    for loop in loops:
        result = Aftermath(loop, course.context)
        return_all(result, "session_closed")
        course.add(*result.events)
    course.add(Draft("SessionIdle"), Draft("SessionClosed"))


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
