"""Append rate: a person's command through all of `control`, against the same SQL without us.

Ours is `steer` and `withdraw_steer` in turns, so that nothing piles up: permission, session lock, decision, chain,
event, cached state, command table, commit, and the bell. Bare is plain psycopg on the same tables: lock the session's
row, insert an event of the same size, update the row, commit. Each runs with one session and with twenty at once, every
session in a thread of its own; windows of the two alternate, as the machine is not always alone.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessions_app.bench.figures import Spread, spread_of
from sessions_app.bench.helper import Helper, say
from sessions_app.bench.stage import Stage

if TYPE_CHECKING:
    from sessions_app.people.principals import Principal

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
    window_s, rounds = (0.5, 1) if quick else (2.0, 2)
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


def _new_sessions(person: str, count: int) -> "tuple[Principal, list[str]]":
    from sessions_app import control
    from sessions_app.ids import new_id
    from sessions_app.people.accounts import account_named
    from sessions_app.people.principals import principal_for_person

    principal = principal_for_person(account_named(person))
    return principal, [str(control.create_session(principal, new_id(), title="bench")["id"]) for _ in range(count)]


def _ours(person: str, count: int) -> list[Append]:
    """The owner's commands in so many sessions."""
    from sessions_app import control
    from sessions_app.ids import new_id

    principal, sessions = _new_sessions(person, count)

    def appends(session: str) -> Iterator[None]:
        while True:
            steer = control.steer(principal, session, new_id(), text=TEXT)["steer"]
            yield
            control.withdraw_steer(principal, session, new_id(), steer)
            yield

    return [appends(session).__next__ for session in sessions]


def _bare(person: str, count: int) -> list[Append]:
    """The same in as many other sessions, each on a connection of its own, with a copy of one of our events."""
    import psycopg
    from django.conf import settings
    from psycopg import sql
    from psycopg.rows import dict_row

    _ours(person, 1)[0]()
    with psycopg.connect(settings.DATABASE_URL, row_factory=dict_row) as connection:
        query = "SELECT e.*, s.state::text FROM event e JOIN session s ON s.id = e.session_id WHERE e.seq = s.head"
        copied = connection.execute(f"{query} AND e.type = 'SteerQueued' LIMIT 1").fetchone()
    assert copied is not None
    columns = [name for name in copied if name != "state"]
    insert = sql.SQL("INSERT INTO event ({}) VALUES ({})").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(map(sql.Placeholder, columns))
    )
    update = """UPDATE session SET head = %(seq)s, chain = %(link)s, state = %(state)s, active_at = %(at)s
        WHERE id = %(session_id)s"""

    def appends(session: str) -> Iterator[None]:
        with closing(psycopg.connect(settings.DATABASE_URL)) as connection:
            while True:
                with connection.transaction():
                    lock = "SELECT head FROM session WHERE id = %s FOR UPDATE"
                    (head,) = connection.execute(lock, [session]).fetchone() or (0,)
                    row = {**copied, "session_id": session, "seq": head + 1}
                    connection.execute(insert, row)
                    connection.execute(update, row)
                yield

    return [appends(session).__next__ for session in _new_sessions(person, count)[1]]


def _window(appenders: Sequence[Append], window_s: float) -> tuple[list[float], float]:
    """Let all of them append for so long, a thread each: each append's time, and the whole time, in seconds."""

    def run(append: Append) -> list[float]:
        times, before = [], time.perf_counter()
        while before < until:
            append()
            after = time.perf_counter()
            times.append(after - before)
            before = after
        return times

    began = time.perf_counter()
    until = began + window_s
    with ThreadPoolExecutor(len(appenders)) as threads:
        found = list(threads.map(run, appenders))
    return [each for times in found for each in times], time.perf_counter() - began


def _rates(person: str, sessions: int, window_s: float, rounds: int) -> Rates:
    kinds = {"ours": _ours(person, sessions), "bare": _bare(person, sessions)}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    spent = dict.fromkeys(kinds, 0.0)
    for appenders in kinds.values():
        _window(appenders, window_s / 2)  # not counted: pools grow, statements are prepared
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
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "steerweb.settings")
    django.setup()
    person, window_s, rounds = arguments[0], float(arguments[1]), int(arguments[2])
    for sessions in (1, MANY):
        say(_rates(person, sessions, window_s, rounds))


if __name__ == "__main__":
    main(sys.argv[1:])
