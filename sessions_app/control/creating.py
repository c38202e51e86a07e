"""A new session: its row, its first events and its owner, in one transaction."""

import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from psycopg import Cursor
from psycopg.types.json import Jsonb

from sessions_app.control.transact import fingerprint, first_receipt, keep_receipt, persistently
from sessions_app.engine.decide.sessions import check_settings
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import INPUT_BYTES, TITLE_BYTES, check_size
from sessions_app.engine.model_names import DEMO, check_name
from sessions_app.engine.state import FOLD, MODES, State, to_json
from sessions_app.engine.text import clean
from sessions_app.ids import new_id
from sessions_app.log import bell
from sessions_app.log.append import GENESIS, Appended, Locked, append
from sessions_app.log.db import Row
from sessions_app.log.secrets import mask
from sessions_app.people.principals import Principal

UNTITLED: Final = "New session"
AGENT: Final = "steerweb"


@dataclass(frozen=True, slots=True)
class _New:
    """A session as it was asked for, defaults filled in."""

    session: str
    loop: str
    title: str
    model: str
    instructions: str
    workspace: str
    settings: dict[str, Any]
    mode: str


def create_session(
    principal: Principal,
    command: str,
    *,
    title: str | None = None,
    model: str | None = None,
    instructions: str | None = None,
    workspace: str | None = None,
    mode: str | None = None,
    agent: str | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Create a session with its primary loop; its creator is the owner. `{id, loop, seq, title, model, workspace}`."""
    if principal.person is None:
        raise Refused("not_allowed", "Only people have sessions.")
    session = new_id()
    new = _New(
        session,
        new_id(),
        (title or "").strip() or UNTITLED,
        model or DEMO,
        instructions or "",
        _workspace(workspace, session),
        settings or {},
        mode or ("auto" if (model or DEMO).startswith(DEMO) else "ask"),
    )
    _check(new, mode, agent)
    digest = fingerprint(["create", title, model, instructions, workspace, mode, agent, settings])

    def create(cur: Cursor[Row]) -> tuple[dict[str, Any], Appended | None]:
        # There is no row to lock yet: two of the same command at once meet here, and the second waits for the first.
        cur.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"create {principal.key} {command}",))
        first = first_receipt(cur, principal.key, command, digest)
        if first is not None:
            return first, None
        locked = _insert(cur, principal, new)
        appended = append(cur, locked, _first_events(principal, new), principal.actor, command)
        receipt = {
            "id": new.session, "loop": new.loop, "seq": locked.head, "model": new.model, "workspace": new.workspace,
        }  # fmt: skip
        keep_receipt(cur, principal.key, command, digest, receipt)
        return receipt, appended

    receipt, appended = persistently("write", command, create)
    if appended is not None:
        bell.ring(appended)
    return {**receipt, "title": clean(mask(new.title))[0]}


def _check(new: _New, mode: str | None, agent: str | None) -> None:
    check_size(new.title, TITLE_BYTES, "title")
    check_size(new.instructions, INPUT_BYTES, "instructions")
    check_settings(new.settings)
    problem = check_name(new.model)
    if problem is not None:
        raise Refused("invalid", problem, field="model")
    if mode not in (None, *MODES):
        raise Refused("invalid", f"A mode is one of {', '.join(MODES)}.", field="mode")
    if agent not in (None, AGENT):
        raise Refused("invalid", "Agent profiles are not built yet.", field="agent")


def _first_events(principal: Principal, new: _New) -> tuple[Draft, ...]:
    created: dict[str, Any] = {
        "title": new.title, "created_by": str(principal.person), "workspace": new.workspace, "settings": new.settings,
    }  # fmt: skip
    if new.title == UNTITLED:
        created["untitled"] = True  # the first message makes one
    loop = {
        "parent": None, "agent": AGENT, "model": new.model, "mode": new.mode, "instructions": new.instructions,
    }  # fmt: skip
    return (
        Draft("SessionCreated", created),
        Draft("MemberChanged", {"person": str(principal.person), "role": "owner"}),
        Draft("LoopStarted", loop, new.loop),
    )


def _insert(cur: Cursor[Row], principal: Principal, new: _New) -> Locked:
    """The session's row, which nobody else sees before the commit; its title and settings come with its first event."""
    row = cur.execute(
        """WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS at)
           INSERT INTO session (id, created_by_id, created_at, title, workspace, model, settings, head, chain, state,
               fold, word, word_since, active_at, runnable)
           SELECT %s, %s, at, '', %s, %s, '{}', 0, %s, %s, %s, 'idle', at, at, false FROM clock
           RETURNING created_at""",
        (new.session, principal.person, new.workspace, new.model, GENESIS, Jsonb(to_json(State())), FOLD),
    ).fetchone()
    assert row is not None
    at: datetime = row[0]
    return Locked(new.session, 0, GENESIS, State(), at)


def _workspace(wanted: str | None, session: str) -> str:
    """The folder the agent works in: an existing one by absolute path, or a new scratch folder in the data directory.

    The worker makes scratch folders when it first needs them; a named one must exist where the worker is.
    """
    if wanted is None or not wanted.strip():
        from django.conf import settings

        return str(Path(settings.DATA_DIR) / "workspaces" / session)
    path = Path(os.path.normpath(clean(wanted.strip())[0]))
    if not path.is_absolute() or re.search(r"[\x01-\x1f]", str(path)):
        raise Refused("invalid", "The workspace is a folder, named by its absolute path.", field="workspace")
    if not path.is_dir():
        raise Refused("invalid", f"There is no folder {path} on this machine.", field="workspace")
    return str(path)
