from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0003_host_and_labels")]

    operations = [
        migrations.AddField("gpu", "cooldown_s", models.FloatField(blank=True, null=True))
    ]
