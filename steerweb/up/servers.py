"""The servers `up` uses: embedded ones, or those that DATABASE_URL and REDIS_URL name."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steerweb.services import Postgres, ServiceError, Valkey
from steerweb.services.process import Identity
from steerweb.up.announce import say
from steerweb.up.preparing import is_prepared
from steerweb.up.supervisor import Service, Supervisor

IDENTITIES = {
    Identity.SELF: "",
    Identity.NAMESPACE: " (in a user namespace, as it refuses root)",
    Identity.NOBODY: " (as the user nobody, as it refuses root)",
}


@dataclass(frozen=True, slots=True)
class Servers:
    """Their addresses, and whether the database is known to be prepared for this version."""

    database_url: str
    redis_url: str
    prepared: bool


def start_servers(data: Path, log: Callable[[str], Path], supervisor: Supervisor) -> Servers:
    """Start what the environment does not name and check what it names; ServiceError with one sentence."""
    prepared = False
    if database_url := os.environ.get("DATABASE_URL"):
        _check_database(database_url)
    else:
        postgres = Postgres(data, log=log("postgres"))
        supervisor.start(Service(postgres))
        prepared = is_prepared(data) and not postgres.created
        if not prepared:
            postgres.ensure_database()
        database_url = postgres.url()
        say(f"PostgreSQL runs{IDENTITIES[postgres.identity]}.")
    if redis_url := os.environ.get("REDIS_URL"):
        _check_redis(redis_url)
    else:
        valkey = Valkey(data, log=log("valkey"))
        supervisor.start(Service(valkey))
        redis_url = valkey.url()
        say("Valkey runs.")
    return Servers(database_url, redis_url, prepared)


def _check_database(url: str) -> None:
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.Error as problem:
        words = str(problem).strip().splitlines()[-1:] or [type(problem).__name__]
        raise ServiceError(f"The database of DATABASE_URL cannot be used: {words[0]}.") from problem


def _check_redis(url: str) -> None:
    import redis

    try:
        with redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5) as client:
            client.ping()
    except (redis.RedisError, ValueError) as problem:
        raise ServiceError(f"The server of REDIS_URL cannot be used: {problem}.") from problem
