"""What the pages about stops ask the log for: agents by their loop, and who ended what ran in the background."""

from django.db import migrations

# Indexes of the log's own rows: there is nothing to verify or to rebuild.
INDEXES = """
CREATE INDEX event_agents ON event (session_id, loop) WHERE type = 'LoopStarted';
CREATE INDEX event_kills ON event (session_id, at) WHERE type IN ('KillRequested', 'ProcessesEnded');
"""
NO_INDEXES = "DROP INDEX event_agents; DROP INDEX event_kills;"


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0005_push'),
    ]

    operations = [
        migrations.RunSQL(INDEXES, NO_INDEXES),
    ]
