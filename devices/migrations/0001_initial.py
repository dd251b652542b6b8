import devices.models.device
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('agents', '0001_initial'),
        ('auth', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='Device',
            fields=[
                ('id', models.UUIDField(default=devices.models.device.new_id, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('platform', models.CharField(blank=True, max_length=100)),
                ('client_version', models.CharField(blank=True, max_length=40)),
                ('tools', models.JSONField(blank=True, default=dict, help_text='Catalogue tools it can run: name → hash.')),
                ('journal_id', models.CharField(blank=True, editable=False, max_length=64)),
                ('socket', models.CharField(blank=True, editable=False, help_text='Its live socket; empty: none.', max_length=64)),
                ('last_seen', models.DateTimeField(blank=True, editable=False, null=True)),
                ('connected_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name', 'created_at'],
                'indexes': [models.Index(condition=models.Q(('socket', ''), _negated=True), fields=['last_seen'], name='device_connected')],
            },
        ),
        migrations.CreateModel(
            name='DeviceCall',
            fields=[
                ('id', models.UUIDField(default=devices.models.device.new_id, editable=False, primary_key=True, serialize=False)),
                ('run_id', models.UUIDField(blank=True, db_index=True, null=True)),
                ('root_id', models.UUIDField(blank=True, db_index=True, null=True)),
                ('tool', models.CharField(help_text='As the device calls it.', max_length=128)),
                ('offer', models.CharField(blank=True, help_text="Hash of the approved offer, for a device's own tool.", max_length=64)),
                ('arguments', models.JSONField(default=dict)),
                ('run_context', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('sent', 'Sent'), ('acked', 'Acked'), ('done', 'Done'), ('failed', 'Failed'), ('expired', 'Expired'), ('cancelled', 'Cancelled'), ('unknown', 'Unknown')], default='queued', max_length=9)),
                ('attempt', models.PositiveIntegerField(default=1)),
                ('timeout_s', models.FloatField(default=30.0)),
                ('deadline', models.DateTimeField()),
                ('result', models.JSONField(blank=True, null=True)),
                ('error', models.JSONField(blank=True, null=True)),
                ('late', models.BooleanField(default=False, help_text='Answered after its deadline.')),
                ('progress', models.JSONField(blank=True, null=True)),
                ('is_awaited', models.BooleanField(default=False, help_text='Its run has let go of its worker to wait for this.')),
                ('cancel_requested_at', models.DateTimeField(blank=True, null=True)),
                ('cancel_reason', models.CharField(blank=True, max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('acked_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('device', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='calls', to='devices.device')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('finished_at', None)), fields=['deadline'], name='device_call_open'), models.Index(condition=models.Q(('finished_at', None)), fields=['device', 'state'], name='device_call_of_device')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'sent', 'acked', 'done', 'failed', 'expired', 'cancelled', 'unknown'])), name='device_call_state')],
            },
        ),
        migrations.CreateModel(
            name='DeviceCredential',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('prefix', models.CharField(editable=False, max_length=20, unique=True)),
                ('digest', models.CharField(editable=False, max_length=64)),
                ('generation', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('device', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='credentials', to='devices.device')),
                ('replaced_by', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='replaces', to='devices.devicecredential')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.TextField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('device', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='devices.device')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='OfferedTool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='As the device calls it.', max_length=128)),
                ('description', models.TextField(blank=True)),
                ('input_schema', models.JSONField(default=dict)),
                ('hash', models.CharField(max_length=64)),
                ('status', models.CharField(choices=[('pending', 'waits for its owner'), ('approved', 'Approved'), ('rejected', 'Rejected')], default='pending', max_length=8)),
                ('is_offered', models.BooleanField(default=True, help_text="It was in the device's last hello.")),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('first_offered_at', models.DateTimeField(auto_now_add=True)),
                ('decided_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('device', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='offers', to='devices.device')),
                ('tool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='offers', to='agents.tool')),
            ],
            options={
                'ordering': ['name', 'id'],
                'constraints': [models.UniqueConstraint(fields=('device', 'hash'), name='offer_once_per_device')],
            },
        ),
        migrations.CreateModel(
            name='Pairing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('locator', models.CharField(max_length=4, unique=True)),
                ('digest', models.CharField(max_length=64)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Record',
            fields=[
                ('id', models.UUIDField(default=devices.models.device.new_id, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('project', 'project'), ('task', 'task'), ('comment', 'comment'), ('note', 'note'), ('timeline', 'timeline')], max_length=8)),
                ('data', models.JSONField(default=dict)),
                ('is_ai_suggested', models.BooleanField(default=True)),
                ('is_approved', models.BooleanField(default=False)),
                ('made_by', models.UUIDField(blank=True, editable=False, help_text='The tool call that made it.', null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='records', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-updated_at', '-id'],
                'indexes': [models.Index(fields=['owner', 'kind', '-updated_at'], name='record_of_kind')],
            },
        ),
    ]
