"""`verify` and `rebuild` on a terminal."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from django.core.management import CommandError, call_command

from sessions_app.engine.errors import Refused
from sessions_app.log import chain
from tests.support.world import World


def worked() -> World:
    world = World.create("ana")
    world.start("go")
    world.answer("done")
    return world


@pytest.mark.rule("A2", "A3")
@pytest.mark.usefixtures("database", "redis_url")
def test_a_whole_log_is_said_to_be_whole(capsys: pytest.CaptureFixture[str]) -> None:
    worked()
    worked()
    call_command("verify")
    assert capsys.readouterr().out == "2 sessions: all is whole.\n"


@pytest.mark.rule("A2")
@pytest.mark.usefixtures("redis_url")
def test_a_cache_that_differs_is_named_and_rebuilt(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = worked()
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE session SET title = 'forged' WHERE id = %s", [world.session])
    with pytest.raises(SystemExit) as ended:
        call_command("verify", world.session, "--json")
    assert ended.value.code == 1
    fault = json.loads(capsys.readouterr().out)
    assert (fault["session"], fault["seq"]) == (world.session, None)
    assert "title" in fault["what"]
    call_command("rebuild")
    assert "1 session rebuilt: 1 difference put right." in capsys.readouterr().out
    call_command("verify")
    assert capsys.readouterr().out == "1 session: all is whole.\n"


@pytest.mark.rule("A3")
@pytest.mark.usefixtures("redis_url")
def test_a_changed_event_is_named(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = worked()
    seq = world.events("InputQueued")[0].seq
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE event DISABLE TRIGGER USER")
        connection.execute(
            "UPDATE event SET texts = convert_to('\"gone\"', 'UTF8') WHERE session_id = %s AND seq = %s",
            [world.session, seq],
        )
        connection.execute("ALTER TABLE event ENABLE TRIGGER USER")
    with pytest.raises(SystemExit):
        call_command("verify")
    assert f"{world.session} event {seq}: its texts were changed" in capsys.readouterr().out


def test_a_database_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> list[str]:
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr("sessions_app.log.chain.sessions", away)
    with pytest.raises(CommandError, match=r"^The database does not answer: connection refused$"):
        call_command("verify")


@pytest.mark.rule("A2")
@pytest.mark.usefixtures("redis_url")
def test_a_new_version_folds_what_an_earlier_one_left(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command on a state of another fold is refused; `up` waits for `prepare` to put that right."""
    world = worked()
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE session SET fold = 1, state = '{}' WHERE id = %s", [world.session])
    with pytest.raises(Refused) as refused:
        world.submit("again")
    assert refused.value.code == "unavailable"
    call_command("prepare")
    assert json.loads(capsys.readouterr().out)["done"] == ["1 session folded anew for this version."]
    world.submit("again")
    call_command("prepare", "--no-sign-in")
    assert capsys.readouterr().out == "The database is up to date.\n"


@pytest.mark.rule("A2")
@pytest.mark.usefixtures("redis_url")
def test_a_session_that_cannot_be_folded_anew_keeps_nobody_from_starting(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = worked(), worked()
    rebuild = chain.rebuild

    def fail(session: str | None = None) -> Iterator[chain.Fault]:
        if session == bad.session:
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
        return rebuild(session)

    monkeypatch.setattr(chain, "rebuild", fail)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE session SET fold = 1")
    call_command("prepare", "--no-sign-in")
    said = capsys.readouterr().out
    assert "1 session folded anew" in said and bad.session in said
    good.submit("again")
