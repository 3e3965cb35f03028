import agents.wire.ids
import agents.wire.names
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='OnlineService',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sm_percent', models.FloatField()),
                ('gpu_util_percent', models.FloatField()),
                ('memory_bytes', models.BigIntegerField()),
                ('memory_bandwidth_percent', models.FloatField(default=0)),
                ('name', models.CharField(max_length=128, unique=True)),
                ('tier', models.PositiveSmallIntegerField(default=2)),
                ('slo_p99_ms', models.FloatField(blank=True, null=True)),
                ('base_p99_ms', models.FloatField(blank=True, null=True)),
                ('peak_qps', models.FloatField(blank=True, null=True)),
                ('metrics_url', models.URLField(blank=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='services', to='inventory.pool')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='services', to='workloads.team')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='OnlineInstance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('gpu_percent', models.FloatField(default=100)),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='instances', to='inventory.gpu')),
                ('service', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='instances', to='workloads.onlineservice')),
            ],
        ),
        migrations.CreateModel(
            name='OfflineJob',
            fields=[
                ('sm_percent', models.FloatField()),
                ('gpu_util_percent', models.FloatField()),
                ('memory_bytes', models.BigIntegerField()),
                ('memory_bandwidth_percent', models.FloatField(default=0)),
                ('id', models.UUIDField(default=agents.wire.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(db_index=True, max_length=128)),
                ('source', models.CharField(default='submitted', max_length=20)),
                ('state', models.CharField(choices=[('PENDING', 'Pending'), ('PROFILING', 'Profiling'), ('QUEUED', 'Queued'), ('PLACED', 'Placed'), ('SUCCEEDED', 'Succeeded'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], default='QUEUED', max_length=10)),
                ('state_since', models.DateTimeField()),
                ('priority', models.SmallIntegerField(default=0)),
                ('submitted_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('profile_gpu_model', models.CharField(blank=True, max_length=80)),
                ('gpu_models', models.JSONField(blank=True, default=list)),
                ('pools', models.JSONField(blank=True, default=list)),
                ('command', models.JSONField(blank=True, default=list)),
                ('checkpoint', models.CharField(choices=[('none', 'none'), ('on_sigterm', 'on_sigterm')], default=agents.wire.names.Checkpoint['ON_SIGTERM'], max_length=12)),
                ('checkpoint_period_s', models.FloatField(default=600)),
                ('work_s', models.FloatField()),
                ('saved_work_s', models.FloatField(default=0)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('evictions', models.PositiveIntegerField(default=0)),
                ('max_retries', models.PositiveIntegerField(default=3)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('not_before', models.DateTimeField(blank=True, null=True)),
                ('wait_reason', models.CharField(blank=True, max_length=200)),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='workloads.team')),
            ],
            options={
                'indexes': [models.Index(fields=['state', '-priority', 'submitted_at'], name='job_queue')],
            },
        ),
    ]
