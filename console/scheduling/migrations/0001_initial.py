import agents.wire.ids
import agents.wire.names
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        ('workloads', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Round',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('enforce', 'Enforce'), ('shadow', 'Shadow')], max_length=10)),
                ('state', models.CharField(choices=[('RUNNING', 'Running'), ('DONE', 'Done'), ('FAILED', 'Failed')], default='RUNNING', max_length=10)),
                ('trigger', models.CharField(default='schedule', max_length=60)),
                ('fence', models.BigIntegerField(default=0)),
                ('started_at', models.DateTimeField(db_index=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('gpus', models.PositiveIntegerField(default=0)),
                ('jobs', models.PositiveIntegerField(default=0)),
                ('pairs', models.PositiveBigIntegerField(default=0)),
                ('predicted_gpus', models.FloatField(blank=True, null=True)),
                ('objective', models.FloatField(blank=True, null=True)),
                ('upper_bound', models.FloatField(blank=True, null=True)),
                ('previous_objective', models.FloatField(blank=True, null=True)),
                ('placed', models.PositiveIntegerField(default=0)),
                ('kept', models.PositiveIntegerField(default=0)),
                ('moves', models.PositiveIntegerField(default=0)),
                ('waiting', models.PositiveIntegerField(default=0)),
                ('inputs', models.JSONField(blank=True, default=dict)),
                ('seconds', models.JSONField(blank=True, default=dict)),
                ('error', models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name='Placement',
            fields=[
                ('id', models.UUIDField(default=agents.wire.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('DESIRED', 'DESIRED'), ('STARTING', 'STARTING'), ('RUNNING', 'RUNNING'), ('FROZEN', 'FROZEN'), ('STOPPING', 'STOPPING'), ('UNKNOWN', 'UNKNOWN'), ('ENDED', 'ENDED')], default=agents.wire.names.PlacementState['DESIRED'], max_length=10)),
                ('state_since', models.DateTimeField()),
                ('created_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('end_reason', models.CharField(blank=True, choices=[('finished', 'finished'), ('failed', 'failed'), ('evicted', 'evicted'), ('lost', 'lost'), ('lease_expired', 'lease_expired'), ('never_started', 'never_started')], max_length=20)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('sm_share_percent', models.FloatField()),
                ('duty_percent', models.FloatField(blank=True, null=True)),
                ('memory_quota_bytes', models.BigIntegerField()),
                ('effective_sm_share_percent', models.FloatField(blank=True, null=True)),
                ('effective_duty_percent', models.FloatField(blank=True, null=True)),
                ('effective_memory_quota_bytes', models.BigIntegerField(blank=True, null=True)),
                ('pending_sm_share_percent', models.FloatField(blank=True, null=True)),
                ('predicted_throughput', models.FloatField(blank=True, null=True)),
                ('observed_throughput', models.FloatField(blank=True, null=True)),
                ('memory_bytes', models.BigIntegerField(blank=True, null=True)),
                ('progress', models.FloatField(blank=True, null=True)),
                ('resume_work_s', models.FloatField(default=0)),
                ('work_done_s', models.FloatField(default=0)),
                ('unsaved_work_s', models.FloatField(blank=True, null=True)),
                ('lost_work_s', models.FloatField(blank=True, null=True)),
                ('observed_at', models.DateTimeField(blank=True, null=True)),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='placements', to='inventory.gpu')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='placements', to='workloads.offlinejob')),
                ('round', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='scheduling.round')),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'ENDED'), _negated=True), fields=('job',), name='one_live_placement_per_job'), models.UniqueConstraint(condition=models.Q(('state', 'ENDED'), _negated=True), fields=('gpu',), name='one_live_placement_per_gpu')],
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('place', 'Place'), ('keep', 'Keep'), ('move', 'Move'), ('wait', 'Wait'), ('unused', 'Unused')], max_length=8)),
                ('weight', models.FloatField(blank=True, null=True)),
                ('predicted_throughput', models.FloatField(blank=True, null=True)),
                ('predicted_online_slowdown', models.FloatField(blank=True, null=True)),
                ('sm_share_percent', models.FloatField(blank=True, null=True)),
                ('code', models.CharField(max_length=40)),
                ('why', models.CharField(max_length=300)),
                ('from_gpu', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu')),
                ('gpu', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='inventory.gpu')),
                ('job', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='workloads.offlinejob')),
                ('round', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='scheduling.round')),
            ],
            options={
                'indexes': [models.Index(fields=['round', 'kind', 'code'], name='decision_kind')],
            },
        ),
    ]
