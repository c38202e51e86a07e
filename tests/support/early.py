"""Loaded by `-p` before Django reads its settings: points every setting at this test process's own services.

The services themselves start with the first test that needs them (services.py), so pure tests pay nothing.
"""

import os
import shutil
import tempfile
from pathlib import Path

# One root per pytest process, so each xdist worker has its own servers and a test may kill them.
PREFIX = "steerweb-test-"
for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
    owner = old.name.split("-")[2]
    if owner.isdigit() and not Path(f"/proc/{owner}").exists():  # left by a test process that was killed
        shutil.rmtree(old, ignore_errors=True)
ROOT = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
DATA = ROOT / "data"
DATA.mkdir(mode=0o700)
REDIS_SOCKETS = ROOT / "kv"
REDIS_SOCKETS.mkdir(mode=0o700)
POSTGRES_SOCKETS = ROOT / "pg"
POSTGRES_SOCKETS.mkdir(mode=0o700)

# No test reaches a real provider, or a running `up`, by accident.
for name in [name for name in os.environ if name.endswith(("_API_KEY", "_API_TOKEN")) or name == "OPENAI_BASE_URL"]:
    del os.environ[name]
for name in ("STEERWEB_URL", "STEERWEB_ALLOWED_HOSTS", "STEERWEB_TOKEN"):
    os.environ.pop(name, None)
os.environ["STEERWEB_DATA"] = str(DATA)
os.environ["STEERWEB_SECRET_KEY"] = "only-for-tests-" + "0" * 40
os.environ["DATABASE_URL"] = "postgresql://steerweb@/no_test_asked_for_a_database?host=/nonexistent"
os.environ["REDIS_URL"] = f"unix://{REDIS_SOCKETS}/valkey.sock"
# Playwright's sync API keeps a loop running in the test's thread; Django's guard against that is for servers.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
