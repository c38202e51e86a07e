"""One family of errors: a stable code with its HTTP status (M)."""

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.errors import STATUS, Refused
from tests.engine.harness import WORKER, Memory

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


@pytest.mark.rule("M")
def test_a_refusal_names_what_it_is_about() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    turn = memory.turn
    first, second = (c.StartTool(turn.id, turn.epoch, 1, call, {}) for call in ("a", "b"))
    assert memory.refused(second, WORKER).data == {"call": "b"}, "an earlier one has not settled"
    memory.call("a")
    assert memory.refused(first, WORKER).data == {"call": "a"}, "it has started already"
    assert memory.refused(c.StartTool(turn.id, turn.epoch, 1, "z", {}), WORKER).data == {"call": "z"}
    assert memory.refused(c.FinishModel(turn.id, turn.epoch, 1, "again"), WORKER).data == {"step": 1}
    assert memory.refused(c.BeginStep(turn.id, 7), WORKER).data == {"turn": turn.id, "epoch": 7}
    assert memory.refused(c.Submit("i", "x", "nobody")).data == {"loop": "nobody"}
    many = [memory.upload() for _ in range(11)]
    assert memory.refused(c.Submit("i", "look", files=many)).data == {"field": "files", "limit": 10}


@pytest.mark.rule("K1", "M")
def test_a_session_that_is_closing_is_not_called_closed() -> None:
    memory = Memory()
    memory.start()
    memory.close()
    assert memory.refused(c.Submit("i", "x")).detail == "The session is closing."
    memory.end()
    assert memory.refused(c.Submit("i", "x")).detail == "The session is closed."
