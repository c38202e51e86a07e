"""Files of messages: their bytes lie beside the log."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0006_stops'),
    ]

    operations = [
        migrations.CreateModel(
            name='File',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('size', models.IntegerField(help_text='bytes')),
                ('type', models.CharField(help_text='as its bytes say', max_length=64)),
                ('content', models.BinaryField()),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seq', models.BigIntegerField(help_text='the event that named it first', null=True)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.session')),
            ],
            options={
                'db_table': 'file',
                'indexes': [models.Index(condition=models.Q(('seq__isnull', True)), fields=['at'], name='file_unnamed')],
            },
        ),
        # What is uploaded is compressed already, or small: do not try.
        migrations.RunSQL("ALTER TABLE file ALTER COLUMN content SET STORAGE EXTERNAL", migrations.RunSQL.noop),
    ]
