"""One family of errors: a stable code with its HTTP status (M)."""

import pytest

from sessions_app.engine.errors import STATUS, Refused

CONTRACT = {
    400: "invalid blank",
    401: "unauthenticated",
    403: "not_allowed",
    404: "session_not_found loop_not_found turn_not_found input_not_found steer_not_found gate_not_found not_found",
    409: "queue_full steer_full turn_mismatch already_taken command_id_reused gate_closed loop_closed session_closing",
    413: "too_large",
    429: "rate_limited",
    503: "unavailable",
    504: "deadline",
}
OURS = {"too_late": 409, "stale": 409, "file_not_found": 404, "files_full": 409}


@pytest.mark.rule("M")
def test_every_code_of_the_contract_has_its_status_and_there_are_no_others_but_ours() -> None:
    expected = {code: status for status, codes in CONTRACT.items() for code in codes.split()}
    assert {**expected, **OURS} == STATUS


@pytest.mark.rule("M")
def test_an_error_says_what_a_program_and_what_a_person_needs() -> None:
    error = Refused("rate_limited", "Too fast.", retry_after=1.5, limit=10)
    assert (error.code, error.status, error.detail, error.retry_after, error.data) == (
        "rate_limited", 429, "Too fast.", 1.5, {"limit": 10},
    )  # fmt: skip
    assert str(error) == "rate_limited: Too fast.", "as a log shows it"
    with pytest.raises(KeyError):
        Refused("made_up", "There is no such code.")
