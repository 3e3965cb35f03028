import agents.wire.names
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('policies', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=128, unique=True)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('source', models.CharField(choices=[('agent', 'Agent'), ('imported', 'Imported')], default='agent', max_length=10)),
                ('runtime', models.CharField(choices=[('simulated', 'simulated'), ('process', 'process')], default=agents.wire.names.RuntimeKind['SIMULATED'], max_length=12)),
                ('state', models.CharField(choices=[('ENROLLED', 'Enrolled'), ('CONNECTED', 'Connected'), ('STALE', 'Stale'), ('LOST', 'Lost')], default='ENROLLED', max_length=10)),
                ('state_since', models.DateTimeField()),
                ('cordoned', models.BooleanField(default=False)),
                ('draining', models.BooleanField(default=False)),
                ('token_sha256', models.CharField(blank=True, db_index=True, max_length=64)),
                ('agent_version', models.CharField(blank=True, max_length=40)),
                ('capabilities', models.JSONField(blank=True, default=list)),
                ('boot_id', models.CharField(blank=True, max_length=64)),
                ('last_seen_at', models.DateTimeField(blank=True, null=True)),
                ('acked_event_seq', models.BigIntegerField(default=0)),
                ('generation', models.BigIntegerField(default=1)),
                ('generation_at', models.DateTimeField(blank=True, null=True)),
                ('observed_generation', models.BigIntegerField(default=0)),
                ('observed_at', models.DateTimeField(blank=True, null=True)),
                ('observed_policies', models.JSONField(blank=True, default=dict)),
                ('refused', models.TextField(blank=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Gpu',
            fields=[
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('index', models.PositiveSmallIntegerField()),
                ('uuid', models.CharField(db_index=True, max_length=80)),
                ('model', models.CharField(max_length=80)),
                ('memory_bytes', models.BigIntegerField()),
                ('memory_assumed', models.BooleanField(default=False)),
                ('driver', models.CharField(blank=True, max_length=40)),
                ('sm_clock_max_mhz', models.FloatField(blank=True, null=True)),
                ('power_limit_w', models.FloatField(blank=True, null=True)),
                ('source', models.CharField(default='simulated', max_length=20)),
                ('sharing_mode', models.CharField(choices=[('off', 'off'), ('observe', 'observe'), ('shadow', 'shadow'), ('enforce', 'enforce')], default=agents.wire.names.SharingMode['OBSERVE'], max_length=10)),
                ('holdback', models.BooleanField(default=False)),
                ('unshareable_fact', models.CharField(blank=True, max_length=200)),
                ('conflict', models.BooleanField(default=False)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
                ('state', models.CharField(choices=[('INIT', 'INIT'), ('HEALTHY', 'HEALTHY'), ('UNHEALTHY', 'UNHEALTHY'), ('GUARDED', 'GUARDED'), ('OVERLIMIT', 'OVERLIMIT'), ('COOLDOWN', 'COOLDOWN'), ('DISABLED', 'DISABLED')], default=agents.wire.names.GpuState['INIT'], max_length=12)),
                ('state_since', models.DateTimeField()),
                ('state_why', models.CharField(blank=True, max_length=300)),
                ('degraded', models.JSONField(blank=True, default=list)),
                ('disabled', models.BooleanField(default=False)),
                ('disabled_reason', models.CharField(blank=True, max_length=200)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='gpus', to='inventory.node')),
            ],
            options={
                'ordering': ['node__name', 'index'],
            },
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('sharing_mode', models.CharField(choices=[('off', 'off'), ('observe', 'observe'), ('shadow', 'shadow'), ('enforce', 'enforce')], default=agents.wire.names.SharingMode['OBSERVE'], max_length=10)),
                ('time_zone', models.CharField(default='UTC', max_length=60)),
                ('holdback_percent', models.PositiveSmallIntegerField(default=3)),
                ('policy', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, to='policies.policy')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='node',
            name='pool',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='nodes', to='inventory.pool'),
        ),
        migrations.CreateModel(
            name='EnrolmentToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sha256', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('used_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='inventory.node')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='inventory.pool')),
            ],
        ),
        migrations.CreateModel(
            name='SharingChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True)),
                ('before', models.CharField(choices=[('off', 'off'), ('observe', 'observe'), ('shadow', 'shadow'), ('enforce', 'enforce')], max_length=10)),
                ('after', models.CharField(choices=[('off', 'off'), ('observe', 'observe'), ('shadow', 'shadow'), ('enforce', 'enforce')], max_length=10)),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('baseline', models.JSONField(blank=True, default=dict)),
                ('gpu', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='inventory.gpu')),
                ('pool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, to='inventory.pool')),
            ],
        ),
        migrations.AddConstraint(
            model_name='gpu',
            constraint=models.UniqueConstraint(condition=models.Q(('retired_at', None)), fields=('node', 'index'), name='one_gpu_per_slot'),
        ),
    ]
