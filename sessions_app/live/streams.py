"""The text of running steps, put together from deltas: offsets trimmed, gaps noticed, attempts restarted (L2).

A stream is named by turn, step, kind and call. Deltas come by the bell and may be lost or late; `stream_text` holds the
same texts a quarter of a second behind. Both are fed in here, and what comes out is each character exactly once. Events
say which streams are over: from then on their deltas are ignored, and their memory is free.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sessions_app.live.counters import counters
from sessions_app.log.stream import LIVE_CHARS, LIVE_NOTE, Key, Piece

PENDING_CHARS: Final = LIVE_CHARS
"""How much may wait behind a gap; beyond it the saved text has to bring everything."""
TURNS_REMEMBERED: Final = 512
"""How many turns that are over are remembered, so that a late delta of one is ignored."""

TURN_ENDS: Final = frozenset({"TurnDone", "TurnFailed", "TurnInterrupted"})


@dataclass(frozen=True, slots=True)
class Fresh:
    """Text that nobody here has seen yet, ready to be passed on. `offset` is in code points."""

    key: Key
    loop: str
    attempt: int
    offset: int
    text: str

    def message(self) -> dict[str, Any]:
        turn, step, kind, call = self.key
        message: dict[str, Any] = {
            "t": "delta", "loop": self.loop, "turn": turn, "step": step, "attempt": self.attempt, "kind": kind,
            "offset": self.offset, "text": self.text,
        }  # fmt: skip
        if call:
            message["call"] = call
        return message


@dataclass(slots=True)
class _Stream:
    """One attempt of one stream. `gap` is set while `pending` deltas wait for the text before them."""

    loop: str
    attempt: int
    parts: list[str] = field(default_factory=list)
    length: int = 0
    octets: int = 0
    gap: bool = False
    pending: deque[tuple[int, str]] = field(default_factory=deque)
    pending_chars: int = 0

    def text(self) -> str:
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""

    def append(self, text: str) -> str:
        """Append what is still live of `text`, the note where live ends; what was appended."""
        if self.length > LIVE_CHARS:
            return ""
        if self.length + len(text) > LIVE_CHARS:
            text = text[: LIVE_CHARS - self.length] + LIVE_NOTE
        self.parts.append(text)
        self.length += len(text)
        self.octets += len(text.encode())
        return text


@dataclass(slots=True)
class _Progress:
    """Which streams of a running turn are over: all of steps up to `steps`, the model's text up to `texts`, `calls`.
    `attempt` is the newest step and attempt of a model call that was heard of."""

    steps: int = 0
    texts: int = 0
    calls: set[str] = field(default_factory=set)
    attempt: tuple[int, int] = (0, 0)


class Streams:
    """The streams of one session's running steps."""

    def __init__(self) -> None:
        self._streams: dict[Key, _Stream] = {}
        self._progress: dict[str, _Progress] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    # What comes in

    def begin(self, state: Mapping[str, Any]) -> None:
        """Learn from a session's state which steps are over already."""
        for loop in state["loops"].values():
            turn = loop["turn"]
            if turn is not None:
                calls = turn["calls"]
                settled = {call["call"] for call in calls or () if call["status"] == "settled"}
                texts = turn["step"] if calls is not None else turn["step"] - 1
                self._progress[turn["id"]] = _Progress(turn["step"] - 1, texts, settled)

    def event(self, type_: str, turn: str | None, step: int | None, call: str | None) -> None:
        """An event of the log: streams that it ends are freed, and their late deltas ignored from here on."""
        if turn is None or turn in self._ended:
            return
        if type_ in TURN_ENDS:
            self._ended[turn] = None
            self._progress.pop(turn, None)
            if len(self._ended) > TURNS_REMEMBERED:
                self._ended.popitem(last=False)
        elif type_ == "ToolSettled" and call is not None:
            self._of(turn).calls.add(call)
        elif step is None:
            return
        elif type_ == "StepPlanned":
            self._of(turn).texts = step
        elif type_ in ("StepDone", "OutputSuperseded"):
            progress = self._of(turn)
            progress.steps = progress.texts = step
            progress.calls.clear()
        else:
            return
        for key in [key for key in self._streams if key[0] == turn and self.over(key)]:
            del self._streams[key]

    def delta(self, message: Mapping[str, Any]) -> list[Fresh]:
        """A delta of the bell: what of it (and of what waited behind it) is new."""
        key: Key = (message["turn"], message["step"], message["kind"], message.get("call") or "")
        stream = self._stream(key, message["loop"], message["attempt"])
        if stream is None:
            return []
        offset, text = message["offset"], message["text"]
        if offset > stream.length and stream.length < LIVE_CHARS:
            if not stream.gap:
                counters.delta_gaps_missed += 1
            stream.gap = True
            stream.pending.append((offset, text))
            stream.pending_chars += len(text)
            if stream.pending_chars > PENDING_CHARS:
                stream.pending.clear()
                stream.pending_chars = 0
            return []
        return self._take(key, stream, offset, text) + self._pending(key, stream)

    def saved(self, piece: Piece) -> list[Fresh]:
        """A saved text: what of it, and of the deltas that waited for it, is new."""
        stream = self._stream(piece.key, piece.loop, piece.attempt)
        if stream is None:
            return []
        return self._take(piece.key, stream, 0, piece.text) + self._pending(piece.key, stream)

    # What can be asked

    def over(self, key: Key) -> bool:
        """Whether a stream's step, or its part of it, is over."""
        turn, step, _, call = key
        if turn in self._ended:
            return True
        progress = self._progress.get(turn)
        if progress is None:
            return False
        return step <= progress.steps or (call in progress.calls if call else step <= progress.texts)

    def gaps(self) -> bool:
        """Whether some stream waits for a text that was missed."""
        return any(stream.gap for stream in self._streams.values())

    def behind(self, key: Key, attempt: int, octets: int) -> bool:
        """Whether a saved text of that many bytes of UTF-8 has more than we have."""
        if self.over(key):
            return False
        stream = self._streams.get(key)
        if stream is None or attempt > stream.attempt:
            return octets > 0
        return attempt == stream.attempt and (octets > stream.octets or stream.gap)

    def since(self, key: Key, attempt: int, offset: int) -> Fresh | None:
        """All text from an offset on, for a client that was behind; from 0 where a newer attempt has begun."""
        stream = self._streams.get(key)
        if stream is None:
            return None
        start = offset if stream.attempt == attempt else 0
        text = stream.text()[start:]
        return Fresh(key, stream.loop, stream.attempt, start, text) if text else None

    def steps(self) -> Iterator[Fresh]:
        """The text so far of everything that runs, for a client that joins now."""
        for key, stream in self._streams.items():
            if stream.length:
                yield Fresh(key, stream.loop, stream.attempt, 0, stream.text())

    # Inside

    def _of(self, turn: str) -> _Progress:
        return self._progress.setdefault(turn, _Progress())

    def _stream(self, key: Key, loop: str, attempt: int) -> _Stream | None:
        """The stream to append to; None for one that is over, or of an attempt that is."""
        if self.over(key):
            return None
        stream = self._streams.get(key)
        if (stream is not None and attempt < stream.attempt) or (not key[3] and not self._model_attempt(key, attempt)):
            return None
        if stream is None or attempt > stream.attempt:
            stream = self._streams[key] = _Stream(loop, attempt)
        return stream

    def _model_attempt(self, key: Key, attempt: int) -> bool:
        """Whether this attempt of a model call still runs; a new one ends both text and reasoning of those before."""
        progress, step = self._of(key[0]), key[1]
        if step == progress.attempt[0] and attempt < progress.attempt[1]:
            return False
        if (step, attempt) > progress.attempt:
            progress.attempt = (step, attempt)
            for other, stream in list(self._streams.items()):
                if other[:2] == key[:2] and not other[3] and stream.attempt < attempt:
                    del self._streams[other]
        return True

    def _pending(self, key: Key, stream: _Stream) -> list[Fresh]:
        """What waited for the text before it and now follows it."""
        fresh: list[Fresh] = []
        while stream.pending and stream.pending[0][0] <= stream.length:
            offset, text = stream.pending.popleft()
            stream.pending_chars -= len(text)
            fresh += self._take(key, stream, offset, text)
        if stream.gap and not stream.pending:
            stream.gap = False
            counters.delta_gaps_repaired += 1
        return fresh

    @staticmethod
    def _take(key: Key, stream: _Stream, offset: int, text: str) -> list[Fresh]:
        start = stream.length
        appended = stream.append(text[start - offset :])
        return [Fresh(key, stream.loop, stream.attempt, start, appended)] if appended else []
