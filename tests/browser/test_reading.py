"""What one reads stays readable: long messages folded, names that turn no sentence, words that follow the state."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens, Stream, live, observe
from tests.support.waiting import wait_until
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
TURNING = "\u202e"
MEGABYTE = 1_048_576


def long_message(size: int = MEGABYTE) -> str:
    """Numbered lines, some of them with characters of two UTF-16 units."""
    lines = "".join(
        f"{number}: the \U0001f600 quick brown fox jumps over the lazy dog\n" for number in range(size // 50)
    )
    return lines.encode()[: size - 4].decode(errors="ignore") + "END"


def test_a_message_of_a_megabyte_is_folded_and_shown_whole_on_demand(screens: Open) -> None:
    opened, world, text = screens(), World.create("ana"), long_message()
    world.start(text)
    world.answer("read it")
    page = opened.session("ana", world)
    said = page.locator(".said .prose")
    expect(said).to_contain_text("0: the")
    expect(said).to_contain_text("END")
    assert len(said.text_content() or "") < 10_000
    page.locator("#line").evaluate("line => line.scrollTo(0, 0)")
    shown, fold = said.text_content() or "", said.get_by_role("button")
    expect(fold).to_have_text(re.compile(r"[\d,]+ more characters\. Show all"))
    label = fold.text_content()
    fold.focus()
    page.keyboard.press("Enter")
    expect(said.locator(".fold")).to_have_count(0)
    assert said.text_content() == text
    assert said.evaluate("said => said.contains(document.activeElement)"), "who opens it by the keyboard stays there"
    expect(page.locator("#newer")).to_be_visible()

    plain = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    folded = plain.locator(".said .prose details")
    expect(folded.locator("summary")).to_contain_text("more characters. Show all")
    assert folded.evaluate("one => one.open") is False
    expect(folded.locator("summary")).to_have_text(label or "")
    served = plain.locator(".said .prose").evaluate("one => one.firstChild.data + one.lastChild.data")
    assert served == shown.replace(label or "", ""), "both pages cut at the same places"


@pytest.mark.parametrize(("length", "folds"), [(6_000, False), (6_001, True)])
def test_both_pages_count_a_message_alike(screens: Open, length: int, folds: bool) -> None:
    opened, world = screens(), World.create("ana")
    world.start("\U0001f600" * length)
    for page in (opened.session("ana", world), opened.open("ana", f"/s/{world.session}", java_script_enabled=False)):
        expect(page.locator(".said .prose")).to_contain_text("\U0001f600")
        fold = page.locator(".said .fold")
        expect(fold).to_have_count(int(folds))
        if folds:
            expect(fold).to_have_text("3,001 more characters. Show all")


def test_what_one_has_unfolded_stays_so_when_older_parts_come(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("read them all")
    for _ in range(2):  # too much for one page: the turn's beginning comes as one scrolls up
        world.submit(long_message())
    text = long_message(20_000)
    world.plan("c", text=text)
    for number in range(12):
        world.start_tool("c" if number == 0 else f"c{number}")
        world.settle("c" if number == 0 else f"c{number}")
        world.begin()
        world.plan(f"c{number + 1}", text="and on " * 200)
    page = opened.session("ana", world)
    expect(page.locator(".turn > header")).to_contain_text("its beginning is further up")
    prose = page.locator(".step .prose").first
    prose.get_by_role("button", name=re.compile("Show all")).click()
    expect(prose.locator(".fold")).to_have_count(0)
    page.locator("#line").evaluate("line => line.scrollTo(0, 0)")
    expect(page.locator(".said .prose").first).to_have_text("read them all")
    expect(page.locator(".turn > header")).not_to_contain_text("its beginning is further up")
    assert prose.text_content() == text


def test_what_one_watched_being_written_is_not_folded_under_ones_eyes(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("tell me much")
    page = opened.session("ana", world)
    said = Stream(world)
    for number in range(10):
        said.say(f"{number} " + "word " * 200 + "\n")
    expect(page.locator(".step .prose")).to_contain_text("9 word")
    world.answer(said.text)
    expect(page.locator(".step[data-live]")).to_have_count(0)
    assert (page.locator(".step .prose").text_content() or "").split() == said.text.split()
    page.reload()
    expect(page.locator(".step .prose .fold")).to_be_visible()


def test_a_title_that_turns_the_direction_turns_nothing_around_it(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    title = f"Bills{TURNING}evil"
    control.change_session(world.owner, world.session, new_id(), title=title)
    world.start("go")
    world.stop(reason=f"wrong{TURNING}way")
    world.end()
    page = opened.session("ana", world)
    assert page.title() == "Billsevil · steerweb"
    expect(page.locator(".note bdi").last).to_have_text("Billsevil")
    head = page.locator(".rule.stopped .prose")
    expect(head).to_contain_text("Stopped by ana")
    expect(head.locator("bdi").last).to_have_text("wrongway")
    for path in ("/", "/interruptions", f"/interruptions/{world.turn}", f"/s/{world.session}/interruptions"):
        page.goto(path)
        expect(page.locator("main")).to_be_visible()
        assert page.evaluate(LOOSE, TURNING) == [], path
    page.goto(f"/interruptions/{world.turn}")
    expect(page.locator("h1 bdi").first).to_have_text("ana")


LOOSE = """(turning) => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const home = node.parentElement;
    if (!node.data.includes(turning) || home.closest("script, template")) continue;
    if (getComputedStyle(home).unicodeBidi !== "isolate") found.push(home.outerHTML);
  }
  return found;
}"""


def test_a_change_of_who_takes_part_says_whom_to_those_who_may_know(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    context, asked = opened.context("ana"), []
    context.on("request", lambda request: asked.append(request.url) if request.url.endswith("/members") else None)
    page, kim = opened.look(context, f"/s/{world.session}"), opened.session("kim", world)
    live(page)
    expect(page.locator(".note").last).to_have_text("ana made kim an observer")
    assert not asked, "the page was served with the names"
    expect(kim.locator(".note").last).to_have_text("ana changed who takes part")
    ben = person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    expect(page.locator(".note").last).to_have_text("ana made ben an owner")
    assert len(asked) == 1
    control.set_member(ben, world.session, new_id(), person="ben", role="observer")
    expect(page.locator(".note").last).to_have_text("ben is an observer now")
    control.set_member(world.owner, world.session, new_id(), person="ben", role=None)
    expect(page.locator(".note").last).to_have_text("ana removed ben")


def test_what_happens_while_an_answer_streams_stands_where_it_will_stand_for_those_who_come_later(
    screens: Open,
) -> None:
    opened, world = screens(), World.create("ana")
    world.start("look at it")
    page = opened.session("ana", world)
    thoughts, said = Stream(world, "reasoning"), Stream(world)
    thoughts.say("First the form.")
    said.say("I look at the ")
    expect(page.locator(".step").last).to_contain_text("I look at the")
    person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="observer")
    expect(page.locator(".turn > .note")).to_have_text("ana made ben an observer")
    said.say("old form.")
    later = opened.session("ana", world)
    expect(later.locator(".step").last).to_contain_text("old form.")
    order = "() => [...document.querySelector('.turn').children].map((one) => one.className + one.id)"
    assert page.evaluate(order) == later.evaluate(order)
    world.answer("I look at the old form.")
    expect(page.locator(".turn")).to_have_attribute("data-is", "done")
    after = opened.session("ana", world)
    expected = after.locator(".turn").inner_text()
    for one in (page, later):
        expect(one.locator(".turn")).to_have_text(expected, use_inner_text=True)


def test_a_steer_that_replaced_a_planned_call_does_not_say_it_landed_after_it(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("run it")
    page = opened.session("ana", world)
    world.steer("do not", urgent=True)
    world.plan("c1", text="I run it.")
    world.begin()
    steer = page.locator(".said.steer")
    expect(steer).to_contain_text("do not")
    expect(page.locator(".tool[data-is=cut]")).to_have_count(1)
    assert "after" not in (steer.locator(".by").text_content() or "")


def test_the_composers_words_follow_what_runs(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("run it")
    world.plan("c1")
    world.start_tool("c1")
    page = opened.session("ana", world)
    hint = page.locator("#say .hint")
    expect(hint).to_contain_text("after this command")
    page.locator("#say textarea").fill("mind the tests")
    page.keyboard.press("Enter")
    expect(hint).to_have_text("Received. It lands at the next step")
    world.settle("c1")
    world.begin()
    expect(page.locator(".said.steer")).to_contain_text("landed after this command")
    expect(hint).to_have_text("Lands at the next step, or replaces a last answer")
    world.answer()
    page.reload()
    expect(hint).to_have_text("Starts a turn")


def several_lines(world: World) -> str:
    """Start a call whose command has lines."""
    script = "for name in a b; do\n  echo $name\ndone"
    planned = (commands.PlannedCall("c1", "shell", {"command": script}),)
    world.report(commands.FinishModel(world.turn, world.epoch, world.step, "", calls=planned))
    start = commands.StartTool(world.turn, world.epoch, world.step, "c1", {"command": script})
    reports.report(world.session, start, WORKER)
    return script


def test_the_page_of_a_stop_shows_a_script_as_it_was_written(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("run it")
    script = several_lines(world)
    world.stop()
    world.end()
    page = opened.open("ana", f"/interruptions/{world.turn}", "phone")
    assert page.locator(".axis pre").first.inner_text() == script
    expect(page.locator(".axis li").filter(has_text="Started:")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def paused(page: Page) -> list[str]:
    """What the controls of the waiting messages are called."""
    return [
        str(name) for name in page.locator("#waiting button").evaluate_all("all => all.map((one) => one.ariaLabel)")
    ]


def test_each_control_of_a_waiting_message_says_which_message_it_is_about(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    world.submit("then the changelog")
    world.submit("and a summary of all that was done here, in as many words as it takes")
    world.stop(queue="hold")
    world.end()
    page = opened.session("ana", world)
    expect(page.locator("#waiting .chip")).to_have_count(2)
    assert paused(page) == [
        "Send next: then the changelog",
        "More about ana\u2019s message: then the changelog",
        "Send next: and a summary of all that was done here,…",
        "More about ana\u2019s message: and a summary of all that was done here,…",
    ]
    expect(page.locator(".receipt").get_by_role("button", name="Send next: then the changelog")).to_be_visible()
    page.get_by_role("button", name="More about ana\u2019s message: then the changelog").click()
    page.get_by_role("button", name="Take back: then the changelog").click()
    expect(page.locator("#waiting .chip")).to_have_count(1)
    wait_until(lambda: world.events("InputCancelled"), "the message being taken back")


def test_what_grows_after_it_was_drawn_is_followed_by_whoever_is_at_the_end_and_by_nobody_else(screens: Open) -> None:
    """As a picture does that comes late, or a turn that comes into sight."""
    opened, world = screens(), World.create("ana")
    world.start("go")
    world.answer("\n\n".join(["A line."] * 80))
    page = opened.session("ana", world, "phone")
    left = "() => { const e = document.getElementById('line'); return e.scrollHeight - e.scrollTop - e.clientHeight }"
    grow = """(px) => new Promise((drawn) => {
      document.querySelector('#timeline > .turn').style.setProperty('padding-bottom', `${px}px`);
      requestAnimationFrame(() => requestAnimationFrame(drawn));
    })"""
    wait_until(lambda: page.evaluate(left) < 2, "the end")
    page.evaluate(grow, 900)
    assert page.evaluate(left) < 2
    page.locator("#line").evaluate("(line) => line.scrollTo(0, 100)")
    expect(page.locator("#newer")).to_have_text("To the newest")
    page.evaluate(grow, 1800)
    assert page.locator("#line").evaluate("(line) => line.scrollTop") == 100
