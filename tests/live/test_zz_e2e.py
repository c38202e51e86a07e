import asyncio
from tests.doors.callers import token_of
from tests.support.sockets import opened
from tests.support.world import World

async def test_e2e(make_stack):
    stack = make_stack(webs=2, workers=1)
    world = World.create("ana"); token = token_of("ana")
    async with opened(stack.urls[0], f"/ws/sessions/{world.session}/", token=token) as s:
        await s.live()
        await s.ask("submit", text="Show me what you can do")
        await s.until(lambda: len(s.of("delta")) > 20, "deltas", 40)
        async with opened(stack.urls[1], f"/ws/sessions/{world.session}/", token=token) as late:
            await late.live()
            print("LATE", late.of("hello")[0]["live"])
            await asyncio.sleep(5)
            a = await s.ask("interrupt", reason="enough", queue="hold")
            print(a)
            await late.until_event("TurnInterrupted")
            await s.until_event("TurnInterrupted")
        print([f["t"] if f["t"]!="event" else f["type"] for f in s.frames if f["t"] != "delta"])
        print([f for f in s.frames if f["t"] in ("stopping","retrying")])
        t = s.events("TurnInterrupted")[0]["data"]
        print(t)
        from collections import defaultdict
        texts = defaultdict(str)
        for f in s.of("delta"):
            k = (f["step"], f["attempt"], f["kind"], f.get("call"))
            assert f["offset"] == len(texts[k]); texts[k] += f["text"]
        for e in s.events("StepPlanned", "StepDone"):
            if e["data"].get("text"): print(e["step"], texts[(e["step"],1,"text",None)] == e["data"]["text"])
    await asyncio.sleep(6)
    print(stack.logs())
