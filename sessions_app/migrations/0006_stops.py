"""What the pages about stops ask the log for: agents by their loop, what one command caused, and the kills by time."""

from django.db import migrations

# Indexes of the tables' own rows: there is nothing to verify or to rebuild.
INDEXES = {
    "event_agents": "event (session_id, loop) WHERE type = 'LoopStarted'",
    "event_stops": """event (session_id, cause)
        WHERE type IN ('KillRequested', 'TurnInterrupted', 'InterruptRequested', 'SessionChanged')""",
    "event_kills": """event (at, session_id, seq) WHERE type = 'KillRequested'
        OR type = 'ProcessesEnded' AND position('"why":"worker_'::bytea IN facts) > 0""",
    "interruption_request": "interruption (request)",
}


def made(name: str, on: str) -> migrations.RunSQL:
    """An index made while the product runs. One whose making was cut short is there, but of no use: away with it."""
    drop = f"DROP INDEX CONCURRENTLY IF EXISTS {name}"
    return migrations.RunSQL([drop, f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}"], [drop])


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('sessions_app', '0005_push'),
    ]

    operations = [made(name, on) for name, on in INDEXES.items()]
