"""The one family of errors (M): a stable code, an HTTP status, a retry hint and data. Match by code, never by text."""

from typing import Final

STATUS: Final[dict[str, int]] = {
    "invalid": 400,
    "blank": 400,
    "unauthenticated": 401,
    "not_allowed": 403,
    "session_not_found": 404,
    "loop_not_found": 404,
    "turn_not_found": 404,
    "input_not_found": 404,
    "steer_not_found": 404,
    "gate_not_found": 404,
    "file_not_found": 404,
    "not_found": 404,
    "queue_full": 409,
    "steer_full": 409,
    "files_full": 409,
    "turn_mismatch": 409,
    "already_taken": 409,
    "command_id_reused": 409,
    "gate_closed": 409,
    "loop_closed": 409,
    "session_closing": 409,
    "too_late": 409,
    "stale": 409,
    "too_large": 413,
    "rate_limited": 429,
    "unavailable": 503,
    "deadline": 504,
}
"""HTTP status of each code. `too_late`, for a stop past its sender's limit, `file_not_found` and `files_full` are
additions of ours; `turn_not_found` answers nothing yet: a stop of a turn that never was is told `turn_over`, as one of
a turn that is over; `stale` never leaves the server: it answers a worker that lost its lease (C1).
"""


NO_SESSION: Final = "There is no such session, or it is not yours."
"""One sentence for both, so that nobody learns which ids exist."""


class Refused(Exception):
    """A command that changed nothing, with the reason a program can match (`code`) and a person can read (`detail`)."""

    def __init__(self, code: str, detail: str, *, retry_after: float | None = None, **data: object) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = STATUS[code]
        self.retry_after = retry_after
        self.data: dict[str, object] = data
