"""The file tools: what they do, and that nothing leads them out of the workspace or makes them wait for ever."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from sessions_app.worker.background import Background
from sessions_app.worker.tools.base import READ_LIMIT, ToolContext, ToolOutcome
from sessions_app.worker.tools.registry import run_tool, specs
from sessions_app.worker.warden.client import Warden
from tests.worker.wardens import alive, guarded, tool_context, until


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace beside something that is none of its business."""
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def tool(workspace: Path, name: str, **arguments: Any) -> ToolOutcome:
    """Run a tool that needs no warden."""
    home, keeper = workspace / "home", Background(lambda news: None)
    context = ToolContext(
        workspace, "call_1", "t", "s", "l", 1, _NO_WARDEN, lambda text: None, asyncio.Event(), home, keeper
    )
    return await run_tool(name, arguments, context)


_NO_WARDEN: Any = object.__new__(Warden)


def test_what_a_model_is_told() -> None:
    assert [spec.name for spec in specs("ask")] == [
        "shell",
        "read_file",
        "search",
        "write_file",
        "edit_file",
        "delegate",
    ]
    assert [spec.name for spec in specs("plan")] == ["read_file", "search", "delegate"]
    for spec in specs("auto"):
        assert spec.schema["type"] == "object"
        assert spec.schema["additionalProperties"] is False


async def test_write_read_edit(workspace: Path) -> None:
    made = await tool(workspace, "write_file", path="src/deep/a.txt", content="one\ntwo\nthree\n")
    assert made == ToolOutcome("ok", "Made src/deep/a.txt: 3 lines, 14 bytes.")
    assert await tool(workspace, "read_file", path="src/deep/a.txt") == ToolOutcome("ok", "one\ntwo\nthree\n")
    edited = await tool(workspace, "edit_file", path="src/deep/a.txt", old_text="two", new_text="2 €")
    assert edited == ToolOutcome("ok", "Edited src/deep/a.txt: 1 passage replaced.")
    read = await tool(workspace, "read_file", path=str(workspace / "src/deep/a.txt"), offset=2, limit=1)
    assert read.output == "2 €\n[more lines follow; go on with offset 3]"
    replaced = await tool(workspace, "write_file", path="src/deep/a.txt", content="")
    assert replaced.output == "Replaced src/deep/a.txt: 0 lines, 0 bytes."
    assert (await tool(workspace, "read_file", path="src/deep/a.txt")).output == "[the file is empty]"
    assert [each.name for each in (workspace / "src/deep").iterdir()] == ["a.txt"]


async def test_reading_at_the_edges(workspace: Path) -> None:
    (workspace / "f").write_bytes(b"a\r\nb\x0cc\nlast")
    assert (await tool(workspace, "read_file", path="f")).output == "a\r\nb\x0cc\nlast"
    assert (await tool(workspace, "read_file", path="f", offset=3)).output == "last"
    past = await tool(workspace, "read_file", path="f", offset=4)
    assert (past.outcome, past.output) == ("error", "f ends before line 4")
    (workspace / "bin").write_bytes(b"\0\xff\n")
    binary = await tool(workspace, "read_file", path="bin")
    assert (binary.output, binary.replaced) == ("\ufffd\ufffd\n", True)


async def test_large_files_are_read_in_parts(workspace: Path) -> None:
    (workspace / "lines").write_text("".join(f"{number:>9}\n" for number in range(1, 100_001)))
    first = await tool(workspace, "read_file", path="lines")
    assert first.output.endswith("     2000\n[more lines follow; go on with offset 2001]")
    later = await tool(workspace, "read_file", path="lines", offset=99_999)
    assert later.output == "    99999\n   100000\n"
    (workspace / "wide").write_text("€" * 100_000 + "\nnext\n")
    wide = await tool(workspace, "read_file", path="wide")
    assert f"[line 1 goes on; one result holds {READ_LIMIT:,} bytes at most]" in wide.output
    assert not wide.replaced
    assert (await tool(workspace, "read_file", path="wide", offset=2)).output == "next\n"
    (workspace / "fat").write_text(("x" * 1000 + "\n") * 1000)
    fat = await tool(workspace, "read_file", path="fat")
    assert fat.output.endswith("x\n[more lines follow; go on with offset 131]")


