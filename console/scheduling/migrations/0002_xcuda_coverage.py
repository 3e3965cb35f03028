from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="placement",
            name="cuda_processes",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="placement",
            name="remarks",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="placement",
            name="xcuda_processes",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
