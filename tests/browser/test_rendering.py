"""What agents and tools write, as people read it: markdown while it streams, coloured output, changes as diffs."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens, Stream, observe
from tests.support.world import WORKER, World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
PROSE = ".step .prose"
ROCKET, FAMILY = "\U0001f680", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"

EVERYTHING = f"""# Findings {ROCKET}

The **parser** is *slow* and ~~broken~~, see `parse()` and
[the manual](https://example.org/a?b=1&c=2).

- first
- second with `code`
  1. nested
  2. again

> A quote
> of two lines

| name | count |
|:-----|------:|
| one  | 1     |
| `two`| 22    |

```python
def main() -> None:
    print("hello")
```

---

The end, 2 * 3 * 4 and snake_case_name &amp; so on.
"""


def running(screens: Open, text: str = "go") -> tuple[Screens, World, Page]:
    """A running turn and a page that watches it."""
    opened, world = screens(), World.create("ana")
    world.start(text)
    return opened, world, opened.session("ana", world)


def shape(page: Page, selector: str = PROSE) -> Any:
    """The elements and texts of what an agent wrote."""
    return page.locator(selector).last.evaluate(SHAPE)


SHAPE = """(root) => {
  const shape = (node) => node instanceof Text ? node.data
    : [node.tagName, node.getAttribute("dir"), node.getAttribute("href"), ...[...node.childNodes].map(shape)];
  root.normalize();
  return shape(root);
}"""


def test_markdown_reads_the_same_streamed_and_loaded_anew(screens: Open) -> None:
    _, world, page = running(screens)
    said = Stream(world)
    for start in range(0, len(EVERYTHING), 7):
        said.say(EVERYTHING[start : start + 7])
    prose = page.locator(PROSE)
    expect(prose).to_contain_text("snake_case_name & so on.")
    world.answer(said.text)
    expect(page.locator(".step[data-live]")).to_have_count(0)
    streamed = shape(page)
    page.reload()
    expect(prose).to_contain_text("snake_case_name & so on.")
    assert shape(page) == streamed
    expect(prose.locator("h3")).to_have_text(f"Findings {ROCKET}")
    expect(prose.locator("strong")).to_have_text("parser")
    expect(prose.locator("em")).to_have_text("slow")
    expect(prose.locator("ol > li")).to_have_text(["nested", "again"])
    expect(prose.locator("blockquote")).to_have_text("A quote of two lines")
    expect(prose.locator("td")).to_have_text(["one", "1", "two", "22"])
    expect(prose.locator(".code pre")).to_have_text('def main() -> None:\n    print("hello")')
    expect(prose.locator(".code header span")).to_have_text("python")
    link = prose.get_by_role("link", name="the manual")
    expect(link).to_have_attribute("href", "https://example.org/a?b=1&c=2")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    expect(link).to_have_attribute("target", "_blank")


def test_a_finished_block_stays_the_same_element_and_selected(screens: Open) -> None:
    _, world, page = running(screens)
    said = Stream(world)
    said.say("First **paragraph**.\n\n- one\n- two\n\nSecond ")
    expect(page.locator(PROSE)).to_contain_text("Second")
    page.evaluate("""(selector) => {
      const blocks = [...document.querySelector(selector).children];
      window.kept = blocks.slice(0, 2);
      window.made = 0;
      const seen = new MutationObserver((all) => { window.made += all.length; });
      const all = { childList: true, subtree: true, characterData: true, attributes: true };
      for (const one of window.kept) seen.observe(one, all);
      getSelection().selectAllChildren(blocks[0]);
    }""", PROSE)  # fmt: skip
    for piece in ("para", "graph\n\n```\nco", "de\n```\n\n| a | b |\n", "|---|---|\n| 1 | 2 |\n\nthe ", "end"):
        said.say(piece)
    expect(page.locator(PROSE)).to_contain_text("the end")
    world.answer(said.text)
    expect(page.locator(".step[data-live]")).to_have_count(0)
    kept, made, selected = page.evaluate(
        "[window.kept.every((one) => one.isConnected), window.made, String(getSelection())]"
    )
    assert kept and made == 0
    assert selected.strip() == "First paragraph."


HALF_OPEN = (
    ("a **bold", "a bold"),
    ("a `co", "a co"),
    ("see [the do", "see the do"),
    ("see [the doc](https://exa", "see the doc"),
    ("text\n\n``", "text"),
    ("text\n\n```py", "text"),
    ("text\n\n-", "text"),
    ("text\n-", "text"),
    ("text\n\n| a | b |", "text"),
    ("text\n\n| a | b |\n|--", "text"),
    ("text\n\n##", "text"),
    ("text\n\n1.", "text"),
)


@pytest.mark.parametrize(("half", "shown"), HALF_OPEN)
def test_half_open_marks_do_not_flicker(screens: Open, half: str, shown: str) -> None:
    _, world, page = running(screens)
    said = Stream(world)
    said.say(half)
    prose = page.locator(PROSE)
    expect(prose).to_have_text(shown)
    expect(prose.locator("h3, h4, hr, ul, ol, a")).to_have_count(0)
    world.stop()
    world.end(cut_off={"text": half})
    expect(page.locator(f"{PROSE}.cut")).to_have_count(1)
    whole = re.sub(r"[^a-z]", "", half)
    shown = (prose.text_content() or "").removesuffix("Copy")  # the button of a block of code
    assert re.sub(r"[^a-z]", "", shown) == whole, "nothing that was written is left out"


HOSTILE = """<script>window.hit = 1</script>

<img src=x onerror="window.hit = 2"><svg onload="window.hit = 3"><style>body { display: none }</style>

<form action="https://evil.example"><input name=q></form><iframe src="https://evil.example"></iframe>

[a](javascript:window.hit=4) [b](data:text/html,<script>window.hit=5</script>) [c](  JaVaScRiPt:window.hit=6)
[d](vbscript:x) [e](file:///etc/passwd) <javascript:window.hit=7> [f](&#106;avascript:window.hit=8) [g]

![pixel](https://tracker.example/p.png) ![inline](data:image/svg+xml,<svg/onload=window.hit=9>)

[h](https://example.org/" onmouseover="window.hit=10) `<b onclick=x>`

```html" onmouseover="window.hit=11
<script>window.hit = 12</script>
```

| <img src=x onerror=window.hit=13> | [t](javascript:window.hit=14) |
|---|---|
| <a href="javascript:window.hit=15">x</a> | y |

[g]: javascript:window.hit=16
"""

ALLOWED_TAGS = "p a span code div header button pre table thead tbody tr th td"
ALLOWED_ATTRIBUTES = "dir class href title target rel referrerpolicy type aria-label tabindex role"


@pytest.mark.parametrize("streamed", [True, False])
def test_nothing_an_agent_writes_becomes_markup_of_its_own(screens: Open, streamed: bool) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    context = opened.context("ana")
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = opened.look(context, f"/s/{world.session}")
    expect(page.locator("#connection")).to_have_attribute("data-is", "live")
    if streamed:
        said = Stream(world)
        for start in range(0, len(HOSTILE), 11):
            said.say(HOSTILE[start : start + 11])
    world.answer(HOSTILE)
    expect(page.locator(".step[data-live]")).to_have_count(0)
    prose = page.locator(PROSE)
    expect(prose).to_contain_text("<script>window.hit = 1</script>")
    expect(prose).to_contain_text("<iframe src=")
    tags = set(prose.evaluate("root => [...root.querySelectorAll('*')].map((one) => one.localName)"))
    assert tags <= {*ALLOWED_TAGS.split()}
    names = set(prose.evaluate("root => [...root.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"))
    assert names <= {*ALLOWED_ATTRIBUTES.split()}
    addresses = prose.locator("a").evaluate_all("all => all.map((one) => one.href)")
    assert all(re.match("https?:", address) for address in addresses)
    expect(prose.get_by_role("link", name="Image: pixel")).to_have_attribute("href", "https://tracker.example/p.png")
    prose.hover()
    assert page.evaluate("window.hit") is None
    assert not [url for url in asked if "example" in url]


@pytest.mark.scenario("D47")
def test_emoji_in_pieces_are_whole_live_and_loaded_anew(screens: Open) -> None:
    _, world, page = running(screens)
    said = Stream(world)
    for piece in ("ready ", ROCKET, " and ", *FAMILY, " and \ufffd"):
        said.say(piece)
    whole = f"ready {ROCKET} and {FAMILY} and \ufffd"
    prose = page.locator(PROSE)
    expect(prose).to_have_text(whole)
    world.answer(said.text)
    expect(page.locator(".step[data-live]")).to_have_count(0)
    assert prose.text_content() == whole
    page.reload()
    expect(prose).to_have_text(whole)
    assert prose.text_content() == whole


ARABIC = "تم نقل `app.conf` إلى المجلد `etc/svc` ثم أعيد تشغيل الخدمة (المحاولة 2)."


@pytest.mark.scenario("D48")
def test_arabic_with_identifiers_reads_right_to_left_and_english_beside_it_does_not(screens: Open) -> None:
    _, world, page = running(screens, f"{ARABIC}\nand in English")
    world.submit(ARABIC)
    said = Stream(world)
    said.say(f"{ARABIC}\n\nThe file `app.conf` was moved.\n\n- {ARABIC}\n- in English\n")
    prose = page.locator(PROSE)
    expect(prose).to_contain_text("in English")
    directions = "all => all.map((one) => getComputedStyle(one).direction)"
    assert prose.locator("> p").evaluate_all(directions) == ["rtl", "ltr"]
    assert prose.locator("li").evaluate_all(directions) == ["rtl", "ltr"]
    codes = prose.locator("code")
    assert set(codes.evaluate_all(directions)) == {"ltr"}
    assert set(codes.evaluate_all("all => all.map((one) => getComputedStyle(one).unicodeBidi)")) == {"isolate"}
    boxes = [codes.nth(at).bounding_box() for at in range(2)]
    assert boxes[0] and boxes[1] and boxes[0]["x"] > boxes[1]["x"], "the first identifier stands further right"
    world.steer(ARABIC)
    world.answer(said.text)
    world.begin()
    for where in (".turn .said:not(.steer) .prose", ".said.steer .prose", "#waiting .chip .what"):
        words = page.locator(where).last
        expect(words).to_contain_text("app.conf")
        assert words.evaluate(STARTS_RIGHT), where
    assert page.locator(".turn .said .prose").first.evaluate(ENGLISH_LEFT)


AT = """const place = (text, from) => {
  const range = document.createRange();
  range.setStart(text, from);
  range.setEnd(text, from + 1);
  return range.getBoundingClientRect().left;
};"""
STARTS_RIGHT = f"""(element) => {{
  {AT}
  const text = document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode();
  return place(text, 0) > place(text, 5);
}}"""
ENGLISH_LEFT = f"""(element) => {{
  {AT}
  const text = element.firstChild, from = text.data.indexOf("and in");
  return place(text, from) - element.getBoundingClientRect().left < 4 && place(text, from) < place(text, from + 4);
}}"""


def test_code_can_be_copied_whole(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    lines = "".join(f"line {number} of <the> code\n" for number in range(5_000))
    world.start()
    context = opened.context("ana", permissions=["clipboard-read", "clipboard-write"])
    page = opened.look(context, f"/s/{world.session}")
    said = Stream(world)
    for piece in ("Here:\n\n```text\n", lines[: len(lines) // 2], lines[len(lines) // 2 :], "```\n\nDone."):
        said.say(piece)
    prose = page.locator(PROSE)
    expect(prose).to_contain_text("Done.")
    assert prose.locator("pre").text_content() == lines.rstrip("\n")
    box = prose.locator("pre").bounding_box()
    assert box and box["height"] <= 430
    prose.get_by_role("button", name="Copy this code").click()
    expect(prose.locator(".code button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == lines.rstrip("\n")


def test_a_long_answer_is_folded_between_blocks_and_shown_whole_on_demand(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    world.answer(
        "".join(f"## Part {number}\n\nSome **words** about it.\n\n```\ncode {number}\n```\n\n" for number in range(400))
    )
    page = opened.session("ana", world)
    prose = page.locator(PROSE)
    expect(prose).to_contain_text("Part 399")
    assert prose.locator("h4").count() < 150
    fold = prose.get_by_role("button", name=re.compile(r"[\d,]+ more characters\. Show all"))
    fold.focus()
    page.keyboard.press("Enter")
    expect(prose.locator(".fold")).to_have_count(0)
    expect(prose.locator("h4")).to_have_text([f"Part {number}" for number in range(400)])
    expect(prose.locator("pre")).to_have_count(400)
    assert prose.evaluate("prose => prose.contains(document.activeElement)")


def output(world: World, call: str = "c1") -> Stream:
    """A running call that streams."""
    world.plan(call)
    world.start_tool(call)
    return Stream(world, "tool", call)


COLOURS = (
    "\x1b[31mred\x1b[0m \x1b[1;32mbold green\x1b[m \x1b[38;5;208morange\x1b[39m \x1b[38;2;1;2;255mblue\x1b[0m "
    "\x1b[4;3;2mdim\x1b[0m \x1b[41;97mbadge\x1b[0m \x1b[7minverse\x1b[27m"
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_output_keeps_its_colours_and_can_be_read(screens: Open, scheme: str) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    page = opened.session("ana", world, color_scheme=scheme)
    said = output(world)
    said.say(COLOURS[:33])
    said.say(COLOURS[33:])
    pre = page.locator(".tool pre")
    expect(pre).to_have_text("red bold green orange blue dim badge inverse")
    styles = {one["text"]: one for one in pre.locator(".ansi").evaluate_all(STYLES)}
    assert styles["bold green"]["weight"] == "700"
    assert styles["dim"]["italic"] == "italic" and "underline" in styles["dim"]["line"]
    assert len({one["colour"] for one in styles.values()}) >= 5
    assert {text for text, one in styles.items() if one["contrast"] < 4.5} == set()


STYLES = """(all) => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    paint.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      paint.fillStyle = colour;
      paint.fillRect(0, 0, 1, 1);
    }
    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return all.map((one) => {
    const own = getComputedStyle(one);
    const ground = [getComputedStyle(one.closest("pre")).backgroundColor, own.backgroundColor];
    const [a, b] = [light(over([...ground, own.color])), light(over(ground))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const { color: colour, fontWeight: weight, fontStyle: italic, textDecorationLine: line } = own;
    return { text: one.textContent, colour, weight, italic, line, contrast };
  });
}"""


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b]8;;https://x.example\x07link\x1b]8;;\x07 \x1b]0;title\x1b\\ok", "link ok"),
        ("\x1b[2J\x1b[H\x1b[?25lhello\x1b[1A\x1b(B\x1b[m", "hello"),
        ("abc\rX", "Xbc"),
        ("one two\r\x1b[Kdone", "done"),
        ("passwort\b\x1b[Kd", "password"),
        ("ab\b\bc", "cb"),
        ("a\r\nb", "a\nb"),
        ("beep\x07 \x9b31mc1\x9bm", "beep c1"),
    ],
)
def test_control_sequences_do_what_they_would_or_are_left_out(screens: Open, raw: str, shown: str) -> None:
    opened, world, page = running(screens)
    said = output(world)
    for sign in raw:
        said.say(sign)
    pre = page.locator(".tool pre")
    expect(pre).to_have_text(shown)
    assert (pre.text_content() or "").rstrip("\n") == shown
    world.settle("c1", output=raw)
    expect(page.locator(".tool")).to_have_attribute("data-is", "settled")
    page.reload()
    expect(pre).to_have_text(shown)
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    expect(served.locator(".tool pre")).to_have_text(shown)
    assert not re.search(r"[\x1b\x07\x08\x9b]", served.content())


def test_a_progress_bar_of_ten_thousand_steps_is_one_line(screens: Open) -> None:
    _, world, page = running(screens)
    said = output(world)
    said.say("start\n")
    for start in range(0, 10_000, 500):
        said.say("".join(f"\r{'#' * (step % 60)} {step}\x1b[K" for step in range(start, start + 500)))
    pre = page.locator(".tool pre")
    expect(pre).to_contain_text(" 9999")
    assert pre.inner_text().rstrip("\n") == f"start\n{'#' * (9999 % 60)} 9999"
    assert pre.locator("*").count() < 12


def test_folded_output_keeps_the_colour_that_is_open_across_the_cut(screens: Open) -> None:
    _, world, page = running(screens)
    said = output(world)
    said.say("plain\n\x1b[31m" + "".join(f"red {number}\n" for number in range(5_000)) + "last")
    pre = page.locator(".tool pre")
    expect(pre).to_contain_text("last")
    expect(pre.locator(".ansi", has_text="last")).to_have_class(re.compile(r"\bf1\b"))
    expect(pre.locator(".fold")).to_have_text("4,986 lines hidden. Show")
    assert (pre.text_content() or "").startswith("plain\nred 0\n")
    pre.get_by_role("button").click()
    expect(pre.locator(".fold")).to_be_hidden()
    expect(pre.locator(".part")).to_have_count(13)
    expect(pre.locator(".part").last).to_contain_text("red 4999")
    whole = "plain\n" + "".join(f"red {number}\n" for number in range(5_000)) + "last"
    assert "".join(pre.locator("> span").all_text_contents()) == whole
    said.say(" words\nand more")
    expect(pre).to_contain_text("last words\nand more")


def change(world: World, tool: str, arguments: dict[str, Any], *, ask: bool = False) -> None:
    """Plan and start a call that changes a file; it asks first where the mode says so."""
    planned = (commands.PlannedCall("c1", tool, arguments),)
    world.report(commands.FinishModel(world.turn, world.epoch, world.step, "", calls=planned))
    effect = commands.Effect("path", arguments["path"]) if ask else None
    start = commands.StartTool(world.turn, world.epoch, world.step, "c1", arguments, effect, gate=new_id())
    reports.report(world.session, start, WORKER)


OLD = "".join(f"line {number}\n" for number in range(30))
EDIT = {
    "path": "src/app.py",
    "old_text": OLD,
    "new_text": OLD.replace("line 4\n", "line four\nand more\n").replace("line 25\n", ""),
}


def rows(page: Page, tag: str, place: str = ".tool") -> list[str]:
    """The lines of one kind in a diff."""
    return [text.rstrip("\n") for text in page.locator(f"{place} .diff {tag}").all_text_contents()]


def test_an_edit_shows_what_it_changes(screens: Open) -> None:
    _, world, page = running(screens)
    change(world, "edit_file", EDIT)
    expect(page.locator(".tool .sizes")).to_have_text("+2 added \u22122 removed")
    assert rows(page, "ins") == ["line four", "and more"]
    assert rows(page, "del") == ["line 4", "line 25"]
    assert rows(page, "span") == [f"line {number}" for number in (0, 1, 2, 3, 5, 6, 7, 22, 23, 24, 26, 27, 28, 29)]
    page.locator(".diff").get_by_role("button", name="14 lines that stay. Show").click()
    expect(page.locator(".diff .fold")).to_have_count(0)
    assert rows(page, "span") == [f"line {number}" for number in range(30) if number not in (4, 25)]
    world.settle("c1", output="Edited src/app.py: 1 passage replaced.")
    expect(page.locator(".tool > pre")).to_have_text("Edited src/app.py: 1 passage replaced.")
    assert rows(page, "ins") == ["line four", "and more"]


def test_a_written_file_shows_its_lines_and_folds_many(screens: Open) -> None:
    opened, world, page = running(screens)
    content = "".join(f"<b>{number}</b>\n" for number in range(3_000))
    change(world, "write_file", {"path": "big.html", "content": content})
    expect(page.locator(".tool .sizes")).to_have_text("+3,000 added")
    expect(page.locator(".diff ins")).to_have_count(12)
    page.locator(".diff").get_by_role("button", name="2,988 more lines. Show").click()
    expect(page.locator(".diff ins")).to_have_count(3_000)
    assert rows(page, "ins") == content.splitlines()
    observe(world, "kim")
    kim = opened.session("kim", world, "phone")
    expect(kim.locator(".tool .sizes")).to_be_visible()
    assert kim.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_an_approval_shows_the_whole_change(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("ana")
    control.set_mode(world.owner, world.session, new_id(), mode="ask")
    world.start()
    change(world, "edit_file", EDIT, ask=True)
    page = opened.session("ana", world, size)
    card = page.locator(".ask")
    expect(card).to_contain_text("May it make this change?")
    expect(card.locator(".sizes")).to_have_text("+2 added \u22122 removed")
    assert rows(page, "ins", ".ask") == ["line four", "and more"]
    assert rows(page, "span", ".ask") == [f"line {number}" for number in range(30) if number not in (4, 25)]
    expect(card.get_by_role("button", name="Allow once")).to_be_visible()
    expect(page.locator(".tool .change")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_very_long_answer_and_output_are_whole_when_asked_for(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    world.plan("c1", text="".join(f"Paragraph **{number}** of many.\n\n" for number in range(3_000)))
    world.start_tool("c1")
    world.settle("c1", output="".join(f"\x1b[32mline {number}\x1b[0m\n" for number in range(4_500)))
    page = opened.session("ana", world)
    prose, pre = page.locator(PROSE), page.locator(".tool pre")
    prose.get_by_role("button", name=re.compile("more characters. Show all")).press("Enter")
    expect(prose.locator("strong")).to_have_count(3_000)
    assert prose.evaluate("prose => prose.contains(document.activeElement)")
    pre.get_by_role("button", name="4,484 lines hidden. Show").press("Enter")
    expect(pre.locator(".ansi.f2")).to_have_count(4_500)
    expect(pre).to_be_focused()
