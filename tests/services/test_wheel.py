"""The wheel carries the pages, and works where there is no repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.services import REPOSITORY

SCRIPT = """
import django, os
os.environ["DJANGO_SETTINGS_MODULE"] = "steerweb.settings"
django.setup()
from django.conf import settings
from django.template.loader import get_template
from django.contrib.staticfiles.finders import find
import steerweb, sys
print(steerweb.__file__)
for name in sys.argv[1].split(","):
    print(get_template(name).origin.name)
for name in sys.argv[2].split(","):
    print(find(name))
"""


def relative(folder: str, pattern: str) -> list[str]:
    place = REPOSITORY / folder
    return sorted(str(path.relative_to(place)) for path in place.rglob(pattern) if path.is_file())


def test_an_unpacked_wheel_finds_its_templates_and_static_files_far_from_the_repository(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(REPOSITORY)], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("steerweb-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    assert not [name for name in names if name.split("/")[0] in ("templates", "static", "tests")]

    templates, static = relative("templates", "*.html"), relative("static", "*.*")
    assert templates
    assert static
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(templates), ",".join(static)],
        env={**os.environ, "PYTHONPATH": str(site)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert len(found) == 1 + len(templates) + len(static)
    assert [line for line in found if not line.startswith(str(site))] == []
