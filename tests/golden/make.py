"""Golden logs: representative sessions with fixed ids and a fixed clock, told through the pure engine.

Beside each `<name>.jsonl` (the frames a member is sent) stand `<name>.state.json` (the fold at its end) and
`<name>.transcript.json` (what the model would be sent next). Tests compare them exactly, and the browser's reducer
folds the same files. `python -m tests.golden.make` writes them anew after a change that is meant.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from sessions_app.engine import commands as c
from sessions_app.engine.events import Event
from sessions_app.engine.state import to_json
from sessions_app.engine.transcript import Transcript
from sessions_app.log import payload
from sessions_app.log.frames import Stored, event_frame
from tests.engine.harness import ANA, BEN, BOT, LOOP, Memory

FOLDER: Final = Path(__file__).parent
START_MS: Final = 1_767_603_600_000
"""2026-01-05, 09:00 UTC."""
SURVIVOR: Final = {"ended": [], "surviving": [{"pid": 41, "command": "sleep 999"}], "background": []}


def plain_turn(memory: Memory) -> None:
    """One question, one answer."""
    memory.start("What is in this folder?")
    memory.answer("Two files and a folder.", reasoning="A short answer will do.")


def calls(memory: Memory) -> None:
    """Two steps with calls, one of them failing, then the answer."""
    memory.start("Fix the test.")
    memory.plan("a", "b", text="I look at both.")
    memory.call("a")
    memory.settle("a", output="def test(): ...", exit=0, duration_ms=40)
    memory.call("b")
    memory.settle("b", "error", "no such file", exit=2, duration_ms=10)
    memory.begin()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", output="", exit=0, duration_ms=900)
    memory.begin()
    memory.answer("It passes now.")


def stop_in_a_call(memory: Memory) -> None:
    """A stop from a phone while a command runs: the rest is held, and released later; stop and send runs first."""
    memory.start("Run the server.")
    memory.plan("a", "b", text="I start it.")
    memory.call("a")
    later = memory.submit("Then write the docs.", BEN)
    memory.submit("Nightly report, please.", BOT)
    memory.steer("on port 8000", who=BEN)
    memory.stop(BEN, reason="wrong branch", queue="hold", then=c.Then("then", "Switch to main first."))
    memory.stop(ANA, queue="clear")
    ended = {"ended": [{"pid": 40, "command": "server"}], "surviving": [], "background": []}
    memory.end(
        settlements={"a": c.Settlement("interrupted", "listening…", duration_ms=5000, processes=ended)},
        acknowledged_ms=3,
    )
    memory.resume()
    memory.answer("On main now.")
    memory.do(c.Release(inputs=[later]), ANA)


def stop_in_a_reply(memory: Memory) -> None:
    """A stop while the model speaks; what was seen of it is kept for review, and the next request is told."""
    memory.start("Write a long poem.")
    memory.stop(ANA)
    memory.end(cut_off={"text": "Roses are", "reasoning": "It should rhyme."}, usage={"output_tokens": 2})
    memory.start("A short one.")


def superseded_answer(memory: Memory) -> None:
    """A steer arrives during the final answer, which yields."""
    memory.start("Name a colour.")
    memory.steer("a dark one")
    memory.answer("Yellow.")
    memory.answer("Navy.")


def urgent_skip(memory: Memory) -> None:
    """An urgent steer between two calls: the second does not run, a normal steer is delivered with it."""
    memory.start("Clean up.")
    memory.plan("a", "b")
    memory.call("a")
    steer = memory.steer("keep the logs")
    memory.do(c.EditSteer(steer, text="keep all logs"), BEN)
    memory.steer("wait, not that folder", urgent=True, who=ANA)
    memory.settle("a", output="removed 3 files")
    memory.call("b")


def queue(memory: Memory) -> None:
    """Inputs edited, moved, promoted, taken back; a steer made an input; a stop before anything was claimed."""
    one, two, three = (memory.submit(text) for text in ("one", "two", "three"))
    memory.do(c.EditInput(one, text="one, better"), BEN)
    memory.do(c.EditInput(three, position=0), BEN)
    memory.do(c.EditInput(two, promote="normal", steer="promoted"), BEN)
    memory.do(c.RetractInput(three), ANA)
    memory.do(c.EditSteer("promoted", as_input=True, input="again"), ANA)
    memory.steer("left")
    memory.stop(BEN)


def worker_lost(memory: Memory) -> None:
    """The worker dies in a call; the queue goes on, a steer waits for the next turn and lands there."""
    memory.start("Build it.")
    memory.plan("a", "b")
    memory.call("a")
    memory.submit("Then test it.")
    memory.steer("quietly")
    lost = {"a": c.Settlement("lost", "compiling…")}
    memory.end("sweep", cause="worker_lost", settlements=lost, phase="tool", settled_ms=11_000)
    memory.resume()


def survivor(memory: Memory) -> None:
    """A process that outlived its kill: everything is held until somebody releases it; its later end is a fact."""
    turn = memory.start("Run it.")
    memory.plan("a")
    memory.call("a")
    memory.submit("Then stop it.")
    memory.stop(ANA, queue="run")
    memory.end("fence", cause="worker_lost", settlements={"a": c.Settlement("lost", processes=SURVIVOR)})
    memory.do(c.SurvivorsEnded(turn, "loop-1", "a", SURVIVOR["surviving"]))


def survivor_at_work(memory: Memory) -> None:
    """Processes of two settled calls outlived their kills, one has ended since, and the turn goes on."""
    turn = _leave_survivors(memory)
    memory.do(c.SurvivorsEnded(turn, "loop-1", "a", SURVIVOR["surviving"]))
    memory.begin()


def survivor_gone(memory: Memory) -> None:
    """The processes that outlived their kills end before their turn does: it holds nothing, and the queue goes on."""
    turn = _leave_survivors(memory)
    memory.do(c.SurvivorsEnded(turn, "loop-1", "a", SURVIVOR["surviving"]))
    memory.begin()
    memory.do(c.SurvivorsEnded(turn, "loop-1", "b", SURVIVOR["surviving"]))
    memory.answer("Both are over.")
    memory.resume()


def _leave_survivors(memory: Memory) -> str:
    turn = memory.start("Run both.")
    memory.submit("Then a third.")
    memory.plan("a", "b")
    for call in ("a", "b"):
        memory.call(call)
        memory.settle(call, "error", "timed out", processes=SURVIVOR)
    return turn


def failed(memory: Memory) -> None:
    """The provider gives up; what waits is held."""
    memory.start("Summarise.")
    memory.submit("And translate.")
    memory.fail("provider_error", "HTTP 500 after 5 tries")


def folded(memory: Memory) -> None:
    """Two messages join the running turn at its next safe point, behind a steer; one behind another message waits."""
    memory.start("Sort the files.")
    memory.plan("a")
    memory.call("a")
    memory.submit("by date", delivery="fold")
    memory.submit("newest first", BEN, delivery="fold")
    memory.submit("Then rename them.")
    memory.submit("and their folder", delivery="fold")
    memory.steer("leave the hidden ones")
    memory.settle("a")
    memory.begin()
    memory.answer("Sorted.")


def retried(memory: Memory) -> None:
    """A turn fails before anything was committed: its message is left out, and tried again."""
    memory.start("Summarise.")
    memory.stop()
    memory.end(cut_off={"text": "It is"})
    memory.start("Translate.")
    memory.fail("provider_error", "HTTP 500 after 5 tries")
    memory.do(c.Retry(memory.loop.failed[0].id, "again"), BEN)
    memory.resume()
    memory.answer("Übersetzt.")


def budget(memory: Memory) -> None:
    """Two steps with their prices, the same call twice; then the turn's steps are used up, and what waits is held."""
    memory.do(c.ChangeLoop(None, limits={"steps": 2}), ANA)
    memory.start("Count.")
    memory.submit("Then add.")
    for call, cost in (("a", 0.25), ("a", None)):
        memory.plan(call, cost=cost)
        memory.call(call)
        memory.settle(call)
        memory.begin()


