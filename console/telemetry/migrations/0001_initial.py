import agents.wire.names
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='FleetSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True)),
                ('gpus', models.PositiveIntegerField()),
                ('reporting', models.PositiveIntegerField()),
                ('sharing', models.PositiveIntegerField(default=0)),
                ('running', models.PositiveIntegerField(default=0)),
                ('sm_activity_percent', models.FloatField(null=True)),
                ('gpu_util_percent', models.FloatField(null=True)),
                ('memory_percent', models.FloatField(null=True)),
                ('online_p99_slo_ratio', models.FloatField(null=True)),
                ('online_p99_slo_ratio_worst', models.FloatField(null=True)),
                ('services_over_slo', models.PositiveIntegerField(default=0)),
                ('equivalent_gpus', models.FloatField(default=0)),
                ('equivalent_gpu_s_total', models.FloatField(default=0)),
                ('lost_work_s_total', models.FloatField(default=0)),
                ('restart_s_total', models.FloatField(default=0)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='inventory.pool')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('pool', 'at'), name='one_sample')],
            },
        ),
        migrations.CreateModel(
            name='NodeEvent',
            fields=[
                ('event_id', models.UUIDField(primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField()),
                ('kind', models.CharField(choices=[('transition', 'transition'), ('frozen', 'frozen'), ('thawed', 'thawed'), ('placement_started', 'placement_started'), ('placement_ended', 'placement_ended'), ('eviction_started', 'eviction_started'), ('eviction_phase', 'eviction_phase'), ('eviction_stuck', 'eviction_stuck'), ('degraded', 'degraded'), ('gap', 'gap'), ('eviction_proposed', 'eviction_proposed'), ('eviction_failed', 'eviction_failed')], max_length=20)),
                ('at', models.DateTimeField(db_index=True)),
                ('received_at', models.DateTimeField()),
                ('placement_id', models.UUIDField(blank=True, db_index=True, null=True)),
                ('eviction_id', models.UUIDField(blank=True, null=True)),
                ('data', models.JSONField(blank=True, default=dict)),
                ('gpu', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='inventory.gpu')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['gpu', '-at'], name='event_gpu'), models.Index(condition=models.Q(('kind', agents.wire.names.EventKind['FROZEN'])), fields=['at'], name='event_frozen')],
            },
        ),
    ]
