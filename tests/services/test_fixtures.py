"""What tests are given: a fresh, migrated database each, shared by Django, the log and child processes."""

import os

import httpx
import psycopg
import pytest
from django.conf import settings
from django.test import Client

from sessions_app.log import db
from sessions_app.models import Person
from tests.support.services import clean_redis
from tests.support.stack import Stack
from tests.support.world import World


@pytest.mark.parametrize("name", ["ana", "ben"])
def test_a_database_is_fresh_each_time_and_everybody_uses_it(database: str, name: str) -> None:
    assert not Person.objects.exists()
    Person.objects.create_user(name)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT username FROM person").fetchall() == [(name,)]
    with db.cursor("read") as cursor:
        assert cursor.execute("SELECT username FROM person").fetchall() == [(name,)]
    assert settings.DATABASE_URL == os.environ["DATABASE_URL"] == database


@pytest.mark.parametrize("number", [1, 2])
def test_the_mark_of_pytest_django_gives_one_too(client: Client, db: None, number: int) -> None:
    assert not Person.objects.exists()
    Person.objects.create_user("ben")


@pytest.mark.parametrize("name", ["ana", "ben"])
def test_the_web_process_of_a_file_stays_and_its_database_is_empty_each_time(
    web: Stack, database: str, name: str
) -> None:
    assert database == web.database == settings.DATABASE_URL
    with psycopg.connect(database) as connection:
        for table in ("person", "session", "event", "member", "worker"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    World.create(name)
    assert httpx.get(web.url + "/health/ready").json()["database"] is True


def test_without_asking_there_is_no_database() -> None:
    with pytest.raises(RuntimeError, match="Database access not allowed"):
        Person.objects.exists()


def test_redis_is_the_one_of_the_settings(redis_url: str) -> None:
    assert redis_url == settings.REDIS_URL == clean_redis()


def test_a_stack_is_real_processes_on_the_same_database(stack: Stack) -> None:
    assert httpx.get(stack.url + "/health/ready").json() == {"ok": True, "database": True, "redis": True}
    first = stack.worker.pid
    stack.kill_worker()
    stack.worker.start()
    stack.wait_worker()
    assert stack.worker.pid != first
    other = stack.start_web()
    assert other != stack.url
    assert httpx.get(other + "/health/live").status_code == 200
    stack.redis.stop()
    assert httpx.get(stack.url + "/health/ready").json() == {"ok": True, "database": True, "redis": False}
    stack.redis.start()
    assert httpx.get(stack.url + "/health/ready").json() == {"ok": True, "database": True, "redis": True}
