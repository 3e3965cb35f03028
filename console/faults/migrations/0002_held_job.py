import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('faults', '0001_initial'),
        ('workloads', '0002_job_hold'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='fault',
            name='counted',
        ),
        migrations.AddField(
            model_name='fault',
            name='held_job',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='workloads.offlinejob'),
        ),
    ]
