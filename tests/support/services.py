"""The real PostgreSQL and Valkey of one pytest process, and a fresh database per test.

The log refuses TRUNCATE, so each test gets a clone of a template that the migrations have been run on once, and it is
dropped afterwards. Only where a web process stays, its clone stays too and is emptied behind the log's back.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import psycopg
import redis
from psycopg import sql

from steerweb.services import Postgres, Valkey
from steerweb.services.identity import choose_identity
from steerweb.services.process import Identity
from tests.support import early

TEMPLATE = "steerweb_template"
REPOSITORY = Path(__file__).resolve().parent.parent.parent
_numbers = count(1)


@cache
def postgres() -> Postgres:
    """This process's PostgreSQL, started with the first call; a test that ends it starts it again."""
    # Where it has to run as `nobody`, it cannot enter this process's folder.
    sockets = None if choose_identity() is Identity.NOBODY else early.POSTGRES_SOCKETS
    server = Postgres(early.DATA, log=early.ROOT / "postgres.log", fsync=False, sockets=sockets)
    server.start()
    return server


@cache
def valkey() -> Valkey:
    """This process's Valkey, started with the first call, at the address the settings were given at import."""
    server = Valkey(early.DATA, log=early.ROOT / "valkey.log", fsync=False, sockets=early.REDIS_SOCKETS)
    server.start()
    return server


@cache
def template() -> str:
    """The name of the migrated template database."""
    server = postgres()
    server.ensure_database(TEMPLATE)
    done = subprocess.run(
        [sys.executable, "-m", "steerweb", "migrate", "--verbosity", "0", "--skip-checks"],
        cwd=REPOSITORY,
        env={**os.environ, "DATABASE_URL": server.url(TEMPLATE)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the migrations failed:\n{done.stdout}{done.stderr}")
    return TEMPLATE


@contextmanager
def clone() -> Iterator[str]:
    """The URL of a fresh database, dropped at the end whoever is still connected."""
    server, source = postgres(), template()
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(source)
            )
        )
    try:
        yield server.url(name)
    finally:
        if not server.running():
            server.start()
        with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def empty(url: str) -> None:
    """Leave of a clone what the migrations wrote, so that a web process can stay on it from test to test.

    Sessions go first, as whoever changes anything locks its session first. The log's guards and the references between
    the tables are triggers, and these rest here.
    """
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        for table in sorted(_filled_by_tests(), key=lambda name: name != "session"):
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))


@cache
def _filled_by_tests() -> list[str]:
    """The tables that the migrations leave empty."""
    with psycopg.connect(postgres().url(template())) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = sql.SQL("SELECT 1 FROM {} LIMIT 1")
        return [name for (name,) in tables if not connection.execute(rows.format(sql.Identifier(name))).fetchone()]


def clean_redis() -> str:
    """The URL of an empty Valkey that runs."""
    server = valkey()
    if not server.running():
        server.start()
    with redis.Redis.from_url(server.url()) as client:
        client.flushall()
    return server.url()


def stop_all() -> None:
    """Stop what was started, at the end of the process."""
    if postgres.cache_info().currsize:
        postgres().stop()
    if valkey.cache_info().currsize:
        valkey().stop()
