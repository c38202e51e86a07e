"""`docs/rules.md`, made from the tests: each rule and each scenario with the tests that name it.

`python -m tests.rules_page` writes it anew; a test says when it is not what the tests say.
"""

from collections import Counter
from pathlib import Path
from typing import Final

from tests.test_rules import listed, named

PAGE: Final = Path(__file__).parent.parent / "docs" / "rules.md"
_HEAD: Final = """# Rules and the tests that prove them

Made by `python -m tests.rules_page` from the marks of the tests. The rules are the engine's contract (ARCHITECTURE.md
tells what they are about), the scenarios are failures that users of other products reported. Behind each file stands
how often it names the rule.
"""


def page() -> str:
    """The page's text."""
    return "\n".join(
        [_HEAD, *_table("Rule", "rule", "rules.txt"), "", *_table("Scenario", "scenario", "scenarios.txt"), ""]
    )


def _table(title: str, mark: str, listing: str) -> list[str]:
    tests = named(mark)
    rows = [f"| {title} | tests |", "|---|---|"]
    for name, state in listed(listing).items():
        files = Counter(tests.get(name, []))
        shown = ", ".join(f"{file} {count}" if count > 1 else file for file, count in sorted(files.items()))
        rows.append(f"| {name} | {'; '.join(filter(None, [state and f'*{state}*', shown]))} |")
    return rows


if __name__ == "__main__":
    PAGE.write_text(page())
