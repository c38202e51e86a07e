"""People and sessions made through the product's own verbs, for tests of control and everything behind it."""

from dataclasses import dataclass, field
from typing import Any

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.engine.actors import Device
from sessions_app.ids import new_id
from sessions_app.log import db, read
from sessions_app.models import Person
from sessions_app.people.principals import Principal, principal_for_person

WORKER = "0192f3a4-0000-7000-8000-000000000001"


def person(name: str, device: str = "desk") -> Principal:
    """A person signed in from a device of that kind; created when there is none of that name."""
    account, _ = Person.objects.get_or_create(username=name)
    return principal_for_person(account, Device(device, f"{name}'s {device}"))  # type: ignore[arg-type]


def employ() -> None:
    """Give the played worker a lease that outlives the test: without one it may claim nothing, and any web process's
    sweep would end its turns. The fence still ends a turn 4 s after its mark (E9)."""
    with db.cursor("write") as cur:
        cur.execute(
            """INSERT INTO worker (id, host, boot_id, pid, warden_pid, isolation, beat_at, alive_until)
               VALUES (%s, 'played', 'played', 0, 0, '', now(), now() + interval '1 hour')
               ON CONFLICT (id) DO NOTHING""",
            (WORKER,),
        )


@dataclass
class World:
    """One session, its owner, and a worker played by the test."""

    owner: Principal
    session: str
    loop: str
    turn: str = ""
    epoch: int = 0
    step: int = 1
    made: list[str] = field(default_factory=list)

    @classmethod
    def create(cls, name: str = "ana", **settings: Any) -> "World":
        employ()
        owner = person(name)
        made = control.create_session(owner, new_id(), title="A test", model="demo:", settings=settings)
        return cls(owner, made["id"], made["loop"])

    def submit(self, text: str = "hello", who: Principal | None = None) -> str:
        return str(control.submit(who or self.owner, self.session, new_id(), text=text)["input"])

    def steer(self, text: str, *, urgent: bool = False, who: Principal | None = None) -> str:
        return str(control.steer(who or self.owner, self.session, new_id(), text=text, urgent=urgent)["steer"])

    def claim(self) -> bool:
        claim = reports.claim(self.session, self.loop, WORKER)
        if claim["claimed"]:
            self.turn, self.epoch, self.step = claim["turn"], claim["epoch"], 1
        return bool(claim["claimed"])

    def start(self, text: str = "hello") -> str:
        """Submit and claim: a running turn at its first safe point."""
        self.submit(text)
        assert self.claim()
        self.begin()
        return self.turn

    def report(self, command: Any) -> dict[str, Any]:
        return reports.report(self.session, command, WORKER)

    def begin(self) -> dict[str, Any]:
        begun = self.report(commands.BeginStep(self.turn, self.epoch))
        self.step = begun.get("step", self.step)
        return begun

    def answer(self, text: str = "done") -> dict[str, Any]:
        return self.report(commands.FinishModel(self.turn, self.epoch, self.step, text, usage={"output_tokens": 1}))

    def plan(self, *calls: str, text: str = "", command: str = "") -> dict[str, Any]:
        planned = tuple(commands.PlannedCall(call, "shell", {"command": command or f"echo {call}"}) for call in calls)
        return self.report(commands.FinishModel(self.turn, self.epoch, self.step, text, calls=planned))

    def delegate(self, *tasks: str) -> list["World"]:
        """Plan one delegating call for each task and start them; each child's own world (G1)."""
        calls = tuple(commands.PlannedCall(f"d{at}", "delegate", {"task": task}) for at, task in enumerate(tasks))
        self.report(commands.FinishModel(self.turn, self.epoch, self.step, "", calls=calls))
        children = []
        for at, task in enumerate(tasks):
            child = commands.Child(new_id(), new_id(), task)
            self.report(commands.StartTool(self.turn, self.epoch, self.step, f"d{at}", {"task": task}, child=child))
            children.append(World(self.owner, self.session, child.loop))
        return children

    def start_tool(self, call: str, effect: commands.Effect | None = None, command: str = "") -> dict[str, Any]:
        """Start a call; one without an effect only reads."""
        arguments = {"command": command or f"echo {call}"}
        return self.report(commands.StartTool(self.turn, self.epoch, self.step, call, arguments, effect, gate=new_id()))

    def ask(self, call: str = "c1", command: str = "git push origin") -> str:
        """A running turn whose call waits for an answer; the gate's id."""
        control.set_mode(self.owner, self.session, new_id(), mode="ask")
        self.start("publish it")
        self.plan(call, command=command)
        return str(self.start_tool(call, commands.Effect("command", command), command)["gate"])

    def settle(self, call: str, outcome: Any = "ok", output: str = "", **more: Any) -> dict[str, Any]:
        settlement = commands.Settlement(outcome, output, **more)
        return self.report(commands.SettleTool(self.turn, self.epoch, self.step, call, settlement))

    def end(self, **fields: Any) -> dict[str, Any]:
        return self.report(commands.EndTurn(self.turn, self.epoch, "worker", **fields))

    def stop(self, who: Principal | None = None, **fields: Any) -> dict[str, Any]:
        return control.interrupt(who or self.owner, self.session, new_id(), **fields)

    def events(self, *types: str) -> list[Any]:
        return [event for event in read.engine_events(self.session) if not types or event.type in types]

    def types(self, after: int = 0) -> list[str]:
        return [event.type for event in read.engine_events(self.session, after)]

    def state(self) -> Any:
        return read.snapshot(self.session)["state"]["loops"][self.loop]
