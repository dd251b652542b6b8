import agents.models.team
import django.core.validators
import django.db.models.deletion
import uuid_utils.compat
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
            name='FunctionVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('source', models.TextField()),
                ('spec', models.JSONField(help_text='Entry, flags, limits, imports, hosts, schemas: all but the source.')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-number'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='StoredFunction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('name', models.CharField(max_length=64, validators=[agents.models.team.check_name])),
                ('description', models.TextField(blank=True, help_text="Empty: the docstring's first paragraph.")),
                ('source', models.TextField(help_text='Python. The last top-level def is the entry unless you name one.')),
                ('entry', models.CharField(blank=True, max_length=100)),
                ('is_async', models.BooleanField(default=False)),
                ('requires_context', models.BooleanField(default=False, help_text='The entry takes `ctx` first.')),
                ('safe_mode', models.BooleanField(default=True, help_text='Off: without the language layer (needs a permission).')),
                ('is_pure', models.BooleanField(default=False, help_text='Same input, same output, no effect: results may be cached.')),
                ('cache_ttl', models.PositiveIntegerField(default=0, help_text="Seconds a pure function's result is kept; 0: not at all.")),
                ('effect', models.CharField(default='read', help_text='read, idempotent, write, sends_out or destructive.', max_length=12)),
                ('timeout', models.FloatField(default=30.0, help_text='Seconds.', validators=[django.core.validators.MinValueValidator(0.05)])),
                ('memory_limit', models.PositiveIntegerField(default=512, help_text='MB.', validators=[django.core.validators.MinValueValidator(16)])),
                ('max_concurrency', models.PositiveIntegerField(default=0, help_text='Calls at once; 0: no limit.', validators=[django.core.validators.MaxValueValidator(1000)])),
                ('allowed_imports', models.JSONField(blank=True, default=list)),
                ('allowed_hosts', models.JSONField(blank=True, default=list, help_text='Hosts ctx.http may reach.')),
                ('secrets', models.JSONField(blank=True, default=list, help_text='Names of secrets ctx.http may send.')),
                ('reuse', models.CharField(choices=[('never', 'A new child for every call'), ('run', 'One child for the calls of one run')], default='never', max_length=5)),
                ('min_isolation', models.CharField(choices=[('reduced', 'Whatever this machine offers, the core layers at least'), ('full', 'Every layer, else refuse')], default='reduced', max_length=7)),
                ('input_schema', models.JSONField(blank=True, default=dict, help_text='Empty: derived from the signature.')),
                ('output_schema', models.JSONField(blank=True, null=True)),
                ('is_deprecated', models.BooleanField(default=False)),
                ('owner', models.ForeignKey(blank=True, help_text='Empty: the row belongs to the site and everyone may use it.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('published', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='functions.functionversion')),
                ('team', models.ForeignKey(blank=True, help_text='Share with everyone in this team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.team')),
            ],
            options={
                'ordering': ['name'],
                'permissions': [('run_unsafe', 'Can switch the language layer off (safe_mode)'), ('raise_limits', "Can raise a function's limits"), ('publish_red', 'Can publish although a test fails')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='function_name_per_owner'), models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('name',), name='function_name_of_site')],
            },
            bases=(agents.models.team.Editable, models.Model),
        ),
        migrations.AddField(
            model_name='functionversion',
            name='function',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='functions.storedfunction'),
        ),
        migrations.CreateModel(
            name='FunctionTest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('arguments', models.JSONField(blank=True, default=dict)),
                ('expects', models.CharField(choices=[('value', 'Value'), ('schema', 'Schema'), ('error', 'Error')], default='value', max_length=6)),
                ('expected', models.JSONField(blank=True, help_text="The value, a JSON Schema, or the error's type.", null=True)),
                ('tolerance', models.FloatField(default=0.0, help_text='Allowed difference of numbers.')),
                ('function', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tests', to='functions.storedfunction')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('function', 'name'), name='function_test_name_once')],
            },
        ),
        migrations.CreateModel(
            name='Execution',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('function_name', models.CharField(blank=True, help_text='Kept when the function is deleted.', max_length=64)),
                ('version_number', models.PositiveIntegerField(null=True)),
                ('run', models.UUIDField(db_index=True, null=True)),
                ('call', models.UUIDField(null=True)),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('status', models.CharField(help_text='ok, error, timeout, memory, cpu, violation, crash, refused, busy, cancelled.', max_length=10)),
                ('arguments', models.JSONField(default=dict)),
                ('result', models.JSONField(null=True)),
                ('error', models.JSONField(null=True)),
                ('printed', models.TextField(blank=True)),
                ('wall_ms', models.FloatField(default=0)),
                ('cpu_ms', models.FloatField(default=0)),
                ('peak_kb', models.PositiveIntegerField(default=0)),
                ('isolation', models.CharField(blank=True, max_length=8)),
                ('is_cached', models.BooleanField(default=False)),
                ('requests', models.JSONField(default=list, help_text='What ctx.http fetched: method, url, status, ms, received.')),
                ('principal', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('version', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='executions', to='functions.functionversion')),
                ('function', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='executions', to='functions.storedfunction')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['function', '-id'], name='functions_e_functio_6dc2ac_idx'), models.Index(fields=['principal', '-id'], name='functions_e_princip_30dee9_idx')],
            },
        ),
        migrations.AddConstraint(
            model_name='functionversion',
            constraint=models.UniqueConstraint(fields=('function', 'number'), name='function_version_number'),
        ),
        migrations.AddConstraint(
            model_name='functionversion',
            constraint=models.UniqueConstraint(fields=('function', 'sha256'), name='function_version_content'),
        ),
    ]
