"""Approvals on the page: the card on every screen, each answer, who was late, the rules and the mode (H, I)."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from sessions_app import control
from sessions_app.engine.commands import Effect
from sessions_app.ids import new_id
from tests.browser.screens import Screens, live, observe
from tests.support.waiting import stays_true, wait_until
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
PUSH = Effect("command", "git push origin")
SMALL = """() => [...document.querySelectorAll(".ask button, .ask input, #mode button, #rules button")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
  .map((one) => one.outerHTML.slice(0, 120))"""


def asking() -> tuple[World, str]:
    """A session whose agent asks whether it may run a command, and the gate."""
    world = World.create("ana")
    return world, world.ask()


def join(world: World, name: str) -> None:
    """One more owner."""
    person(name)
    control.set_member(world.owner, world.session, new_id(), person=name, role="owner")


def card(page: Page) -> Locator:
    return page.locator("#asks .ask")


def press(page: Page, name: str) -> None:
    card(page).get_by_role("button", name=name).click()


def decisions(world: World) -> list[str]:
    return [event.data["decision"] for event in world.events("GateResolved")]


@pytest.mark.rule("H1")
def test_what_turns_the_text_after_it_is_seen_by_whoever_is_asked(screens: Open) -> None:
    """A command must read as it would run (U+202E and its kin make it look like another one)."""
    opened, world = screens(), World.create("ana")
    world.ask(command="git push origin \u202eniam\u202c")
    seen = "git push origin <U+202E>niam<U+202C>"
    page = opened.session("ana", world)
    expect(card(page).locator("code").first).to_have_text(seen)
    expect(page.locator(".tool > header code")).to_have_text(seen)
    press(page, "exactly this command")
    expect(page.locator("#rules")).to_contain_text(seen)
    served = opened.context("ana", java_script_enabled=False)
    expect(opened.look(served, f"/s/{world.session}").locator(".tool > header code")).to_have_text(seen)


def hold_answers(page: Page) -> list[str]:
    """A connection that takes answers and does not deliver them; what it took."""
    held: list[str] = []

    def route(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            held.append(str(text)) if '"resolve"' in str(text) else server.send(text)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", route)
    return held


@pytest.mark.rule("H1")
def test_an_open_approval_is_on_every_screen_and_allowing_it_takes_it_away_everywhere(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    observe(world, "kim")
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    kim, listed = opened.session("kim", world), opened.open("ana", "/")
    live(listed)
    for page in (desk, phone, kim):
        expect(card(page)).to_contain_text("May it run this command?")
        expect(card(page).locator(".command")).to_have_text("git push origin")
        expect(card(page)).to_contain_text(re.compile(r"asked \d+ s ago"))
        expect(page.locator("#state")).to_have_text(re.compile(r"Waiting for approval, \d+ s"))
        expect(page.locator("#state")).to_have_attribute("data-is", "waiting")
        expect(page).to_have_title(re.compile("^Approval: "))
        expect(page.locator("#agents small")).to_have_text("asks")
    row = listed.locator(f"li[data-id='{world.session}'] .state")
    expect(row).to_have_text(re.compile(r"Waiting for approval, \d+ s"))
    expect(row).to_have_attribute("data-is", "waiting")
    assert card(kim).locator("button:visible, input").count() == 0, "who watches does not answer"
    assert phone.evaluate(SMALL) == []
    expect(card(phone).get_by_role("button", name="Deny")).to_be_in_viewport()

    press(phone, "Allow once")
    for page in (desk, phone, kim):
        expect(card(page)).to_have_count(0)
        expect(page.locator(".tool .answer")).to_have_text("Allowed by ana")
        expect(page).not_to_have_title(re.compile("Approval"))
    assert decisions(world) == ["allow"]
    assert world.start_tool("c1", PUSH)["outcome"] == "started"
    expect(desk.locator("#state")).to_contain_text("Running a command")
    expect(row).to_have_attribute("data-is", "running")


@pytest.mark.rule("H3")
def test_a_rule_lets_such_calls_run_is_listed_and_can_be_taken_back(screens: Open) -> None:
    opened = screens()
    world = World.create("ana")
    observe(world, "kim")
    desk, kim = opened.session("ana", world), opened.session("kim", world)
    expect(desk.locator("#rules")).to_contain_text("Nothing.")
    world.ask()
    press(desk, "Always in this session: every command that begins with git push")
    for page in (desk, kim):
        expect(page.locator("#rules [data-rule]")).to_contain_text("every command that begins with git push")
        expect(page.locator("#rules [data-rule]")).to_contain_text("ana")
    expect(kim.locator("#rules button")).to_have_count(0)
    world.start_tool("c1", PUSH)
    world.settle("c1")
    world.begin()
    world.plan("c2")
    assert world.start_tool("c2", Effect("command", "git push --tags"))["outcome"] == "started"
    answers = desk.locator(".tool .answer")
    expect(answers).to_have_text(
        [
            re.compile("^Allowed by ana, and from now on"),
            "Allowed by a rule of ana: every command that begins with git push",
        ]
    )
    desk.reload()
    live(desk)
    expect(answers).to_contain_text(["from now on", "Allowed by a rule of ana"])
    desk.locator("#rules").get_by_role("button", name=re.compile("Take back: every command")).click()
    for page in (desk, kim):
        expect(page.locator("#rules")).to_contain_text("Nothing.")
        expect(page.locator("#timeline")).to_contain_text("ana took back what was always allowed")
    world.settle("c2")
    world.begin()
    world.plan("c3")
    assert world.start_tool("c3", PUSH)["outcome"] == "asked"


@pytest.mark.rule("H1", "H3")
def test_a_rule_answers_the_other_agents_that_ask_the_same_and_nothing_else(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("publish it")
    children = world.delegate("push it", "push it there", "tidy up")
    effects = [Effect("command", each) for each in ("git push origin", "git push there", "rm -r build")]
    for child, effect in zip(children, effects, strict=True):
        control.set_mode(world.owner, world.session, new_id(), mode="ask", loop=child.loop)
        assert child.claim()
        child.begin()
        child.plan("c", command=effect.value)
        assert child.start_tool("c", effect, effect.value)["outcome"] == "asked"
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    expect(card(phone)).to_have_count(3)
    gate = world.events("GateOpened")[1].data["gate"]
    rule = {"kind": "command_prefix", "value": "git push"}
    control.resolve(world.owner, world.session, new_id(), gate, decision="allow_rule", rule=rule)
    for page in (desk, phone):
        expect(card(page)).to_have_count(1)
        expect(card(page)).to_contain_text("rm -r build")
        expect(page.locator("#rules [data-rule]")).to_have_count(1)
    assert decisions(world) == ["allow", "allow"]
    outcomes = [child.start_tool("c", effect)["outcome"] for child, effect in zip(children, effects, strict=True)]
    assert outcomes == ["started", "started", "asked"]


@pytest.mark.rule("H3", "C4")
def test_a_denial_carries_its_note_and_every_screen_says_who_said_what(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    card(phone).get_by_role("textbox").fill("wrong remote")
    press(phone, "Deny")
    for page in (desk, phone):
        expect(page.locator(".tool .answer")).to_have_text("Denied by ana: “wrong remote”")
        expect(card(page)).to_have_count(0)
    assert [event.data.get("message") for event in world.events("GateResolved")] == ["wrong remote"]
    world.start_tool("c1", PUSH)
    expect(desk.locator(".tool .push").first).to_have_text("not allowed")


@pytest.mark.rule("H1")
def test_the_first_answer_wins_and_who_was_late_is_told_and_keeps_the_note(screens: Open) -> None:
    opened, (world, gate) = screens(), asking()
    join(world, "ben")
    held: list[str] = []
    page = opened.context("ana").new_page()

    def slow(socket: WebSocketRoute) -> None:
        """What ana sends comes after what ben has done, and she hears of that last."""
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if '"resolve"' in str(text):
                held.append(str(text))
                control.resolve(person("ben"), world.session, new_id(), gate, decision="allow")
            server.send(text)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", slow)
    page.goto(f"/s/{world.session}")
    live(page)
    card(page).get_by_role("textbox").fill("not on a Friday")
    press(page, "Deny")
    expect(page.locator("#trouble")).to_contain_text("ben has allowed it already. Your answer changed nothing.")
    expect(page.locator("#trouble [role=status]")).to_have_count(1)
    expect(page.locator("#say textarea")).to_have_value("not on a Friday")
    expect(card(page)).to_have_count(0)
    expect(page.locator(".tool .answer")).to_have_text("Allowed by ben")
    assert decisions(world) == ["allow"]
    assert len(held) == 1


@pytest.mark.rule("H1")
def test_words_typed_for_an_approval_that_somebody_else_answers_are_kept(screens: Open) -> None:
    opened, (world, gate) = screens(), asking()
    join(world, "ben")
    page = opened.session("ana", world)
    card(page).get_by_role("textbox").fill("use the other remote")
    control.resolve(person("ben"), world.session, new_id(), gate, decision="allow")
    expect(card(page)).to_have_count(0)
    expect(page.locator("#say textarea")).to_have_value("use the other remote")
    expect(page.locator("#trouble")).to_contain_text("stands in the message box")


@pytest.mark.rule("A4")
def test_an_answer_on_its_way_is_sent_once_and_can_be_given_up(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    page = opened.context("ana").new_page()
    held = hold_answers(page)
    page.goto(f"/s/{world.session}")
    live(page)
    card(page).get_by_role("textbox").fill("no")
    deny = card(page).get_by_role("button", name="Deny")
    deny.click()
    deny.click(force=True)
    card(page).get_by_role("button", name="Allow once").click(force=True)
    expect(card(page)).to_contain_text("your answer is on its way")
    expect(card(page)).to_contain_text("Not received yet.")
    assert len(held) == 1
    press(page, "Do not send it")
    expect(deny).not_to_have_attribute("aria-disabled", "true")
    expect(card(page).get_by_role("textbox")).to_have_value("no")
    stays_true(lambda: page.evaluate("1") and not decisions(world), "nobody having answered", 1)


@pytest.mark.rule("H1")
@pytest.mark.scenario("D41")
def test_a_double_click_is_one_answer(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    page = opened.session("ana", world)
    card(page).get_by_role("button", name="Allow once").dblclick(force=True)
    expect(card(page)).to_have_count(0)
    expect(page.locator(".tool .answer")).to_have_text("Allowed by ana")
    assert decisions(world) == ["allow"]
    expect(page.locator("#trouble")).to_be_empty()


@pytest.mark.rule("H2")
@pytest.mark.scenario("D42")
def test_who_allows_what_is_being_stopped_is_told_so_calmly_and_can_go_on(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    join(world, "ben")
    page = opened.context("ben").new_page()
    late: list[Callable[[], None]] = []

    def route(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            late.append(lambda: server.send(text)) if '"resolve"' in str(text) else server.send(text)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", route)
    page.goto(f"/s/{world.session}")
    live(page)
    anas = opened.session("ana", world)
    press(page, "Allow once")
    wait_until(lambda: page.evaluate("1") and late, "the answer on its way")
    anas.locator("#stop .halt:not(.more)").click()
    for each in (page, anas):
        expect(card(each)).to_have_count(0)
    (deliver,) = late
    deliver()
    expect(page.locator("#trouble")).to_contain_text("changed nothing")
    assert not page.locator("#trouble [role=alert]").count(), "nothing went wrong"
    world.end()
    expect(page.locator(".tool .answer")).to_have_text("Not asked any more: stopped")
    page.locator("#say textarea").fill("Are you there?")
    page.keyboard.press("Enter")
    wait_until(lambda: page.evaluate("1") and len(world.events("InputQueued")) == 2, "the next message")
    assert not decisions(world) and not world.events("ToolStarted")


@pytest.mark.rule("E6", "H2")
def test_a_stop_closes_it_everywhere_and_says_that_it_hit_an_approval(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    phone.locator("#stop .halt:not(.more)").click()
    for page in (desk, phone):
        expect(card(page)).to_have_count(0)
        expect(page.locator(".receipt")).to_contain_text("while it waited for approval")
    world.end()
    for page in (desk, phone):
        expect(page.locator(".tool .answer")).to_have_text("Not asked any more: stopped")
        expect(page.locator(".rule.stopped")).to_contain_text("it hit an open approval")
    assert not decisions(world)
    turn = world.events("TurnInterrupted")[0].turn
    page = opened.open("ana", f"/interruptions/{turn}")
    expect(page.locator("main")).to_contain_text("Asked for approval: git push origin")
    expect(page.locator("dt:text-is('Approvals closed') + dd")).to_have_text("git push origin")


@pytest.mark.rule("D11")
def test_an_urgent_message_takes_its_place_and_a_normal_one_waits_for_it(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    page = opened.session("ana", world)
    hint = page.locator("#say .hint")
    expect(hint).to_have_text("Lands after the approval")
    page.locator("#say textarea").fill("mind the tests")
    page.keyboard.press("Enter")
    expect(hint).to_have_text("Received. It lands after the approval")
    expect(card(page)).to_be_visible()
    page.get_by_role("button", name="Skip what has not started").click()
    page.locator("#say textarea").fill("first read the README")
    expect(hint).to_have_text("Lands instead of what is being asked")
    page.keyboard.press("Enter")
    expect(card(page)).to_have_count(0)
    expect(page.locator(".tool .answer")).to_have_text("Not asked any more: ana\u2019s urgent message")


@pytest.mark.rule("I1")
def test_the_mode_is_chosen_at_a_desk_and_on_a_phone(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    observe(world, "kim")
    desk, phone, kim = opened.session("ana", world), opened.session("ana", world, "phone"), opened.session("kim", world)
    assert kim.get_by_role("button", name="Change the mode").count() == 0
    phone.get_by_role("button", name="Agents and turns").tap()
    phone.get_by_role("button", name="Change the mode").tap()
    dialog = phone.locator("dialog#mode")
    expect(dialog.get_by_label("Asks before each command")).to_be_checked()
    expect(dialog).to_contain_text("No command is called risky unless somebody says which")
    assert phone.evaluate(SMALL) == []
    dialog.get_by_label("Runs freely").check()
    dialog.get_by_role("button", name="Change").tap()
    later = "runs freely, asks before risky commands, from its next step on"
    for page in (desk, phone, kim):
        expect(page.locator("#mode-words")).to_have_text(later)
    expect(card(desk)).to_be_visible()
    desk.get_by_role("button", name="Change the mode").click()
    desk.locator("dialog#mode").get_by_label("Plans only").check()
    desk.keyboard.press("Enter")
    for page in (desk, phone, kim):
        expect(page.locator("#mode-words")).to_have_text("plans only")
        expect(card(page)).to_have_count(0)
    expect(desk.locator(".tool .answer")).to_have_text("Not asked any more: ana changed the mode")


def test_a_keyboard_is_enough(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    page = opened.session("ana", world)
    expect(card(page)).to_be_visible()
    page.keyboard.press("a")
    expect(card(page)).to_be_focused()
    order = []
    for _ in range(6):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent"))
    assert order == [
        "In full", "Allow once", "Always in this session: exactly this command",
        "Always in this session: every command that begins with git push", "A note to the agent, sent with a denial",
        "Deny",
    ]  # fmt: skip
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("not yet")
    page.keyboard.press("Enter")
    expect(page.locator(".tool .answer")).to_have_text("Denied by ana: “not yet”")
    expect(page.locator("#line")).to_be_focused()


def test_who_has_scrolled_up_on_a_phone_sees_it_in_brief(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    for number in range(12):
        world.start(f"question {number}")
        world.answer(f"answer {number}\n" * 6)
    world.ask()
    page = opened.session("ana", world, "small")
    expect(card(page).get_by_role("button", name="Deny")).to_be_in_viewport()
    page.locator("#line").evaluate("line => line.scrollTo(0, 300)")
    expect(card(page).get_by_role("button", name="Allow once")).to_be_hidden()
    expect(card(page).locator(".brief code")).to_have_text("git push origin")
    expect(card(page)).to_be_in_viewport()
    press(page, "Show what it asks")
    expect(card(page).get_by_role("button", name="Deny")).to_be_in_viewport()


@pytest.mark.rule("H1")
def test_without_scripts_it_is_read_and_answered(screens: Open) -> None:
    opened, (world, _) = screens(), asking()
    observe(world, "kim")
    kim = opened.open("kim", f"/s/{world.session}", java_script_enabled=False)
    expect(kim.locator(".ask")).to_contain_text("git push origin")
    assert kim.locator(".ask button").count() == 0
    late = opened.open("ana", f"/s/{world.session}", "phone", java_script_enabled=False)
    page = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    page.get_by_role("button", name="every command that begins with git push").click()
    expect(page.locator(".ask")).to_have_count(0)
    expect(page.locator(".tool .answer")).to_contain_text("Allowed by ana, and from now on")
    expect(page.locator("#rules")).to_contain_text("every command that begins with git push")
    late.get_by_role("textbox").fill("wrong remote")
    late.get_by_role("button", name="Deny").click()
    expect(late.locator("#notice")).to_contain_text("Allowed by ana")
    expect(late.locator("#notice")).to_contain_text(
        "Your answer changed nothing. Your note was not sent: “wrong remote”"
    )
    assert decisions(world) == ["allow"]


def test_a_new_session_says_what_it_may_do_and_the_demonstration_runs_freely(screens: Open) -> None:
    page = screens().open("ana", "/")
    live(page)
    page.get_by_role("button", name="New session").click()
    dialog = page.locator("dialog#create")
    expect(dialog.get_by_label("Runs freely")).to_be_checked()
    dialog.get_by_label("Model").fill("openai-chat:some")
    expect(dialog.get_by_label("Asks before each command")).to_be_checked()
    dialog.get_by_label("Plans only").check()
    dialog.get_by_label("Model").fill("demo:")
    dialog.get_by_label("First message").fill("Look around")
    dialog.get_by_role("button", name="Start").click()
    page.wait_for_url("**/s/*")
    live(page)
    expect(page.locator("#mode-words")).to_have_text("plans only")
    wait_until(lambda: page.locator("#waiting .chip").count() == 1, "the first message")
