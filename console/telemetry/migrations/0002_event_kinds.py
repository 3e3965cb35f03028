from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("telemetry", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="nodeevent",
            name="kind",
            field=models.CharField(
                choices=[
                    ("transition", "transition"),
                    ("frozen", "frozen"),
                    ("thawed", "thawed"),
                    ("placement_started", "placement_started"),
                    ("placement_ended", "placement_ended"),
                    ("eviction_started", "eviction_started"),
                    ("eviction_phase", "eviction_phase"),
                    ("eviction_stuck", "eviction_stuck"),
                    ("degraded", "degraded"),
                    ("gap", "gap"),
                    ("eviction_proposed", "eviction_proposed"),
                    ("eviction_failed", "eviction_failed"),
                    ("gpu_fault", "gpu_fault"),
                ],
                max_length=20,
            ),
        ),
    ]
