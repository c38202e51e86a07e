"""The stored keys: written by an administrator's page, read by workers, known to the masking of every process.

The environment wins: where it names a key or an address for a provider, what is stored for it is not used.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from sessions_app.engine.model_names import PROVIDERS, Given, usable
from sessions_app.keys.sealing import seal, unseal
from sessions_app.log import db, secrets

FAMILIES: Final[Mapping[str, str]] = {"openai": "openai-chat", "anthropic": "anthropic", "google": "google"}
"""Whose keys can be entered, each with the provider (of `PROVIDERS`) that stands for it."""
UNREADABLE: Final = (
    "The key that was entered cannot be opened any more, because STEERWEB_SECRET_KEY is another one now. "
    "An administrator can enter it again under Models."
)
MOST_MODELS: Final = 200
_LAST: Final = 4
_ALL: Final = """SELECT k.provider, k.sealed, k.ending, k.base_url, k.set_at, p.username, k.tested_at, k.works, k.told,
    k.models FROM provider_key k LEFT JOIN person p ON p.id = k.set_by_id"""
_SET: Final = """INSERT INTO provider_key (provider, sealed, ending, base_url, set_by_id, told, models)
    VALUES (%(provider)s, %(sealed)s, %(ending)s, %(base_url)s, %(person)s, '', '[]')
    ON CONFLICT (provider) DO UPDATE SET sealed = excluded.sealed, ending = excluded.ending,
        base_url = excluded.base_url, set_by_id = excluded.set_by_id, set_at = now(), tested_at = NULL, works = NULL,
        told = '', models = '[]'"""
_ASKED: Final = """INSERT INTO provider_key (provider, sealed, told, models, ending, base_url)
    VALUES (%s, '', '', '[]', '', '')
    ON CONFLICT (provider) DO UPDATE SET tested_at = NULL, works = NULL, told = ''"""
_TESTED: Final = """UPDATE provider_key SET tested_at = now(), works = %s, told = %s,
    models = CASE WHEN %s THEN %s ELSE models END WHERE provider = %s"""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a provider's key: whether one is stored (`sealed`), and `given` where it can be opened."""

    provider: str
    sealed: bool
    given: Given | None
    ending: str
    base_url: str
    set_at: datetime
    set_by: str | None
    tested_at: datetime | None
    works: bool | None
    told: str
    models: tuple[str, ...]


def family_of(provider: str) -> str | None:
    """Whose key a provider of `PROVIDERS` uses; None where it cannot be entered on the page."""
    title = PROVIDERS[provider].title
    return next((family for family, first in FAMILIES.items() if PROVIDERS[first].title == title), None)


def from_environment(family: str) -> bool:
    """Whether this process's environment has what the provider needs, and what is stored is therefore not used."""
    return usable(PROVIDERS[FAMILIES[family]], os.environ)


def read_all() -> dict[str, Stored]:
    """Everything stored, by family."""
    with db.cursor("read") as cur:
        return {row[0]: _stored(row) for row in cur.execute(_ALL).fetchall()}


def _stored(row: tuple[Any, ...]) -> Stored:
    provider, sealed, ending, base_url, set_at, set_by, tested_at, works, told, models = row
    key = unseal(bytes(sealed)) if sealed else None
    given = None if key is None else Given(key, base_url)
    return Stored(
        provider, bool(sealed), given, ending, base_url, set_at, set_by, tested_at, works, told, tuple(models)
    )  # fmt: skip


def refresh() -> dict[str, Given | None]:
    """The stored keys by family as they are now, None for one that cannot be opened. This process masks them."""
    found = {family: one.given for family, one in read_all().items() if one.sealed}
    secrets.learn(given.key for given in found.values() if given is not None)
    return found


def store(family: str, key: str, base_url: str, person: UUID) -> None:
    """Replace what is stored for a provider. An empty key is for a server that asks for none."""
    sealed = seal(key)
    ending = key[-_LAST:] if len(key) >= 2 * secrets.SHORTEST else ""  # of a short one they would tell too much
    values = {"provider": family, "sealed": sealed, "ending": ending, "base_url": base_url, "person": person}
    with db.cursor("write") as cur:
        cur.execute(_SET, values)
    refresh()


def remove(family: str) -> None:
    """Forget what is stored for a provider."""
    with db.cursor("write") as cur:
        cur.execute("DELETE FROM provider_key WHERE provider = %s", (family,))
    refresh()


def ask_test(family: str) -> None:
    """A test begins: what an earlier one said is not its outcome."""
    with db.cursor("write") as cur:
        cur.execute(_ASKED, (family,))


def keep_test(family: str, works: bool, told: str, models: list[str]) -> None:
    """What the provider answered, in words."""
    with db.cursor("write") as cur:
        cur.execute(_TESTED, (works, told, works, Jsonb(models[:MOST_MODELS]), family))
