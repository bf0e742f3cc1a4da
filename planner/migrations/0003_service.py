import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import re
import simple_history.models
import uuid
from django.conf import settings
from django.db import migrations, models


def name_tokens(apps, schema_editor):
    tokens = apps.get_model('planner', 'ApiToken')
    for digest in list(tokens.objects.values_list('pk', flat=True)):
        tokens.objects.filter(pk=digest).update(public_id=uuid.uuid4())


class Migration(migrations.Migration):

    dependencies = [
        ('planner', '0002_model_specs'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('person', models.CharField(blank=True, max_length=150)),
                ('action', models.CharField(max_length=64)),
                ('subject', models.CharField(max_length=200)),
                ('changes', models.TextField(default='{}', help_text='JSON: {"field": [old, new]}.')),
                ('request_id', models.CharField(blank=True, max_length=64)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='HistoricalPool',
            fields=[
                ('id', models.BigIntegerField(auto_created=True, blank=True, db_index=True, verbose_name='ID')),
                ('slug', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('^[a-z0-9][a-z0-9._-]{0,127}\\Z'), 'Use a-z, 0-9, dot, dash and underscore, starting with a letter or digit.')])),
                ('name', models.CharField(blank=True, max_length=200)),
                ('accelerator', models.CharField(help_text='Slug of the catalog.', max_length=128)),
                ('node_type', models.CharField(help_text='Slug of the catalog: the machine the devices are in.', max_length=128)),
                ('count', models.PositiveIntegerField(help_text='Devices, not machines.')),
                ('usd_per_device_hour', models.FloatField(blank=True, help_text="The team's internal price; empty: not known, and plans say so.", null=True)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(blank=True, editable=False)),
                ('changed_at', models.DateTimeField(blank=True, editable=False)),
                ('history_id', models.AutoField(primary_key=True, serialize=False)),
                ('history_date', models.DateTimeField(db_index=True)),
                ('history_change_reason', models.CharField(max_length=100, null=True)),
                ('history_type', models.CharField(choices=[('+', 'Created'), ('~', 'Changed'), ('-', 'Deleted')], max_length=1)),
            ],
            options={
                'verbose_name': 'historical pool',
                'verbose_name_plural': 'historical pools',
                'ordering': ('-history_date', '-history_id'),
                'get_latest_by': ('history_date', 'history_id'),
            },
            bases=(simple_history.models.HistoricalChanges, models.Model),
        ),
        migrations.CreateModel(
            name='HistoricalWebhook',
            fields=[
                ('id', models.BigIntegerField(auto_created=True, blank=True, db_index=True, verbose_name='ID')),
                ('slug', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('^[a-z0-9][a-z0-9._-]{0,127}\\Z'), 'Use a-z, 0-9, dot, dash and underscore, starting with a letter or digit.')])),
                ('url', models.CharField(max_length=500)),
                ('active', models.BooleanField(default=True)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(blank=True, editable=False)),
                ('changed_at', models.DateTimeField(blank=True, editable=False)),
                ('history_id', models.AutoField(primary_key=True, serialize=False)),
                ('history_date', models.DateTimeField(db_index=True)),
                ('history_change_reason', models.CharField(max_length=100, null=True)),
                ('history_type', models.CharField(choices=[('+', 'Created'), ('~', 'Changed'), ('-', 'Deleted')], max_length=1)),
            ],
            options={
                'verbose_name': 'historical webhook',
                'verbose_name_plural': 'historical webhooks',
                'ordering': ('-history_date', '-history_id'),
                'get_latest_by': ('history_date', 'history_id'),
            },
            bases=(simple_history.models.HistoricalChanges, models.Model),
        ),
        migrations.CreateModel(
            name='PeriodicJob',
            fields=[
                ('name', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('ran_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('^[a-z0-9][a-z0-9._-]{0,127}\\Z'), 'Use a-z, 0-9, dot, dash and underscore, starting with a letter or digit.')])),
                ('name', models.CharField(blank=True, max_length=200)),
                ('accelerator', models.CharField(help_text='Slug of the catalog.', max_length=128)),
                ('node_type', models.CharField(help_text='Slug of the catalog: the machine the devices are in.', max_length=128)),
                ('count', models.PositiveIntegerField(help_text='Devices, not machines.')),
                ('usd_per_device_hour', models.FloatField(blank=True, help_text="The team's internal price; empty: not known, and plans say so.", null=True)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('changed_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator(re.compile('^[a-z0-9][a-z0-9._-]{0,127}\\Z'), 'Use a-z, 0-9, dot, dash and underscore, starting with a letter or digit.')])),
                ('url', models.CharField(max_length=500)),
                ('active', models.BooleanField(default=True)),
                ('secret_salt', models.UUIDField(default=uuid.uuid4, editable=False)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('changed_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('delivered', 'Delivered'), ('failed', 'Failed')], default='pending', max_length=10)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_status', models.PositiveSmallIntegerField(blank=True, help_text='HTTP status of the last try.', null=True)),
                ('last_error', models.CharField(blank=True, max_length=200)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.AlterModelOptions(
            name='planrun',
            options={'ordering': ['-created_at', '-id'], 'verbose_name': 'plan'},
        ),
        # One default for all rows would not be unique: added empty, filled, then made unique.
        migrations.AddField(
            model_name='apitoken',
            name='public_id',
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.RunPython(name_tokens, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='apitoken',
            name='public_id',
            field=models.UUIDField(default=uuid.uuid4, editable=False, unique=True),
        ),
        migrations.AddField(
            model_name='planrun',
            name='webhook_due',
            field=models.BooleanField(default=False, help_text='Its end is not yet written down for the webhook.'),
        ),
        migrations.AddField(
            model_name='team',
            name='version',
            field=models.PositiveIntegerField(default=1, editable=False),
        ),
        migrations.AddIndex(
            model_name='modelspec',
            index=models.Index(fields=['team', 'retired', 'changed_at'], name='model_spec_fresh'),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='audit_events', to='planner.team'),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='user',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='audit_events', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='historicalpool',
            name='history_user',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='historicalpool',
            name='team',
            field=models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='planner.team'),
        ),
        migrations.AddField(
            model_name='historicalwebhook',
            name='history_user',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='historicalwebhook',
            name='team',
            field=models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='planner.team'),
        ),
        migrations.AddField(
            model_name='pool',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pools', to='planner.team'),
        ),
        migrations.AddField(
            model_name='webhook',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to='planner.team'),
        ),
        migrations.AddField(
            model_name='planrun',
            name='webhook',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='plans', to='planner.webhook'),
        ),
        migrations.AddIndex(
            model_name='planrun',
            index=models.Index(condition=models.Q(('webhook_due', True)), fields=['finished_at'], name='plan_webhook_due'),
        ),
        migrations.AddField(
            model_name='webhookdelivery',
            name='plan',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='planner.planrun'),
        ),
        migrations.AddField(
            model_name='webhookdelivery',
            name='webhook',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='planner.webhook'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(fields=['team', '-created_at', '-id'], name='audit_list'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.UniqueConstraint(fields=('team', 'slug'), name='pool_slug_once_per_team', violation_error_message='The team has a pool of this slug already.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('count__gte', 1), ('count__lte', 131072)), name='pool_count_within_bounds'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('usd_per_device_hour__isnull', True), models.Q(('usd_per_device_hour__gte', 0), ('usd_per_device_hour__lte', 1000000.0)), _connector='OR'), name='pool_price_within_bounds'),
        ),
        migrations.AddConstraint(
            model_name='webhook',
            constraint=models.UniqueConstraint(fields=('team', 'slug'), name='webhook_slug_once_per_team'),
        ),
        migrations.AddIndex(
            model_name='webhookdelivery',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['next_attempt_at'], name='delivery_due'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.UniqueConstraint(fields=('webhook', 'plan'), name='delivery_once_per_plan'),
        ),
        migrations.AddConstraint(
            model_name='webhookdelivery',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'delivered', 'failed'])), name='delivery_status_known'),
        ),
    ]
