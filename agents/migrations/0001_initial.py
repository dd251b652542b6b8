import agents.fields
import agents.models.provider
import agents.models.team
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('auth', '__first__'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('django_celery_beat', '0019_alter_periodictasks_options'),
        ('sessions', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('description', models.TextField(blank=True, help_text='What it is for, in a sentence: the router reads this.')),
                ('system_prompt', models.TextField(blank=True, help_text='Its instructions.')),
                ('model_name', models.CharField(blank=True, help_text='Such as gpt-5-mini; the offline provider needs none.', max_length=100)),
                ('model_params', models.JSONField(blank=True, default=dict, help_text='temperature, top_p, presence_penalty, frequency_penalty, max_tokens.')),
                ('fallback_models', models.JSONField(blank=True, default=list, help_text='Model names of the same provider to try when the first fails.')),
                ('input_schema', models.JSONField(blank=True, null=True)),
                ('output_schema', models.JSONField(blank=True, help_text='The reply must be JSON of this schema.', null=True)),
                ('capabilities', models.JSONField(blank=True, default=list, help_text='Words for what it can do; the router matches them.')),
                ('examples', models.JSONField(blank=True, default=list, help_text='Messages it should get; the router compares.')),
                ('delegates_to', models.JSONField(blank=True, default=list, help_text='Capabilities it may delegate to.')),
                ('max_steps', models.PositiveSmallIntegerField(default=12, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(200)])),
                ('timeout', models.FloatField(default=300.0, help_text='Seconds a run may take.', validators=[django.core.validators.MinValueValidator(0.1)])),
                ('max_chain_depth', models.PositiveSmallIntegerField(default=3, validators=[django.core.validators.MaxValueValidator(10)])),
                ('max_agent_depth', models.PositiveSmallIntegerField(default=1, validators=[django.core.validators.MaxValueValidator(10)])),
                ('session_context', models.CharField(choices=[('none', 'Nothing: every message stands alone'), ('last_n', 'The last messages'), ('summary', 'A running summary and the last messages')], default='last_n', max_length=8)),
                ('context_messages', models.PositiveSmallIntegerField(default=20, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(500)])),
                ('context_tokens', models.PositiveIntegerField(default=8000, validators=[django.core.validators.MinValueValidator(100)])),
                ('enabled', models.BooleanField(default=True)),
                ('live_hash', models.CharField(blank=True, db_index=True, editable=False, max_length=64)),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
                'indexes': [models.Index(fields=['name'], name='agent_name')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='agent_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='agent_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.CreateModel(
            name='AgentVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('spec', models.JSONField()),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='agents.agent')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
                'constraints': [models.UniqueConstraint(fields=('agent', 'number'), name='agent_version_number'), models.UniqueConstraint(fields=('agent', 'sha256'), name='agent_version_content')],
            },
        ),
        migrations.AddField(
            model_name='agent',
            name='published',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.agentversion'),
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(blank=True, help_text='What this key is for.', max_length=100)),
                ('prefix', models.CharField(editable=False, max_length=12, unique=True)),
                ('digest', models.CharField(editable=False, max_length=64)),
                ('scopes', models.JSONField(default=list, help_text='Such as ["messages:write", "runs:read"]; ["*"] is all but approvals:decide.')),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('actor_name', models.CharField(blank=True, max_length=150)),
                ('action', models.CharField(db_index=True, max_length=64)),
                ('subject_kind', models.CharField(max_length=64)),
                ('subject_id', models.CharField(blank=True, max_length=64)),
                ('subject_name', models.CharField(blank=True, max_length=200)),
                ('details', models.JSONField(blank=True, default=dict)),
                ('source', models.CharField(blank=True, help_text='Address, or the command that did it.', max_length=64)),
                ('actor', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Chain',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('description', models.TextField(blank=True)),
                ('strategy', models.CharField(choices=[('graph', 'Graph: steps follow their needs'), ('sequential', 'One after the other'), ('parallel', 'All at once'), ('router', 'The first whose condition holds')], default='graph', max_length=10)),
                ('input_schema', models.JSONField(blank=True, null=True)),
                ('output_schema', models.JSONField(blank=True, null=True)),
                ('output', models.CharField(blank=True, help_text="JMESPath for the result; empty: the last step's output.", max_length=2000)),
                ('max_chain_depth', models.PositiveSmallIntegerField(default=3, validators=[django.core.validators.MaxValueValidator(10)])),
                ('max_parallel', models.PositiveSmallIntegerField(default=16, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(256)])),
                ('timeout', models.FloatField(default=3600.0, help_text='Seconds a run may take.', validators=[django.core.validators.MinValueValidator(0.1)])),
                ('enabled', models.BooleanField(default=True)),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='chain_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='chain_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.CreateModel(
            name='ChainStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.SlugField(help_text='Its name inside the chain.', max_length=64)),
                ('position', models.PositiveSmallIntegerField(default=0)),
                ('target_kind', models.CharField(choices=[('agent', 'Agent'), ('tool', 'Tool'), ('chain', 'Chain'), ('router', 'whoever the router picks')], default='tool', max_length=8)),
                ('target', models.CharField(blank=True, help_text='Name of the agent, tool or chain.', max_length=64)),
                ('target_version', models.PositiveIntegerField(blank=True, help_text='Empty: what is published.', null=True)),
                ('needs', models.JSONField(blank=True, default=list, help_text='Keys of the steps that must end first.')),
                ('input', models.JSONField(blank=True, default=dict, help_text='Parameter → JMESPath, or a constant as {"value": …}.')),
                ('when', models.CharField(blank=True, help_text='JMESPath; the step is skipped where it is false.', max_length=2000)),
                ('for_each', models.CharField(blank=True, help_text='JMESPath to a list or an object; one item a time.', max_length=2000)),
                ('options', models.JSONField(blank=True, default=dict, help_text='retry, on_error, fallback, timeout_s, approval, policy, repeat_until, …')),
                ('chain', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='agents.chain')),
            ],
            options={
                'ordering': ['position', 'id'],
                'constraints': [models.UniqueConstraint(fields=('chain', 'key'), name='step_key_once')],
            },
        ),
        migrations.CreateModel(
            name='ChainVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('spec', models.JSONField()),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('chain', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='agents.chain')),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
                'constraints': [models.UniqueConstraint(fields=('chain', 'number'), name='chain_version_number'), models.UniqueConstraint(fields=('chain', 'sha256'), name='chain_version_content')],
            },
        ),
        migrations.AddField(
            model_name='chain',
            name='published',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.chainversion'),
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'Viewer'), ('operator', 'Operator'), ('author', 'Author'), ('administrator', 'Administrator')], default='author', max_length=16)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Provider',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('kind', models.CharField(choices=[('openai', 'OpenAI'), ('anthropic', 'Anthropic'), ('google', 'Google Gemini'), ('ollama', 'Ollama'), ('openai-compatible', 'OpenAI-compatible server'), ('offline', 'Offline (no language model)')], max_length=20)),
                ('base_url', models.URLField(blank=True, help_text="Empty: the provider's own. Changing it clears the key.", validators=[agents.models.provider.check_model_url])),
                ('api_key', agents.fields.EncryptedTextField(blank=True, help_text='Write-only.')),
                ('enabled', models.BooleanField(default=True)),
                ('tool_calling', models.CharField(choices=[('native', 'Native tool calls'), ('schema', 'JSON-Schema-constrained (small local models)')], default='native', max_length=8)),
                ('prices', models.JSONField(blank=True, default=dict, help_text='Dollars per million tokens: {"gpt-5-mini": {"input": 0.25, "output": 2}}; "*" is any other model.')),
                ('revision', models.PositiveIntegerField(default=1, editable=False)),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='provider_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='provider_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.AddField(
            model_name='agent',
            name='provider',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='agents', to='agents.provider'),
        ),
        migrations.CreateModel(
            name='Starter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=64)),
                ('file_sha256', models.CharField(max_length=64)),
                ('row_sha256', models.CharField(max_length=64)),
                ('installed_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'name'), name='starter_once')],
            },
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64, unique=True, validators=[agents.models.team.check_name])),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('members', models.ManyToManyField(related_name='teams', through='agents.Membership', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.CreateModel(
            name='Secret',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('value', agents.fields.EncryptedTextField(help_text='Write-only: it is never shown again.')),
                ('hosts', models.JSONField(blank=True, default=list, help_text='Hosts it may be sent to, such as ["api.example.com"].')),
                ('header', models.CharField(default='Authorization', help_text='The request header that carries it.', max_length=64)),
                ('template', models.CharField(default='Bearer {secret}', help_text="The header's value; {secret} is replaced.", max_length=100)),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='secret_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='secret_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.AddField(
            model_name='provider',
            name='team',
            field=models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team'),
        ),
        migrations.AddField(
            model_name='membership',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='agents.team'),
        ),
        migrations.AddField(
            model_name='chain',
            name='team',
            field=models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team'),
        ),
        migrations.AddField(
            model_name='agent',
            name='team',
            field=models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team'),
        ),
        migrations.CreateModel(
            name='Tool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('kind', models.CharField(choices=[('function', 'Stored function'), ('connector', 'Cloud connector'), ('device', "On the person's device"), ('agent', 'Another agent (minion)'), ('mcp', 'MCP server'), ('http', 'HTTP operation'), ('builtin', 'Built in')], max_length=12)),
                ('description', models.TextField(blank=True)),
                ('input_schema', models.JSONField(blank=True, default=dict)),
                ('output_schema', models.JSONField(blank=True, null=True)),
                ('effect', models.CharField(choices=[('read', 'Reads only'), ('idempotent', 'Safe to repeat'), ('write', 'Changes something'), ('sends_out', 'Sends something out'), ('destructive', 'Cannot be undone')], default='write', max_length=12)),
                ('source', models.JSONField(blank=True, default=dict, help_text='What its toolset needs to find it, such as {"function": 12, "version": 3}.')),
                ('definition_hash', models.CharField(blank=True, editable=False, max_length=64)),
                ('enabled', models.BooleanField(default=True)),
                ('untrusted', models.BooleanField(default=False, help_text='What it returns was written by strangers (mail, web, files).')),
                ('deadline_s', models.FloatField(default=30.0, help_text='Seconds a call may take.')),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='tool_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='tool_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.CreateModel(
            name='ToolGrant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('mode', models.CharField(choices=[('allow', 'Allow'), ('ask', 'ask a person'), ('deny', 'Deny')], default='allow', max_length=5)),
                ('pinned_version', models.PositiveIntegerField(blank=True, help_text='Empty: follow what is published.', null=True)),
                ('deadline_s', models.FloatField(blank=True, help_text="Seconds; empty: the tool's own.", null=True)),
                ('offline', models.CharField(choices=[('fail', 'fail with a clear error'), ('wait', 'wait for the device'), ('any', 'any device that offers the tool')], default='fail', max_length=4)),
                ('allow_after_untrusted', models.BooleanField(default=False, help_text="Let it send or destroy without asking although the run has read strangers' content.")),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='agents.agent')),
                ('chain', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='agents.chain')),
                ('tool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='grants', to='agents.tool')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('agent', None), ('chain__isnull', False)), models.Q(('agent__isnull', False), ('chain', None)), _connector='OR'), name='grant_has_one_subject'), models.UniqueConstraint(condition=models.Q(('chain', None)), fields=('agent', 'tool'), name='grant_once_per_agent'), models.UniqueConstraint(condition=models.Q(('agent', None)), fields=('chain', 'tool'), name='grant_once_per_chain')],
            },
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('team', 'user'), name='membership_once'),
        ),
    ]