def close(memory: Memory) -> None:
    """A session is closed while it works: the turn ends, everything goes back, and that is the end."""
    memory.do(c.ChangeSession(title="Clean-up", settings={"stop_queue": "hold"}), ANA)
    memory.do(c.SetMember("b", "observer"), ANA)
    memory.start("Work.")
    memory.submit("More work.")
    memory.steer("faster")
    memory.close(ANA)
    memory.end(acknowledged_ms=2)


def approvals(memory: Memory) -> None:
    """An agent that asks: one call allowed by a rule, one that the rule covers, one denied, one left open by a stop."""
    memory.mode("ask")
    memory.start("Publish it.")
    memory.plan("a", "b", "c")
    memory.resolve(memory.ask("a", "git push origin main"), "allow_rule", rule=c.RuleSpec("command_prefix", "git push"))
    memory.call("a", c.Effect("command", "git push origin main"))
    memory.settle("a", output="pushed")
    memory.call("b", c.Effect("command", "git push --tags"))
    memory.settle("b", output="pushed")
    memory.resolve(memory.ask("c", "rm -rf dist"), "deny", BEN, message="keep the builds")
    memory.call("c", c.Effect("command", "rm -rf dist"))
    memory.plan("d")
    memory.do(c.RevokeRule(memory.state.rules[0].id), ANA)
    memory.do(c.ChangeLoop(None, "openai-chat:other", "Be brief."), ANA)
    memory.ask("d", "git push origin next")
    memory.stop(BEN, queue="hold")
    memory.end(acknowledged_ms=4)


