"""What Ctrl-C waits for: the commands that run at this moment, and what happens to them and to everything else."""

from typing import Final

import psycopg

ASK_S: Final = 2
NAMED: Final = 3
"""How many sessions are named; the rest are counted."""
_COMMANDS: Final = """SELECT s.title FROM running_turn r
    JOIN worker w ON w.id = r.worker JOIN session s ON s.id = r.session
    WHERE r.phase = 'tool' AND w.pid = ANY(%s) AND w.alive_until > clock_timestamp() ORDER BY r.since"""


def at_work(database_url: str, workers: list[int]) -> list[str] | None:
    """The titles of the sessions in which a command of these workers (process ids) runs; None: nobody can say."""
    try:
        with psycopg.connect(database_url, connect_timeout=ASK_S, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = {ASK_S * 1000}")
            return [str(row[0]) for row in connection.execute(_COMMANDS, [workers])]
    except psycopg.Error:
        return None


def stopping(titles: list[str] | None, grace: float) -> str:
    """What `up` says at Ctrl-C."""
    longer = "what takes longer is ended and its turn interrupted. Ctrl-C again: it is ended now"
    rest = "everything else goes on with the next start"
    if titles is None:
        return f"Stopping. A running command has {grace:g} s to finish; {longer}; {rest}."
    if not titles:
        return "Stopping. No command runs; all turns go on with the next start."
    several = f"{len(titles)} running commands" if len(titles) > 1 else "a running command"
    return f"Stopping. It waits up to {grace:g} s for {several} ({_named(titles)}); {longer}; {rest}."


def _named(titles: list[str]) -> str:
    named = [f"“{_plain(title)}”" for title in dict.fromkeys(titles)]
    more = len(named) - NAMED
    return ", ".join(named[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _plain(title: str) -> str:
    """A title that cannot drive a terminal, on one line."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in title).split())
    return (line if len(line) <= 60 else line[:59] + "…") or "a session without a title"
