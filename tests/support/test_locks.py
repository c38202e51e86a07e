"""The lock in a test's hand: it is held once what was waited for has happened, whoever came before."""

from threading import Thread

from tests.support.locks import held_once
from tests.support.world import World


def test_it_is_held_after_what_happened_and_not_after_whoever_came_first(database: str) -> None:
    world = World.create()

    def texts() -> list[str]:
        return [event.data["text"] for event in world.events("InputQueued")]

    def submit() -> None:
        for text in ("another's", "awaited", "next"):
            world.submit(text)

    others = Thread(target=submit)
    with held_once(database, world.session, others.start, lambda: "awaited" in texts()) as lock:
        lock.wait_for_another()
        assert texts() == ["another's", "awaited"]
    others.join(30)
    assert texts() == ["another's", "awaited", "next"]
