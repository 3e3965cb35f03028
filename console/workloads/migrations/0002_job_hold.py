from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workloads", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="offlinejob",
            name="faults",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="offlinejob",
            name="held_until",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="offlinejob",
            name="last_fault_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