async def test_an_edit_that_is_not_exact_changes_nothing_and_says_why(workspace: Path) -> None:
    file = workspace / "f.py"
    file.write_text("def a():\n    pass\n\ndef b():\n    pass\n")
    cases = [
        ({"old_text": "pass", "new_text": "return"}, "occurs 2 times in f.py (lines 2, 5)"),
        ({"old_text": "nothing", "new_text": "x"}, "does not occur in f.py; read the file again"),
        ({"old_text": "def a():\n\tpass", "new_text": "x"}, "the same words are there with other white space"),
        ({"old_text": "", "new_text": "x"}, "use write_file"),
        ({"old_text": "pass", "new_text": "pass"}, "nothing would change"),
        ({"old_text": "pass", "new_text": "x", "all": "yes"}, "`all` must be true or false"),
    ]
    before = file.read_text()
    for arguments, words in cases:
        outcome = await tool(workspace, "edit_file", path="f.py", **arguments)
        assert outcome.outcome == "error"
        assert words in outcome.output
        assert file.read_text() == before
    both = await tool(workspace, "edit_file", path="f.py", old_text="pass", new_text="...", all=True)
    assert both.output == "Edited f.py: 2 passages replaced."
    (workspace / "dos").write_bytes(b"a\r\nb\r\n")
    dos = await tool(workspace, "edit_file", path="dos", old_text="a\nb", new_text="c")
    assert "its lines end with \\r\\n" in dos.output


async def test_an_edit_keeps_the_mode(workspace: Path) -> None:
    file = workspace / "run.sh"
    file.write_text("echo a\n")
    file.chmod(0o750)
    await tool(workspace, "edit_file", path="run.sh", old_text="a", new_text="b")
    assert (file.read_text(), file.stat().st_mode & 0o7777) == ("echo b\n", 0o750)


OUTSIDE = [
    "../secret",
    "a/../../secret",
    "link",
    "up/secret",
    "absolute",
    "chain",
    "inner/../../secret",
]


@pytest.fixture
def trapped(workspace: Path) -> Path:
    """A workspace full of ways out."""
    (workspace / "a").mkdir()
    (workspace / "link").symlink_to("../secret")
    (workspace / "up").symlink_to("..")
    (workspace / "absolute").symlink_to(workspace.parent / "secret")
    (workspace / "chain").symlink_to("link")
    (workspace / "inner").symlink_to("a")
    (workspace / "loop").symlink_to("loop")
    return workspace


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_way_leads_outside(trapped: Path, path: str) -> None:
    secret = trapped.parent / "secret"
    for each in (path, str(trapped / path)):
        for name, more in (
            ("read_file", {}),
            ("write_file", {"content": "mine"}),
            ("edit_file", {"old_text": "not", "new_text": "all"}),
        ):
            outcome = await tool(trapped, name, path=each, **more)
            assert outcome.outcome == "error"
            assert "outside the workspace" in outcome.output
    assert secret.read_text() == "not yours"
    assert sorted(each.name for each in trapped.parent.iterdir()) == ["secret", "work"]


async def test_links_inside_are_followed(trapped: Path) -> None:
    (trapped / "a" / "f").write_text("found")
    (trapped / "here").symlink_to(trapped / "a")
    for path in ("inner/f", "here/f", "a/../inner/./f", "inner/../a/f"):
        assert (await tool(trapped, "read_file", path=path)).output == "found"
    await tool(trapped, "write_file", path="inner/f", content="changed")
    assert (trapped / "a" / "f").read_text() == "changed"
    (trapped / "to-f").symlink_to("a/f")
    await tool(trapped, "edit_file", path="to-f", old_text="changed", new_text="twice")
    assert (trapped / "a" / "f").read_text() == "twice"
    assert (trapped / "to-f").is_symlink()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("loop", "too many symbolic links"),
        ("missing", "no such file or directory"),
        ("missing/deeper", "no such file or directory"),
        ("a", "is a directory"),
        (".", "is a directory"),
        ("pipe", "is no ordinary file"),
        ("null", "is no ordinary file"),
        ("/etc/passwd", "outside the workspace"),
        ("", "the path is empty"),
        ("f/x", "not a directory"),
    ],
)
async def test_what_cannot_be_read(trapped: Path, path: str, words: str) -> None:
    os.mkfifo(trapped / "pipe")
    (trapped / "f").write_text("x")
    if path == "null":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(trapped / "null", 0o020666, os.makedev(1, 3))
    outcome = await asyncio.wait_for(tool(trapped, "read_file", path=path), 5)
    assert outcome.outcome == "error"
    assert words in outcome.output
    if path != "missing" and path != "missing/deeper":
        written = await asyncio.wait_for(tool(trapped, "write_file", path=path, content="x"), 5)
        assert written.outcome == "error"


