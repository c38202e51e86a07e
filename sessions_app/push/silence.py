"""Sessions in which something runs and nothing has happened for a while: no event tells that."""

from typing import Final

from sessions_app.log import db
from sessions_app.log.outbox import WANTED

# What streams by is no event, and is something happening all the same. The head tells one silence from the next.
_NOTE: Final = f"""INSERT INTO push_outbox (subscription, session, seq, kind, about)
    SELECT p.id, s.id, s.head, 'silent', s.head::text FROM session s, {WANTED}
    AND s.word = 'running' AND s.active_at < now() - make_interval(mins => coalesce(x.silent_min, 10))
    AND NOT EXISTS (SELECT 1 FROM stream_text t WHERE t.session = s.id
        AND t.saved_at > now() - make_interval(mins => coalesce(x.silent_min, 10)))
    ON CONFLICT DO NOTHING"""
_TIDY: Final = "DELETE FROM push_outbox WHERE due_at IS NULL AND at < now() - interval '7 days'"


def note_silence() -> None:
    """Write down whom to tell of a silence, each silence once."""
    with db.cursor("write") as cur:
        cur.execute(_NOTE)


def tidy() -> None:
    """Forget what was done long ago."""
    with db.cursor("read") as cur:
        cur.execute(_TIDY)
