"""What the session list needs: each person's own pins and archive, messages found by their words, stored model keys."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

# Pins and the archive were the session's; they become its owners' own.
KEEP = """
INSERT INTO list_place (session_id, person_id, pinned, archived)
SELECT s.id, m.person_id, s.pinned, s.archived FROM session s JOIN member m ON m.session_id = s.id AND m.role = 'owner'
WHERE s.pinned OR s.archived;
"""

# The index is made of the log's own rows: it cannot differ from them, and what is erased is in it no more (A3).
# Of a message's texts its words come first. An append, which holds its session's lock, only puts them on the index's
# pending list (0.5 ms instead of 20); the sweeps sort the list in long before it is full (`sessions_app.log.search.tidy`).
SEARCH = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE FUNCTION message_words(texts bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    ends int := position('\\000'::bytea IN texts);
BEGIN
    RETURN left(convert_from(CASE WHEN ends > 0 THEN substring(texts FROM 1 FOR ends - 1) ELSE texts END, 'UTF8')::jsonb
        #>> '{}', 20000);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL; -- a damaged row is `verify`'s to find, and must not make the table unusable
END $$;
CREATE INDEX event_words ON event USING gin (message_words(texts) gin_trgm_ops) WITH (fastupdate = on, gin_pending_list_limit = 65536)
    WHERE type IN ('InputQueued', 'InputChanged', 'SteerQueued', 'StepPlanned', 'StepDone');
"""
NO_SEARCH = "DROP INDEX event_words; DROP FUNCTION message_words(bytea);"


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0003_background'),
    ]

    operations = [
        migrations.CreateModel(
            name='ListPlace',
            fields=[
                ('pk', models.CompositePrimaryKey('session_id', 'person_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('pinned', models.BooleanField(db_default=False)),
                ('archived', models.BooleanField(db_default=False)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.session')),
            ],
            options={
                'db_table': 'list_place',
            },
        ),
        migrations.RunSQL(KEEP, migrations.RunSQL.noop),
        # Rows with events waiting for their constraints' check cannot be altered in the same transaction.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED;", migrations.RunSQL.noop),
        migrations.RemoveField(model_name='session', name='pinned'),
        migrations.RemoveField(model_name='session', name='archived'),
        migrations.RunSQL(SEARCH, NO_SEARCH),
        migrations.CreateModel(
            name='ProviderKey',
            fields=[
                ('provider', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('sealed', models.BinaryField(help_text='the key, encrypted; empty where a server asks for none')),
                ('ending', models.CharField(default='', max_length=4)),
                ('base_url', models.TextField(default='')),
                ('set_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('tested_at', models.DateTimeField(null=True)),
                ('works', models.BooleanField(null=True)),
                ('told', models.TextField(default='', help_text='what the provider answered to the test, in words')),
                ('models', models.JSONField(default=list, help_text='names of models, as the test found them')),
                ('set_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'provider_key',
            },
        ),
    ]
