import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("inventory", "0002_pcie"),
        ("scheduling", "0002_xcuda_coverage"),
        ("workloads", "0002_job_hold"),
    ]

    operations = [
        migrations.CreateModel(
            name="Fault",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField(db_index=True)),
                ("told_at", models.DateTimeField()),
                ("told_seq", models.BigIntegerField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("recovered_s", models.FloatField(blank=True, null=True)),
                ("why", models.CharField(max_length=300)),
                ("code", models.BigIntegerField(blank=True, null=True)),
                ("first", models.JSONField(blank=True, null=True)),
                ("first_by", models.CharField(blank=True, max_length=80)),
                ("others", models.JSONField(blank=True, default=list)),
                ("moments", models.JSONField(blank=True, default=list)),
                ("counted", models.BooleanField(default=False)),
                (
                    "gpu",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="faults",
                        to="inventory.gpu",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="faults_caused",
                        to="workloads.offlinejob",
                    ),
                ),
                (
                    "jobs_hit",
                    models.ManyToManyField(
                        blank=True, related_name="faults_suffered", to="workloads.offlinejob"
                    ),
                ),
                (
                    "placement",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="faults",
                        to="scheduling.placement",
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="faults_caused",
                        to="workloads.onlineservice",
                    ),
                ),
                (
                    "services_hit",
                    models.ManyToManyField(
                        blank=True, related_name="faults_suffered", to="workloads.onlineservice"
                    ),
                ),
            ],
            options={
                "ordering": ["-seen_at", "pk"],
                "indexes": [models.Index(fields=["gpu", "-seen_at"], name="fault_gpu")],
            },
        ),
    ]
