"""Files that are uploaded for a message: limits, what kind they are, and keeping them."""

import hashlib
from typing import Any, Final

from psycopg import Cursor

from sessions_app.control.permitted import known_id, noted
from sessions_app.control.transact import fingerprint, first_receipt, keep_receipt, persistently
from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.engine.files import check_file_size, cleaned_name
from sessions_app.ids import new_id
from sessions_app.log import files
from sessions_app.log.db import Row
from sessions_app.log.secrets import mask_json
from sessions_app.people.principals import Principal
from sessions_app.people.roles import require

SESSION_BYTES: Final = 500 * 1024 * 1024
SESSION_FILES: Final = 2000
"""What one session may keep; looked at beforehand, so uploads side by side may pass it by a few."""
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def upload(principal: Principal, session: str, command: str, *, name: str, content: bytes) -> dict[str, Any]:
    """Keep a file for a message of whoever may submit: `{id, name, size, type}`; `type` is what its bytes say."""
    session = known_id(session, "session_not_found", NO_SESSION)
    name = str(mask_json(cleaned_name(name)))
    digest = fingerprint([session, "file", name, hashlib.sha256(content).hexdigest()])

    def once(cur: Cursor[Row]) -> dict[str, Any]:
        require(cur, principal, session, "submit")
        first = first_receipt(cur, principal.key, command, digest)
        if first is None:
            first = _keep(cur, principal, session, name, content)
            keep_receipt(cur, principal.key, command, digest, first)
        return first

    with noted(principal, session, command, "upload"):
        # `read` connections have no limit of time: megabytes may take longer than a lock may be held, and hold none.
        kept = persistently("read", command, once)
    return {**kept, "name": name}  # a receipt is never erased, so none holds a name (A3)


def _keep(cur: Cursor[Row], principal: Principal, session: str, name: str, content: bytes) -> dict[str, Any]:
    size = len(content)
    check_file_size(size)
    if not content:
        raise Refused("blank", "The file is empty.")
    row = cur.execute("SELECT word FROM session WHERE id = %s", (session,)).fetchone()
    if row is None or row[0] in ("closing", "closed"):
        raise Refused("session_closing", "The session is closed.")
    count, stored = files.stored(cur, session)
    if count >= SESSION_FILES or stored + size > SESSION_BYTES:
        detail = f"The files of this session have {stored:,} bytes; at most {SESSION_BYTES:,} are kept."
        if count >= SESSION_FILES:
            detail = f"This session has {count:,} files; more are not kept."
        raise Refused("files_full", detail, size=stored, limit=SESSION_BYTES)
    kept = {"id": new_id(), "size": size, "type": type_of(content)}
    files.add(cur, {**kept, "session": session, "person": principal.person, "name": name, "content": content})
    return kept


def type_of(content: bytes) -> str:
    """What a file is by its bytes: an image that browsers show, a PDF, plain text, or anything."""
    for magic, type_ in _MAGIC:
        if content.startswith(magic):
            return type_
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    try:
        return "application/octet-stream" if b"\0" in content else content.decode() and "text/plain"
    except UnicodeDecodeError:
        return "application/octet-stream"
