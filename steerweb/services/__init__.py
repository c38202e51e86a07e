"""Real PostgreSQL and a real Redis-compatible server from wheels, for machines that have neither."""

from steerweb.services.errors import ServiceError
from steerweb.services.postgres import Postgres
from steerweb.services.valkey import Valkey

__all__ = ["Postgres", "ServiceError", "Valkey"]
