"""`steerweb stop`: the stop button."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli import words
from sessions_app.cli.client import DEADLINE, USAGE, Client, Failure
from sessions_app.cli.terminal import TerminalCommand, print_json, session_id
from sessions_app.ids import new_id


class Command(TerminalCommand):
    help = "stop what runs and wait until it has ended (exit code 4: not ended in time, the stop goes on)"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("session", nargs="?", type=session_id)
        which.add_argument("--mine", action="store_true", help="every session you created")
        which.add_argument("--all", action="store_true", help="every session you may stop")
        parser.add_argument("--reason", help="why, for the history")
        parser.add_argument(
            "--queue",
            choices=("run", "hold", "clear"),
            help="what waits: runs next (default), is paused, or is given back",
        )
        parser.add_argument("--then", metavar="TEXT", help="a message to go on with: stop and send")
        parser.add_argument(
            "--wait", type=float, default=10.0, help="seconds to wait for the end (default: 10; 0: do not)"
        )
        parser.add_argument("--loop", help="only this agent and those below it")
        parser.add_argument("--turn", help="only this turn")
        parser.add_argument("--keep-background", action="store_true", help="leave background processes running")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        if options["session"] is None:
            self._stop_many(client, options)
            return
        wait = options["wait"]
        body = {name: options[name] for name in ("loop", "turn", "reason", "queue", "keep_background", "wait")}
        body["then"] = {"text": options["then"]} if options["then"] is not None else None
        receipt = client.post(f"/sessions/{options['session']}/interrupt", body, new_id(), wait_s=wait)
        if options["json"]:
            print_json(receipt)
        else:
            print(words.stopped(receipt) if wait else words.stop_accepted(receipt))

    def _stop_many(self, client: Client, options: dict[str, Any]) -> None:
        given = [f"--{name}" for name in ("then", "loop", "turn") if options[name] is not None]
        given += ["--keep-background"] if options["keep_background"] else []
        if given:
            raise Failure(f"{given[0]} needs one session.", USAGE)
        body = {"scope": "all" if options["all"] else "mine", "reason": options["reason"], "queue": options["queue"]}
        answer = client.post("/interrupt", body, new_id(), wait_s=options["wait"])
        print_json(answer) if options["json"] else print(words.stopped_sessions(answer["sessions"]))
        if any(item.get("code") == "deadline" for item in answer["sessions"]):
            raise SystemExit(DEADLINE)
