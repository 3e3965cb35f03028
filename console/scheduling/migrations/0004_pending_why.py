from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0003_plans_and_avoids")]

    operations = [
        migrations.AddField(
            "placement", "pending_why", models.CharField(blank=True, max_length=200)
        )
    ]