async def test_limits(workspace: Path) -> None:
    outcome = await tool(workspace, "write_file", path="big", content="x" * (8 * 1024 * 1024 + 1))
    assert "8,388,609 bytes are too much for one file; the limit is 8,388,608" in outcome.output
    with (workspace / "huge").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    outcome = await tool(workspace, "edit_file", path="huge", old_text="a", new_text="b")
    assert "the limit for editing" in outcome.output
    with (workspace / "endless").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    outcome = await tool(workspace, "read_file", path="endless", offset=2)
    assert "too large to read this way" in outcome.output


@pytest.mark.rule("A6")
@pytest.mark.scenario("D27")
async def test_a_nul_in_an_argument_is_replaced_and_said(workspace: Path) -> None:
    outcome = await tool(workspace, "write_file", path="f", content="a\0b")
    assert (outcome.outcome, outcome.replaced) == ("ok", True)
    assert (workspace / "f").read_text() == "a\ufffdb"
    outcome = await tool(workspace, "read_file", path="\0")
    assert (outcome.outcome, outcome.replaced) == ("error", True)


async def test_search(trapped: Path) -> None:
    (trapped / "a" / "x.py").write_text("import os\ndef find_me(): pass\n")
    (trapped / "a" / "y.txt").write_text("Find_Me too: 1:2\n")
    (trapped / "a" / "data").write_bytes(b"find_me\0\xff")
    (trapped / ".git").mkdir()
    (trapped / ".git" / "z.py").write_text("find_me")
    os.mkfifo(trapped / "pipe")
    async with guarded(trapped) as ward:
        context = tool_context(ward)

        async def search(**arguments: Any) -> ToolOutcome:
            return await run_tool("search", arguments, context)

        assert (await search(pattern="find_(me|you)")).output == "a/x.py:2:def find_me(): pass"
        both = (await search(pattern="find_me", ignore_case=True)).output
        assert sorted(both.split("\n")) == ["a/x.py:2:def find_me(): pass", "a/y.txt:1:Find_Me too: 1:2"]
        assert (await search(pattern="find_me", glob="*.txt")).output == "No line matches."
        assert (await search(pattern="os$", path="inner")).output == "a/x.py:1:import os"
        assert (await search(pattern="os$", path="a/x.py")).output == "a/x.py:1:import os"
        assert (await search(pattern="not yours")).output == "No line matches."
        for path in ("..", "up", "link"):
            assert "outside the workspace" in (await search(pattern="yours", path=path)).output
        bad = await search(pattern="(")
        assert bad.outcome == "error"
        assert "Unmatched ( or \\(" in bad.output
        assert (await search(pattern="x", path="missing")).outcome == "error"
        assert (await search(pattern="-e")).outcome == "ok"


async def test_search_stops_when_it_has_enough(workspace: Path) -> None:
    (workspace / "many").write_text(("match " + "y" * 1000 + "\n") * 100_000)
    async with guarded(workspace) as ward:
        outcome = await run_tool("search", {"pattern": "match"}, tool_context(ward))
        lines = outcome.output.split("\n")
        assert outcome.outcome == "ok"
        assert len(lines) == 201
        assert lines[0].startswith("many:1:match yyy")
        assert len(lines[0]) == 402
        assert lines[-1] == "[more than 200 lines match; narrow the search]"


@pytest.mark.rule("E6")
async def test_a_search_can_be_stopped(workspace: Path) -> None:
    with (workspace / "sparse").open("wb") as file:
        file.write(b"text\n")
        file.truncate(2**40)
    async with guarded(workspace) as ward:
        context = tool_context(ward)
        running = asyncio.ensure_future(run_tool("search", {"pattern": "never there", "path": "sparse"}, context))
        await until(lambda: running.done() or alive("never there"), "the search")
        context.stop.set()
        outcome = await running
        assert outcome.outcome in ("interrupted", "ok")  # a grep that sees a binary file at once may be done already
        assert alive("never there") == []
