"""Long sessions, quickly: a played turn, repeated."""

from sessions_app.bench.long_log import OUTPUT
from sessions_app.bench.long_log import repeat_turn as _repeat
from tests.support.world import WORKER, World

__all__ = ["OUTPUT", "repeat_turn"]


def repeat_turn(world: World, times: int, outputs: int = 0) -> None:
    """Append the session's last turn so many times more; `outputs` of its calls settle with 5 kB."""
    _repeat(world.session, WORKER, times, outputs)
