from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpu",
            name="pcie_max_bytes_s",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
