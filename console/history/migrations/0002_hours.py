from typing import Any

from django.db import migrations, models


def clear_up_soon(apps: Any, editor: Any) -> None:
    """Minutes become hours: the room that they leave is used again while it is still small."""
    if editor.connection.vendor == "postgresql":
        editor.execute(
            "ALTER TABLE history_block SET ("
            "autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.02)"
        )


class Migration(migrations.Migration):

    dependencies = [
        ("history", "0001_first"),
    ]

    operations = [
        migrations.CreateModel(
            name="Writer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("epoch", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddIndex(
            model_name="block",
            index=models.Index(
                condition=models.Q(("epoch__gt", 0)), fields=["start"], name="block_fresh"
            ),
        ),
        migrations.RunPython(clear_up_soon, migrations.RunPython.noop),
    ]
