"""Fixtures of all tests: real services, a fresh database each, and the product as real processes.

- `database`: the URL of a fresh, migrated database; Django's connection and `sessions_app.log.db` use it. A test that
  asks for pytest-django's `db`, `client`, ... or has its `django_db` mark gets it too.
- `redis_url`: the URL of an empty Valkey (`settings.REDIS_URL` names it at all times).
- `web`: the web process of this file, one for all its tests; the test's database is then the one it is on, emptied.
- `server`: a scripted model server, to which `env=server.environ()` leads a stack's workers.
- `stack`: web and worker as real processes on that database; `make_stack(webs=, workers=, env=)` for other shapes.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pytest_django import DjangoDbBlocker

from tests.support import early, services
from tests.support.model_server import ModelServer
from tests.support.stack import Stack, stack_folder

MakeStack = Callable[..., Stack]
_stack_numbers = count(1)
_stacks = pytest.StashKey[list[Stack]]()


def pytest_sessionfinish() -> None:
    """Stop this process's services and remove its folder."""
    services.stop_all()


def pytest_unconfigure() -> None:
    """Remove this process's folder last, when no log is written any more."""
    shutil.rmtree(early.ROOT, ignore_errors=True)


def _close_connections() -> None:
    """Close this thread's connections, those made while a loop ran and those made while none did.

    Django keeps the two apart (asgiref's `Local`), and Playwright's loop runs while its tests look like plain code:
    what they opened would stay for the next module's async tests, on a database that is dropped.
    """
    from django.db import connections

    running = asyncio._get_running_loop()
    other = asyncio.new_event_loop()
    try:
        for loop in (None, running or other):
            asyncio._set_running_loop(loop)
            connections.close_all()
    finally:
        asyncio._set_running_loop(running)
        other.close()


def _point_at(url: str) -> None:
    """Make Django's connections of every thread, the log's pool and child processes use `url`."""
    from django.conf import settings
    from django.db import connections
    from django.db.backends.postgresql.base import DatabaseWrapper

    from sessions_app.log import db

    parts = conninfo_to_dict(url)
    _close_connections()
    if isinstance(connections["default"], DatabaseWrapper):
        connections["default"].close_pool()
    # Every thread's connection shares this dict; those open elsewhere are cut when their database is dropped.
    connections.databases["default"].update(
        NAME=parts["dbname"], USER=parts.get("user", ""), HOST=parts.get("host", ""), PORT=""
    )
    settings.DATABASE_URL = url
    os.environ["DATABASE_URL"] = url
    db.configure(url)


@contextmanager
def point_at(url: str) -> Iterator[None]:
    """Everything uses `url` for the length of the block."""
    before = os.environ["DATABASE_URL"]
    _point_at(url)
    try:
        yield
    finally:
        _point_at(before)


@pytest.fixture
def database(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The libpq URL of a fresh, migrated database."""
    services.clean_redis()  # whatever is committed rings the bell and offers loops
    stays = "web_of_file" in request.fixturenames
    fresh = _emptied(request.getfixturevalue("web_of_file")) if stays else services.clone()
    with fresh as url, django_db_blocker.unblock(), point_at(url):
        yield url


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model server that refuses what real providers refuse; at the end it refused nothing."""
    with ModelServer() as running:
        yield running
        assert running.violations == []


@contextmanager
def _emptied(stack: Stack) -> Iterator[str]:
    """The database of a web process that stays."""
    services.empty(stack.database)
    yield stack.database


def note_stack(node: pytest.Item | pytest.Collector, stack: Stack) -> None:
    """The processes' logs are shown with what fails of this test or file."""
    node.stash.setdefault(_stacks, []).append(stack)


@pytest.fixture(scope="module")
def web_env() -> dict[str, str]:
    """What the environment of the file's web process says beside the usual; a file may have its own."""
    return {}


@pytest.fixture(scope="module")
def web_of_file(request: pytest.FixtureRequest, web_env: dict[str, str]) -> Iterator[Stack]:
    """A stack with one web process, on a database of its own, for all tests of a file."""
    with services.clone() as url:
        stack = Stack(url, services.clean_redis(), stack_folder(str(next(_stack_numbers))), web_env)
        note_stack(request.node, stack)
        try:
            stack.start_web()
            yield stack
        finally:
            stack.stop()


@pytest.fixture
def web(web_of_file: Stack, database: str, redis_url: str) -> Stack:
    """The file's web process, with nothing of the tests before; the test plays the worker."""
    return web_of_file


@pytest.fixture
def sql(database: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """A plain connection to the test's database, committing each statement, rows as dicts."""
    with psycopg.connect(database, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
        yield connection


@pytest.fixture
def _django_db_helper(database: str) -> None:
    """Replace what stands behind pytest-django's `db` fixtures: no flush (the log refuses it), no outer transaction."""


@pytest.fixture
def redis_url() -> str:
    """The URL of an empty Valkey that runs."""
    return services.clean_redis()


@pytest.fixture
def make_stack(request: pytest.FixtureRequest, database: str, redis_url: str) -> Iterator[MakeStack]:
    """`make_stack(webs=1, workers=1, env={})` starts the product's processes; they end with the test."""
    started: list[Stack] = []

    def make(webs: int = 1, workers: int = 1, env: dict[str, str] | None = None) -> Stack:
        stack = Stack(database, redis_url, stack_folder(str(next(_stack_numbers))), env or {})
        started.append(stack)
        note_stack(request.node, stack)
        for _ in range(webs):
            stack.start_web()
        for _ in range(workers):
            stack.start_worker()
        return stack

    yield make
    for stack in started:
        stack.stop()


@pytest.fixture
def stack(make_stack: MakeStack) -> Stack:
    """One web and one worker process."""
    return make_stack()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the processes' logs with a failed test, those of its file too."""
    report = yield
    if report.failed:
        for node in item.listchain():
            for stack in node.stash.get(_stacks, []):
                report.sections.extend((f"log of {name}", text) for name, text in stack.logs().items())
    return report
