"""A played worker with a long session, so that pages are measured and nothing behind them.

`python -m sessions_app.bench.played PERSON TURNS OUTPUTS` makes a session of so many turns, so many of them with 5 kB
of output, and says `{"session", "link", "events"}`. Then it does what it is asked, a line each, and says when it was
done:

- `{"words": n, "per_s": 50 | null, "a_turn": m}` streams n deltas, m of them a turn's answer;
- `{"lines": n}` streams n lines of a command's output as fast as they are taken.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sessions_app.bench.helper import hear, say

WORD: Final = " and so on, it says,"
LINES_A_DELTA: Final = 100


class Played:
    """One session, its owner, and the worker that has its turns."""

    def __init__(self, person: str) -> None:
        from sessions_app import control
        from sessions_app.ids import new_id
        from sessions_app.people.accounts import account_named
        from sessions_app.people.principals import principal_for_person

        self.account = account_named(person)
        self.owner = principal_for_person(self.account)
        made = control.create_session(self.owner, new_id(), title="A long session", model="demo:")
        self.session, self.loop = str(made["id"]), str(made["loop"])
        self.worker = new_id()
        self.turn, self.epoch, self.step = "", 0, 1
        _employ(self.worker)

    def start(self) -> None:
        """A turn at its first model call."""
        from sessions_app import control
        from sessions_app.control import reports
        from sessions_app.engine import commands
        from sessions_app.ids import new_id

        control.submit(self.owner, self.session, new_id(), text="Tell me all of it")
        claim = reports.claim(self.session, self.loop, self.worker)
        self.turn, self.epoch, self.step = claim["turn"], claim["epoch"], 1
        self.report(commands.BeginStep(self.turn, self.epoch))

    def report(self, command: Any) -> dict[str, Any]:
        from sessions_app.control import reports

        told: dict[str, Any] = reports.report(self.session, command, self.worker)
        self.step = told.get("step", self.step)
        return told

    def answer(self, text: str) -> None:
        """The turn's end."""
        from sessions_app.engine import commands

        self.report(commands.FinishModel(self.turn, self.epoch, self.step, text, usage={"output_tokens": 1}))

    def call(self, output: Iterable[str] = ()) -> None:
        """One command with this live output."""
        from sessions_app.engine import commands

        planned = (commands.PlannedCall("c", "shell", {"command": "make all"}),)
        self.report(commands.FinishModel(self.turn, self.epoch, self.step, "", calls=planned))
        arguments = {"command": "make all"}
        self.report(commands.StartTool(self.turn, self.epoch, self.step, "c", arguments, None))
        put_out = self.stream("tool", output, call="c")
        settled = commands.Settlement("ok", put_out[-10_000:] or "done")
        self.report(commands.SettleTool(self.turn, self.epoch, self.step, "c", settled))
        self.report(commands.BeginStep(self.turn, self.epoch))

    def stream(self, kind: str, pieces: Iterable[str], **fields: Any) -> str:
        """Live text of the running step; all of it."""
        from sessions_app.log import bell

        frame = {
            "t": "delta", "loop": self.loop, "turn": self.turn, "step": self.step, "attempt": 1, "kind": kind, **fields,
        }  # fmt: skip
        said = ""
        for piece in pieces:
            bell.delta(self.session, {**frame, "offset": len(said), "text": piece})
            said += piece
        return said

    def words(self, count: int, per_s: int | None, a_turn: int) -> None:
        """Turns whose answers stream."""
        pieces = _paced([WORD] * count, per_s)
        for _ in range(0, count, a_turn):
            self.start()
            some = (piece for _, piece in zip(range(a_turn), pieces, strict=False))
            self.answer(self.stream("text", some))

    def lines(self, count: int) -> None:
        """A turn with one command that puts out so many lines."""
        self.start()
        numbers = range(0, count, LINES_A_DELTA)
        self.call("".join(f"{at + line:05}: still at it\n" for line in range(LINES_A_DELTA)) for at in numbers)
        self.answer("It was made.")


def _paced(pieces: Sequence[str], per_s: int | None) -> Iterator[str]:
    began = time.monotonic()
    for number, piece in enumerate(pieces):
        if per_s is not None:
            time.sleep(max(0.0, began + number / per_s - time.monotonic()))
        yield piece


def _employ(worker: str) -> None:
    """A lease that outlives the measurement."""
    from sessions_app.log import db

    with db.cursor("write") as cur:
        cur.execute(
            """INSERT INTO worker (id, host, boot_id, pid, warden_pid, isolation, beat_at, alive_until)
               VALUES (%s, 'played', 'played', 0, 0, '', now(), now() + interval '1 hour')""",
            (worker,),
        )


def main(arguments: Sequence[str]) -> None:
    """Make the session, then do what is asked until nobody asks any more."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "steerweb.settings")
    django.setup()
    from django.conf import settings

    from sessions_app.bench.long_log import repeat_turn
    from sessions_app.log import bell, read
    from sessions_app.people.signin import make_link

    bell.configure(settings.REDIS_URL)
    person, turns, outputs = arguments[0], int(arguments[1]), int(arguments[2])
    played = Played(person)
    played.start()
    played.call()
    played.answer("It was said.")
    repeat_turn(played.session, played.worker, turns - 1, outputs)
    events = read.snapshot(played.session)["seq"]
    say({"session": played.session, "link": make_link(played.account), "events": events})
    while asked := hear():
        if "words" in asked:
            played.words(asked["words"], asked["per_s"], asked["a_turn"])
        else:
            played.lines(asked["lines"])
        say("done")


if __name__ == "__main__":
    main(sys.argv[1:])
