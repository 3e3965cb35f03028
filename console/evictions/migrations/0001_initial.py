import agents.wire.ids
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        ('scheduling', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Eviction',
            fields=[
                ('id', models.UUIDField(default=agents.wire.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('origin', models.CharField(choices=[('emergency', 'emergency'), ('overload', 'overload'), ('slo', 'slo'), ('move', 'move'), ('preempt', 'preempt'), ('drain', 'drain'), ('policy', 'policy'), ('stop_sharing', 'stop_sharing'), ('cancel', 'cancel')], max_length=14)),
                ('state', models.CharField(choices=[('PROPOSED', 'Proposed'), ('APPROVED', 'Approved'), ('DISPATCHED', 'Dispatched'), ('STOPPING', 'Stopping'), ('STUCK', 'Stuck'), ('COMPLETED', 'Completed'), ('REJECTED', 'Rejected'), ('EXPIRED', 'Expired'), ('SUPERSEDED', 'Superseded'), ('FAILED', 'Failed')], max_length=12)),
                ('state_since', models.DateTimeField()),
                ('phase', models.CharField(blank=True, choices=[('ACCEPTED', 'ACCEPTED'), ('SIGNALLED', 'SIGNALLED'), ('CHECKPOINTED', 'CHECKPOINTED'), ('GATED', 'GATED'), ('QUIESCED', 'QUIESCED'), ('RELEASED', 'RELEASED'), ('GONE', 'GONE'), ('MEMORY_RETURNED', 'MEMORY_RETURNED')], max_length=16)),
                ('proposed_at', models.DateTimeField(db_index=True)),
                ('deadline_at', models.DateTimeField(blank=True, null=True)),
                ('default', models.CharField(blank=True, choices=[('run', 'it runs'), ('keep', 'it is dropped')], max_length=4)),
                ('dispatch_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('finished_first', models.BooleanField(default=False)),
                ('why', models.CharField(max_length=300)),
                ('evidence', models.JSONField(blank=True, default=dict)),
                ('grace_s', models.FloatField(default=30)),
                ('expected_lost_work_s', models.FloatField(blank=True, null=True)),
                ('lost_work_s', models.FloatField(blank=True, null=True)),
                ('freed_bytes', models.BigIntegerField(blank=True, null=True)),
                ('reaction_ms', models.FloatField(blank=True, null=True)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('reason', models.TextField(blank=True)),
                ('review', models.CharField(choices=[('not_needed', 'not needed'), ('wanted', 'Wanted'), ('done', 'Done')], default='not_needed', max_length=10)),
                ('reviewed_at', models.DateTimeField(blank=True, null=True)),
                ('cause_id', models.UUIDField(blank=True, null=True)),
                ('decided_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='evictions', to='inventory.gpu')),
                ('placement', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='evictions', to='scheduling.placement')),
                ('reviewed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('round', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='scheduling.round')),
                ('to_gpu', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='inventory.gpu')),
            ],
            options={
                'ordering': ['-proposed_at'],
            },
        ),
        migrations.CreateModel(
            name='EvictionPhase',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('phase', models.CharField(choices=[('ACCEPTED', 'ACCEPTED'), ('SIGNALLED', 'SIGNALLED'), ('CHECKPOINTED', 'CHECKPOINTED'), ('GATED', 'GATED'), ('QUIESCED', 'QUIESCED'), ('RELEASED', 'RELEASED'), ('GONE', 'GONE'), ('MEMORY_RETURNED', 'MEMORY_RETURNED')], max_length=16)),
                ('at', models.DateTimeField()),
                ('eviction', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='phases', to='evictions.eviction')),
            ],
            options={
                'ordering': ['at'],
            },
        ),
        migrations.CreateModel(
            name='Silence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('origin', models.CharField(max_length=14)),
                ('until', models.DateTimeField()),
                ('placement', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='scheduling.placement')),
            ],
        ),
        migrations.AddConstraint(
            model_name='eviction',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['PROPOSED', 'APPROVED', 'DISPATCHED', 'STOPPING', 'STUCK'])), fields=('placement',), name='one_open_eviction_per_placement'),
        ),
        migrations.AddConstraint(
            model_name='evictionphase',
            constraint=models.UniqueConstraint(fields=('eviction', 'phase'), name='phase_once'),
        ),
    ]
