import agents.fields
import agents.models.team
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
            name='Connection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('provider', models.CharField(choices=[('gmail', 'Gmail'), ('outlook', 'Outlook mail'), ('teams', 'Microsoft Teams'), ('mcp', 'MCP server'), ('openapi', 'HTTP service (OpenAPI)')], max_length=12)),
                ('base_url', models.CharField(blank=True, help_text="Where an MCP server or HTTP service is. Changing it clears the secret's name and every approval.", max_length=500)),
                ('config', models.JSONField(blank=True, default=dict, help_text='Such as {"command": ["mcp-server-time"]}.')),
                ('secret_name', models.CharField(blank=True, help_text="A secret that is bound to the server's host.", max_length=64)),
                ('account', models.CharField(blank=True, help_text='Whose account it is, as the service says.', max_length=254)),
                ('scopes', models.JSONField(blank=True, default=list, editable=False)),
                ('access_token', agents.fields.EncryptedTextField(blank=True, editable=False)),
                ('refresh_token', agents.fields.EncryptedTextField(blank=True, editable=False)),
                ('token_expires_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('login_ends_at', models.DateTimeField(blank=True, editable=False, help_text='When the refresh token dies, if the service says so.', null=True)),
                ('token_version', models.PositiveIntegerField(default=0, editable=False)),
                ('refreshing_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('cursor', models.JSONField(blank=True, default=dict, editable=False, help_text='Where each stream was read to.')),
                ('health', models.CharField(choices=[('unknown', 'not used yet'), ('ok', 'works'), ('expiring', 'the login ends soon: reconnect'), ('broken', 'does not work: reconnect')], default='unknown', editable=False, max_length=8)),
                ('last_error', models.CharField(blank=True, editable=False, max_length=500)),
                ('checked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('enabled', models.BooleanField(default=True)),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='connection_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='connection_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.CreateModel(
            name='Authorization',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('provider', models.CharField(choices=[('gmail', 'Gmail'), ('outlook', 'Outlook mail'), ('teams', 'Microsoft Teams'), ('mcp', 'MCP server'), ('openapi', 'HTTP service (OpenAPI)')], max_length=12)),
                ('state_hash', models.CharField(max_length=64, unique=True)),
                ('verifier', agents.fields.EncryptedTextField(blank=True)),
                ('device_code', agents.fields.EncryptedTextField(blank=True)),
                ('scopes', models.JSONField(default=list)),
                ('name', models.CharField(blank=True, max_length=64)),
                ('interval_s', models.PositiveIntegerField(default=5)),
                ('next_poll_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('connection', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='authorizations', to='connectors.connection')),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='DeliveredItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('external_id', models.CharField(max_length=512)),
                ('stream', models.CharField(help_text='Which filters found it.', max_length=16)),
                ('place', models.CharField(blank=True, help_text='The folder, channel or chat it is in.', max_length=512)),
                ('state', models.CharField(choices=[('found', 'Found'), ('claimed', 'Claimed'), ('delivered', 'Delivered'), ('gone', 'deleted before it was read'), ('failed', 'could not be read')], default='found', max_length=9)),
                ('claimed_by', models.CharField(blank=True, help_text='Id of the tool call.', max_length=64)),
                ('claimed_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=300)),
                ('found_at', models.DateTimeField(auto_now_add=True)),
                ('connection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='items', to='connectors.connection')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(condition=models.Q(('state__in', ['found', 'claimed'])), fields=['connection', 'stream', 'id'], name='item_waiting'), models.Index(fields=['connection', 'claimed_by'], name='item_claimed')],
            },
        ),
        migrations.CreateModel(
            name='RemoteTool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('remote_name', models.CharField(max_length=256)),
                ('offered', models.JSONField(default=dict)),
                ('offered_hash', models.CharField(max_length=64)),
                ('pinned_hash', models.CharField(max_length=64)),
                ('approved_hash', models.CharField(blank=True, max_length=64)),
                ('approved_at', models.DateTimeField(null=True)),
                ('is_offered', models.BooleanField(default=True)),
                ('calls', models.PositiveBigIntegerField(default=0)),
                ('failures', models.PositiveBigIntegerField(default=0)),
                ('total_ms', models.FloatField(default=0)),
                ('last_error', models.CharField(blank=True, max_length=300)),
                ('seen_at', models.DateTimeField(auto_now=True)),
                ('approved_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('connection', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='remote_tools', to='connectors.connection')),
                ('tool', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='remote', to='agents.tool')),
            ],
            options={
                'ordering': ['remote_name'],
                'constraints': [models.UniqueConstraint(fields=('connection', 'remote_name'), name='remote_tool_once')],
            },
        ),
        migrations.AddConstraint(
            model_name='delivereditem',
            constraint=models.UniqueConstraint(fields=('connection', 'external_id'), name='item_delivered_once'),
        ),
    ]