def modes(memory: Memory) -> None:
    """A stricter mode closes the gate of what it forbids; an urgent steer withdraws what is being asked about."""
    memory.mode("ask")
    memory.start("Clean up.")
    memory.plan("a", "b")
    memory.ask("a", "make clean")
    memory.mode("plan", BEN)
    memory.call("a", c.Effect("command", "make clean"))
    memory.mode("ask")  # for the next step: this one only plans to its end
    memory.call("b", c.Effect("path", "notes.md"))
    memory.plan("c", "d")
    memory.ask("c", "make clean")
    memory.steer("not that", urgent=True)
    memory.call("c", c.Effect("command", "make clean"))
    memory.answer("Left alone.")


def delegates(memory: Memory) -> None:
    """Two delegates side by side: one is stopped by a person, the other asked something more before it answers."""
    memory.start("Compare the two folders.")
    memory.plan_delegates("a", "b")
    first, second = memory.delegate("a", "read the first"), memory.delegate("b", "read the second")
    memory.at = first
    memory.resume()
    memory.answer("Half an", calls=(c.PlannedCall("x", "shell", {"command": "ls"}),), usage={"output_tokens": 9})
    memory.call("x")
    memory.settle("x", output="one\ntwo", exit=0, processes=SURVIVOR)
    memory.at = second
    memory.resume()
    memory.submit("And count them.", BEN)
    memory.answer("It is empty.")
    memory.stop(BEN, loop=first, reason="the second is enough")
    memory.resume()
    memory.answer("None.", cost=0.25)
    memory.at = first
    memory.end(cut_off={"text": "half an answ"}, usage={"output_tokens": 3})
    memory.at = LOOP
    memory.begin()


