"""The verbs: permission, then lock, decide, append. Every door calls these and nothing below them."""

from sessions_app.control.approvals import change_loop, resolve, revoke_rule, set_mode
from sessions_app.control.creating import create_session
from sessions_app.control.keeping import change_session, erase, set_member
from sessions_app.control.stopping import (
    Scope,
    close,
    give_reason,
    interrupt,
    interrupt_many,
    kill_processes,
    stoppable,
)
from sessions_app.control.uploading import upload
from sessions_app.control.verbs import (
    edit_input,
    edit_steer,
    release,
    retract_input,
    retry_input,
    steer,
    submit,
    withdraw_steer,
)
from sessions_app.control.waiting import stop_outcome, wait_many, wait_stopped

__all__ = [
    "Scope",
    "change_loop",
    "change_session",
    "close",
    "create_session",
    "edit_input",
    "edit_steer",
    "erase",
    "give_reason",
    "interrupt",
    "interrupt_many",
    "kill_processes",
    "release",
    "resolve",
    "retract_input",
    "retry_input",
    "revoke_rule",
    "set_member",
    "set_mode",
    "steer",
    "stop_outcome",
    "stoppable",
    "submit",
    "upload",
    "wait_many",
    "wait_stopped",
    "withdraw_steer",
]
