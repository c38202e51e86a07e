"""Append rate: a person's command through all of `control`, against the same SQL without us.

Ours is `submit` and `retract_input` in turns, so the inbox stays short: permission, session lock, decision, chain, event,
cached state, command table, commit, bell, and the offer to the workers. Bare is plain psycopg on the same tables:
lock the session's row, insert an event of the same size, update the row, commit. Each runs with one session and with
twenty at once, every session in a thread of its own; windows of the two alternate, as the machine is not always alone.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from sessions_app.bench.figures import Spread, spread_of
from sessions_app.bench.helper import Helper, say
from sessions_app.bench.stage import Stage

MANY: Final = 20
TEXT: Final = "Please look at the failing test in the billing module, and tell me first what you think is wrong. " * 2


@dataclass(frozen=True, slots=True)
class Rates:
    """With so many sessions at once: appends per second, ours as a share of the bare ones, and one append's time."""

    sessions: int
    ours_per_s: float
    bare_per_s: float
    ratio: float
    ours_ms: Spread
    bare_ms: Spread


@dataclass(frozen=True, slots=True)
class Appends:
    """One session, and `MANY`."""

    one: Rates
    many: Rates


def measure(stage: Stage, *, quick: bool) -> Appends:
    """Measure on a stage where no worker runs, or it would take the messages."""
    window_s, rounds = (0.5, 1) if quick else (2.0, 3)
    with Helper(
        "appends", stage.person, str(window_s), str(rounds), env=stage.environment(), log=stage.folder / "appends.log"
    ) as helper:
        one, many = (_from_json(helper.answer()) for _ in (1, MANY))
    return Appends(one, many)


def _from_json(value: dict[str, Any]) -> Rates:
    spreads = {name: Spread.from_json(value[name]) for name in ("ours_ms", "bare_ms")}
    return Rates(**{**value, **spreads})


# The helper's side: a process with Django on the stage's database.

Append = Callable[[], object]


def _ours(person: str, sessions: int) -> list[Append]:
    """One appender per session, each the owner's commands in a session of its own."""
    from sessions_app import control
    from sessions_app.ids import new_id
    from sessions_app.people.accounts import account_named
    from sessions_app.people.principals import principal_for_person

    principal = principal_for_person(account_named(person))

    def appends(session: str) -> Iterator[None]:
        while True:
            made = control.submit(principal, session, new_id(), text=TEXT)
            yield
            control.retract_input(principal, session, new_id(), made["input"])
            yield

    made = [control.create_session(principal, new_id(), title="bench")["id"] for _ in range(sessions)]
    return [appends(session).__next__ for session in made]


def _bare(person: str, sessions: int) -> list[Append]:
    """The same number of sessions and events of the size of ours, on a connection each."""
    import psycopg
    from django.conf import settings

    _ours(person, 1)[0]()  # an event to take the size from
    with psycopg.connect(settings.DATABASE_URL) as connection:
        event = connection.execute("SELECT * FROM event WHERE type = 'InputQueued' ORDER BY at DESC LIMIT 1").fetchone()
        names = [each.name for each in connection.execute("SELECT * FROM event LIMIT 0").description or ()]
        assert event is not None
        row = dict(zip(names, event, strict=True))
        state = connection.execute("SELECT state::text FROM session WHERE id = %s", [row["session_id"]]).fetchone()
        assert state is not None
    insert = f"INSERT INTO event ({', '.join(names)}) VALUES ({', '.join(f'%({name})s' for name in names)})"  # noqa: S608

    def appends(session: str) -> Iterator[None]:
        with closing(psycopg.connect(settings.DATABASE_URL)) as connection:
            while True:
                with connection.transaction():
                    found = connection.execute("SELECT head FROM session WHERE id = %s FOR UPDATE", [session]).fetchone()
                    assert found is not None
                    seq = found[0] + 1
                    connection.execute(insert.encode(), {**row, "session_id": session, "seq": seq})
                    connection.execute(
                        "UPDATE session SET head = %s, chain = %s, state = %s::jsonb, active_at = %s WHERE id = %s",
                        [seq, row["link"], state[0], row["at"], session],
                    )
                yield

    from sessions_app import control
    from sessions_app.ids import new_id
    from sessions_app.people.accounts import account_named
    from sessions_app.people.principals import principal_for_person

    principal = principal_for_person(account_named(person))
    made = [control.create_session(principal, new_id(), title="bare")["id"] for _ in range(sessions)]
    return [appends(session).__next__ for session in made]


def _window(appenders: Sequence[Append], window_s: float) -> tuple[list[float], float]:
    """Let all of them append for so long, a thread each: each append's time, and the whole time, in seconds."""
    times: list[list[float]] = [[] for _ in appenders]
    together = threading.Barrier(len(appenders) + 1)

    def run(append: Append, mine: list[float]) -> None:
        append()  # opens the connection, prepares the statements
        together.wait()
        until = time.perf_counter() + window_s
        before = time.perf_counter()
        while before < until:
            append()
            after = time.perf_counter()
            mine.append(after - before)
            before = after

    threads = [threading.Thread(target=run, args=each) for each in zip(appenders, times, strict=True)]
    for thread in threads:
        thread.start()
    together.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return [each for mine in times for each in mine], time.perf_counter() - began


def _rates(person: str, sessions: int, window_s: float, rounds: int) -> Rates:
    kinds = {"ours": _ours(person, sessions), "bare": _bare(person, sessions)}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    spent = dict.fromkeys(kinds, 0.0)
    for _ in range(rounds):
        for kind, appenders in kinds.items():
            found, window = _window(appenders, window_s)
            times[kind] += found
            spent[kind] += window
    ours, bare = (len(times[kind]) / spent[kind] for kind in ("ours", "bare"))
    return Rates(
        sessions,
        round(ours, 1),
        round(bare, 1),
        round(ours / bare, 3),
        spread_of(times["ours"]),
        spread_of(times["bare"]),
    )


def main(arguments: Sequence[str]) -> None:
    """Say the rates of one session, then those of many."""
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "steerweb.settings")
    django.setup()
    person, window_s, rounds = arguments[0], float(arguments[1]), int(arguments[2])
    for sessions in (1, MANY):
        say(_rates(person, sessions, window_s, rounds))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
