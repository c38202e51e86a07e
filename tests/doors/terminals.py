"""A printer and what it wrote, with the frames that it is given."""

from typing import Any

from sessions_app.cli.printer import Printer

TURN = "0197a1c2-0000-7000-8000-000000000001"
LOOP = "0197a1c2-0000-7000-8000-00000000000a"
AT = "2026-11-30T04:21:12.000000Z"
ANA = {"kind": "person", "id": "1", "name": "Ana", "device": {"kind": "phone", "name": "Chrome on Android"}}
WORKER = {"kind": "system", "id": "worker", "name": "steerweb", "device": None}


class Terminal:
    """A printer and what it wrote. What names no loop is the main agent's."""

    def __init__(self, *, colour: bool = False) -> None:
        self.text = ""
        self.now = 0.0
        self.printer = Printer(self._write, colour=colour, clock=lambda: self.now)

    def _write(self, text: str) -> None:
        self.text += text

    def event(
        self,
        type_: str,
        data: dict[str, Any],
        *,
        step: int = 1,
        actor: Any = WORKER,
        seq: int = 1,
        loop: str = LOOP,
        turn: str = TURN,
        cause: str | None = None,
        at: str = AT,
    ) -> None:
        self.printer.frame(
            {
                "t": "event",
                "seq": seq,
                "type": type_,
                "loop": loop,
                "turn": turn,
                "step": step,
                "actor": actor,
                "cause": cause,
                "at": at,
                "data": data,
            }
        )

    def delta(self, text: str, offset: int, **fields: Any) -> None:
        self.printer.frame(self.piece(text, offset, **fields))

    @staticmethod
    def piece(
        text: str,
        offset: int,
        *,
        kind: str = "text",
        step: int = 1,
        attempt: int = 1,
        loop: str = LOOP,
        turn: str = TURN,
    ) -> dict[str, Any]:
        return {
            "t": "delta",
            "loop": loop,
            "turn": turn,
            "step": step,
            "attempt": attempt,
            "kind": kind,
            "call": "c1" if kind == "tool" else None,
            "offset": offset,
            "text": text,
        }