def delegate_lost(memory: Memory) -> None:
    """A delegate's worker dies, nobody knows with what; its parent is in the next step when this is told."""
    memory.start("Have it measured.")
    memory.plan_delegates("a")
    child = memory.delegate("a", "measure it")
    memory.at = child
    memory.resume()
    memory.plan("x")
    memory.call("x")
    memory.end("sweep", cause="worker_lost", settlements={"x": c.Settlement("lost")}, unknown=True)
    memory.at = LOOP
    memory.submit("Then measure it yourself.")
    memory.begin()


def handed_over(memory: Memory) -> None:
    """A turn moves from worker to worker at a gate, at a safe point and in a reply; the last time nobody takes it."""
    memory.mode("ask")
    memory.start("Release it.")
    memory.plan("a")
    gate = memory.ask("a", "make release")
    memory.hand_over("gate")
    memory.resolve(gate)
    memory.claim()
    memory.call("a", c.Effect("command", "make release"))
    memory.settle("a")
    memory.hand_over()
    memory.resume()
    memory.hand_over("model", usage={"input_tokens": 40})
    memory.submit("And tell the others.")
    memory.stop(BEN, queue="hold")


def background(memory: Memory) -> None:
    """A server is spared by one stop, killed by a button, and another one ends by itself."""
    kept: dict[str, Any] = {"ended": [], "surviving": [], "background": [{"pid": 9, "command": "npm start"}]}
    turn = memory.start("Start both servers.")
    memory.plan("a", "b")
    for call in ("a", "b"):
        memory.call(call)
        memory.settle(call, output="listening", processes=kept)
    memory.begin()
    memory.stop(keep_background=True)
    memory.end()
    memory.do(c.KillProcesses("a"), BEN)
    memory.do(c.BackgroundEnded(turn, LOOP, "b", kept["background"]))
    memory.do(c.BackgroundEnded(turn, LOOP, "a", [], kept["background"]))


def with_files(memory: Memory) -> None:
    """A message and a steer with files; a changed message that keeps its file, taken back."""
    memory.submit("look at this", files=[memory.upload("plan.png")])
    memory.resume()
    memory.do(c.SendSteer("s", "", loop=LOOP, files=[memory.upload("notes.txt", "text/plain", 5)]), BEN)
    waiting = memory.submit("then this", files=[memory.upload("next.png")])
    memory.do(c.EditInput(waiting, "then that"), ANA)
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    memory.do(c.RetractInput(waiting), ANA)


TALES: Final[dict[str, Callable[[Memory], None]]] = {
    tale.__name__: tale
    for tale in (
        plain_turn, calls, stop_in_a_call, stop_in_a_reply, superseded_answer, urgent_skip, queue, worker_lost,
        survivor, survivor_at_work, survivor_gone, failed, close, approvals, modes, folded, retried, budget,
        delegates, delegate_lost, handed_over, background, with_files,
    )
}  # fmt: skip


def told(name: str) -> Memory:
    memory = Memory(now_ms=START_MS)
    TALES[name](memory)
    return memory


def frame(event: Event) -> bytes:
    """The frame a member is sent of an event."""
    parts = payload.encode(event.type, payload.cleaned(event.type, event.data))
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=event.at_ms)
    actor = orjson.dumps(event.actor.json()).decode()
    return event_frame(
        Stored(
            "s", event.seq, event.type, at, event.loop, event.turn, event.step, actor, event.cause,
            parts.facts, parts.texts,
        )
    )  # fmt: skip


def files(name: str) -> dict[str, str]:
    """The golden files of a tale: name to text."""
    memory = told(name)
    transcript = Transcript()
    transcript.feed(event for event in memory.log if event.loop in (None, LOOP))
    entries = [{"entry": type(entry).__name__, **asdict(entry)} for entry in transcript.entries]
    return {
        f"{name}.jsonl": "".join(frame(event).decode() + "\n" for event in memory.log),
        f"{name}.state.json": pretty(to_json(memory.state)),
        f"{name}.transcript.json": pretty(entries),
    }


def pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in TALES:
        for file, text in files(name).items():
            (FOLDER / file).write_text(text)
