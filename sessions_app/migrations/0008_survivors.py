"""What outlived a kill is looked after until it has ended, whether its worker lives or not (E7)."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0007_files'),
    ]

    operations = [
        migrations.CreateModel(
            name='Survivor',
            fields=[
                ('pk', models.CompositePrimaryKey('turn', 'call', blank=True, editable=False, primary_key=True, serialize=False)),
                ('session', models.UUIDField(db_index=True)),
                ('loop', models.UUIDField()),
                ('turn', models.UUIDField()),
                ('call', models.TextField()),
                ('worker', models.UUIDField(db_index=True)),
                ('seq', models.BigIntegerField()),
            ],
            options={
                'db_table': 'survivor',
            },
        ),
        migrations.AddField(
            model_name='runningturn',
            name='depth',
            field=models.IntegerField(db_default=0, help_text='how many agents are above its own'),
        ),
    ]
