import secrets

import django.contrib.auth.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import review.models.append_only
import review.models.people
import review.models.usernames
import review.rules.permissions
import uuid
from django.conf import settings
from django.db import migrations, models


def begin_chains(apps, schema_editor):
    """Both chains of the audit trail are empty (docs/audit.md); each has a key of its own."""
    for name in ('event', 'personevent'):
        apps.get_model('review', 'ChainHead').objects.create(name=name, sequence=0, hash='0' * 64, key=secrets.token_hex(32))


class Migration(migrations.Migration):

    replaces = [('review', '0001_initial'), ('review', '0002_keys'), ('review', '0003_forms'), ('review', '0004_corrected'), ('review', '0005_languages'), ('review', '0006_people'), ('review', '0007_rewordings'), ('review', '0008_validation_cases'), ('review', '0009_merge_events'), ('review', '0010_imported_answers'), ('review', '0011_prompt_sets'), ('review', '0012_exports'), ('review', '0013_acts'), ('review', '0014_assignment_reason'), ('review', '0015_people_and_events'), ('review', '0016_told'), ('review', '0017_senior'), ('review', '0018_site_language')]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='CalibrationItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('title', models.CharField(max_length=300)),
                ('spec', models.JSONField()),
                ('expected', models.JSONField()),
                ('active', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                ('username', review.models.usernames.NameField(error_messages={'unique': 'A user with that username already exists.'}, help_text='At most 150 characters: letters, digits and @/./+/-/_. Capital letters are converted to lowercase.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                ('role', models.CharField(choices=[('physician', 'physician'), ('admin', 'admin'), ('researcher', 'researcher'), ('auditor', 'auditor')], default=review.rules.permissions.UserRole['PHYSICIAN'], max_length=16)),
                ('hospital', models.CharField(blank=True, max_length=200)),
                ('specialty', models.CharField(blank=True, max_length=300)),
                ('languages', models.JSONField(blank=True, default=list)),
                ('stages', models.JSONField(blank=True, default=list)),
                ('daily_cap', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('sessions_ended', models.PositiveIntegerField(default=0)),
                ('simulated', models.BooleanField(default=False)),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
                ('keys', models.JSONField(blank=True, default=dict)),
                ('keys_off', models.BooleanField(default=False)),
                ('institution', models.CharField(blank=True, max_length=200)),
                ('invited_at', models.DateTimeField(blank=True, null=True)),
                ('emails_off', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list)),
                ('emails_paused', models.BooleanField(db_default=False, default=False)),
                ('senior', models.BooleanField(db_default=False, default=False)),
                ('site_language', models.CharField(blank=True, db_default='', default='', max_length=16)),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'abstract': False,
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('username'), name='user_name_once'), models.CheckConstraint(condition=models.Q(('role__in', ['physician', 'admin', 'researcher', 'auditor'])), name='user_role_known')],
            },
            managers=[
                ('objects', review.models.people.People()),
            ],
        ),
        migrations.CreateModel(
            name='ChainHead',
            fields=[
                ('name', models.CharField(max_length=16, primary_key=True, serialize=False)),
                ('sequence', models.PositiveBigIntegerField()),
                ('hash', models.CharField(max_length=64)),
                ('key', models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('url', models.CharField(max_length=500)),
                ('secret_env', models.CharField(max_length=100)),
                ('occasions', models.JSONField(default=list)),
                ('active', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name='Guideline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('stage', models.CharField(choices=[('primary', 'primary'), ('secondary', 'secondary'), ('adjudication', 'adjudication')], max_length=16)),
                ('version', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('benchmark', 'stage', 'version'), name='guideline_versioned_once')],
            },
        ),
        migrations.CreateModel(
            name='Audit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asked_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('asked_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('total', models.PositiveBigIntegerField(default=0)),
                ('checked', models.PositiveBigIntegerField(default=0)),
                ('reviews', models.PositiveBigIntegerField(default=0)),
                ('unsealed', models.PositiveBigIntegerField(default=0)),
                ('sequence', models.PositiveBigIntegerField(default=0)),
                ('hash', models.CharField(blank=True, max_length=64)),
                ('faults', models.JSONField(default=list)),
                ('faults_count', models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='PersonEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.PositiveBigIntegerField(unique=True)),
                ('previous', models.CharField(max_length=64)),
                ('hash', models.CharField(max_length=64)),
                ('person', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='account_events', to=settings.AUTH_USER_MODEL)),
                ('kind', models.CharField(choices=[('made', 'account created'), ('edited', 'account edited'), ('paused', 'paused'), ('resumed', 'case assignment resumed'), ('closed', 'account closed'), ('opened', 'account reopened'), ('password', 'password changed'), ('invited', 'invitation link created'), ('uninvited', 'invitation withdrawn'), ('second-factor', 'second factor removed'), ('own-factor', 'second factor set up or removed'), ('role', 'role changed'), ('keeper', "access to Django's admin changed"), ('found', 'account without any event found'), ('calibration', 'calibration cases offered again'), ('item-made', 'calibration case created'), ('item-changed', 'calibration case edited'), ('term', 'taxonomy term added or changed'), ('form', 'review form published'), ('prompts', 'prompt set saved'), ('exported', 'files exported'), ('endpoint', 'endpoint added or changed'), ('launched', 'batch or run launched'), ('job', 'batch or run changed'), ('import', 'import started or cancelled'), ('freeze', 'freezing of a release started'), ('erratum', 'sample reported, withdrawn or kept'), ('signed-in', 'signed in'), ('linked', 'linked to a sign-in provider'), ('read', 'case read'), ('anonymised', 'person anonymised'), ('copied', 'own data exported'), ('session', 'session ended'), ('webhook', 'webhook added or changed'), ('token', 'API token created or revoked')], max_length=16)),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
                ('data', models.JSONField(default=dict)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'))],
            },
        ),
        migrations.CreateModel(
            name='ReviewForm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('version', models.PositiveIntegerField()),
                ('design', models.JSONField(null=True)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('at', models.DateTimeField()),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('benchmark', 'version'), name='review_form_versioned_once'), models.CheckConstraint(condition=models.Q(('version__gte', 1)), name='review_form_from_one'), models.CheckConstraint(condition=models.Q(('benchmark', ''), _negated=True), name='review_form_of_a_benchmark')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('occasion', models.CharField(choices=[('assigned', 'a case was assigned'), ('mentioned', 'somebody was mentioned'), ('dissent', 'reviewers disagree'), ('paused', 'a batch or run paused'), ('failed', 'a batch or run ended with failures, or a release could not be frozen'), ('finished', 'a batch or run finished'), ('budget', 'a budget is nearly spent'), ('frozen', 'a release was frozen'), ('digest', 'each morning: what waits for review'), ('test', 'test')], max_length=10)),
                ('facts', models.JSONField(default=dict)),
                ('once', models.CharField(blank=True, max_length=100)),
                ('status', models.CharField(choices=[('waiting', 'waiting'), ('sent', 'sent'), ('given-up', 'given up')], default='waiting', max_length=8)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('next_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('error', models.TextField(blank=True)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('webhook', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='review.webhook')),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'))],
                'indexes': [models.Index(condition=models.Q(('status', 'waiting')), fields=['next_at'], name='delivery_due')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['waiting', 'sent', 'given-up'])), name='delivery_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('person', None), ('webhook__isnull', False)), models.Q(('person__isnull', False), ('webhook', None)), _connector='OR'), name='delivery_to_one'), models.UniqueConstraint(condition=models.Q(('once', ''), _negated=True), fields=('person', 'once'), name='person_told_once'), models.UniqueConstraint(condition=models.Q(('once', ''), _negated=True), fields=('webhook', 'once'), name='webhook_told_once')],
            },
        ),
        migrations.CreateModel(
            name='Case',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('work', 'work'), ('calibration', 'calibration'), ('repeat', 'repeat'), ('validation', 'judge validation')], default='work', max_length=12)),
                ('item', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='cases', to='review.calibrationitem')),
                ('benchmark', models.CharField(max_length=64)),
                ('lineage', models.CharField(max_length=200)),
                ('version', models.PositiveIntegerField(default=1)),
                ('title', models.CharField(max_length=300)),
                ('language', models.CharField(blank=True, max_length=16)),
                ('specialty', models.CharField(blank=True, max_length=100)),
                ('spec', models.JSONField()),
                ('fresh_eyes_required', models.BooleanField(default=False)),
                ('simulated', models.BooleanField(default=False)),
                ('priority', models.SmallIntegerField(default=0)),
                ('state', models.CharField(choices=[('primary', 'primary'), ('secondary', 'secondary'), ('adjudication', 'adjudication'), ('approved', 'approved'), ('rejected', 'rejected'), ('withdrawn', 'withdrawn')], default='primary', max_length=16)),
                ('ground', models.CharField(blank=True, max_length=32)),
                ('opened_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['state', '-priority', 'id'], name='review_case_state_cccbfe_idx'), models.Index(fields=['benchmark', 'state'], name='review_case_benchma_68433b_idx')],
                'constraints': [models.UniqueConstraint(fields=('lineage', 'version'), name='case_one_per_version'), models.CheckConstraint(condition=models.Q(('state__in', ['primary', 'secondary', 'adjudication', 'approved', 'rejected', 'withdrawn'])), name='case_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', False), ('state__in', ['approved', 'rejected', 'withdrawn'])), models.Q(('closed_at__isnull', True), models.Q(('state__in', ['approved', 'rejected', 'withdrawn']), _negated=True)), _connector='OR'), name='case_closed_iff_final'), models.CheckConstraint(condition=models.Q(models.Q(('ground', 'unreviewed'), _negated=True), ('state', 'approved'), _connector='OR'), name='case_unreviewed_is_approved'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'approved'), _negated=True), models.Q(('ground', ''), _negated=True), _connector='OR'), name='case_approved_on_a_ground'), models.CheckConstraint(condition=models.Q(('ground__in', ['', 'consensus', 'corrected', 'objection-lapsed', 'primary-alone', 'unreviewed', 'rubric-inadequate', 'adjudicated', 'undecided', 'withdrawn'])), name='case_ground_known')],
            },
        ),
        migrations.CreateModel(
            name='Assignment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('case', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='assignments', to='review.case')),
                ('role', models.CharField(choices=[('primary', 'primary'), ('secondary', 'secondary'), ('adjudicator-1', 'adjudicator-1'), ('adjudicator-2', 'adjudicator-2')], max_length=16)),
                ('phase', models.CharField(choices=[('commit', 'commit'), ('confirm', 'confirm'), ('discuss', 'discuss')], default='commit', max_length=16)),
                ('hold', models.CharField(choices=[('open', 'open'), ('held', 'held'), ('waiting', 'waiting'), ('done', 'done')], default='open', max_length=8)),
                ('physician', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='assignments', to=settings.AUTH_USER_MODEL)),
                ('reserved_for', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='reserved', to=settings.AUTH_USER_MODEL)),
                ('priority', models.SmallIntegerField(default=0)),
                ('turn', models.PositiveSmallIntegerField(default=2)),
                ('language', models.CharField(blank=True, max_length=16)),
                ('specialty', models.CharField(blank=True, max_length=100)),
                ('calibration', models.CharField(blank=True, max_length=64)),
                ('other_hospital', models.BooleanField(default=False)),
                ('token', models.UUIDField(blank=True, null=True, unique=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('opened_at', models.DateTimeField()),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('senior', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'indexes': [models.Index(fields=['hold', 'phase', 'lease_until'], name='review_assi_hold_98463b_idx'), models.Index(fields=['physician', 'hold'], name='review_assi_physici_86b356_idx'), models.Index(fields=['hold', '-priority', 'turn', 'case', 'language', 'specialty', 'calibration', 'reserved_for'], name='assignment_queue')],
                'constraints': [models.UniqueConstraint(fields=('case', 'role'), name='assignment_one_per_role'), models.UniqueConstraint(condition=models.Q(('physician__isnull', False)), fields=('case', 'physician'), name='assignment_one_role_per_physician'), models.CheckConstraint(condition=models.Q(models.Q(('hold', 'open'), ('physician__isnull', True), ('token__isnull', True)), models.Q(models.Q(('hold', 'open'), _negated=True), ('physician__isnull', False), ('token__isnull', False)), ('hold', 'done'), _connector='OR'), name='assignment_held_by_somebody')],
            },
        ),
        migrations.CreateModel(
            name='Declined',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('case', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='declined', to='review.case')),
                ('physician', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='declined', to=settings.AUTH_USER_MODEL)),
                ('reason', models.CharField(choices=[('conflict', 'conflict of interest'), ('field', 'not my field'), ('language', 'not my language'), ('other', 'another reason')], max_length=10)),
                ('text', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('case', 'physician'), name='declined_once')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.PositiveBigIntegerField(unique=True)),
                ('previous', models.CharField(max_length=64)),
                ('hash', models.CharField(max_length=64)),
                ('case', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='events', to='review.case')),
                ('number', models.PositiveIntegerField()),
                ('kind', models.CharField(choices=[('opened', 'opened'), ('claimed', 'claimed'), ('taken-over', 'taken over after the reservation expired'), ('released', 'returned to queue'), ('expired', 'reservation expired'), ('submitted', 'submitted'), ('moved', 'moved to the next stage'), ('closed', 'closed'), ('withdrawn', 'withdrawn'), ('prioritised', 'priority changed'), ('specialty', 'specialty changed'), ('language', 'language changed'), ('revealed', 'traps revealed'), ('retracted', 'submission undone'), ('reworded', 'wording put to the first reviewer'), ('accepted', 'wording accepted by the first reviewer'), ('objected', 'objection to the wording'), ('lapsed', 'time for an objection expired'), ('declined', 'declined'), ('problem', 'problem reported'), ('reassigned', 'reassigned'), ('remarked', 'remarked'), ('merged', 'merged with a duplicate'), ('unmerged', 'merge undone'), ('imported', 'answers imported as a draft')], max_length=16)),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
                ('data', models.JSONField(default=dict)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'))],
                'constraints': [models.UniqueConstraint(fields=('case', 'number'), name='event_numbered_once')],
            },
        ),
        migrations.CreateModel(
            name='Remark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('case', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='remarks', to='review.case')),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='remarks', to=settings.AUTH_USER_MODEL)),
                ('anchor', models.JSONField(blank=True, null=True)),
                ('text', models.TextField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'))],
            },
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('assignment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to='review.assignment')),
                ('physician', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to=settings.AUTH_USER_MODEL)),
                ('phase', models.CharField(choices=[('commit', 'commit'), ('confirm', 'confirm'), ('discuss', 'discuss')], max_length=16)),
                ('answers', models.JSONField()),
                ('revision', models.PositiveIntegerField(default=1)),
                ('saved_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('assignment', 'physician', 'phase'), name='draft_one_per_phase')],
            },
        ),
        migrations.CreateModel(
            name='Review',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('case', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reviews', to='review.case')),
                ('assignment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reviews', to='review.assignment')),
                ('physician', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reviews', to=settings.AUTH_USER_MODEL)),
                ('role', models.CharField(choices=[('primary', 'primary'), ('secondary', 'secondary'), ('adjudicator-1', 'adjudicator-1'), ('adjudicator-2', 'adjudicator-2')], max_length=16)),
                ('phase', models.CharField(choices=[('commit', 'commit'), ('confirm', 'confirm'), ('discuss', 'discuss')], max_length=16)),
                ('answers', models.JSONField()),
                ('verdict', models.CharField(choices=[('approve', 'approve'), ('reject', 'reject')], max_length=8)),
                ('inadequate', models.BooleanField()),
                ('submitted_at', models.DateTimeField()),
                ('attempt', models.PositiveSmallIntegerField(default=1)),
                ('guideline', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='review.guideline')),
                ('signed_as', models.CharField(blank=True, max_length=200)),
                ('meaning', models.CharField(blank=True, max_length=16)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'))],
                'indexes': [models.Index(fields=['physician', '-submitted_at'], name='review_revi_physici_cb944c_idx')],
                'constraints': [models.UniqueConstraint(fields=('case', 'role', 'phase', 'attempt'), name='review_one_per_turn'), models.CheckConstraint(condition=models.Q(('verdict__in', ['approve', 'reject'])), name='review_verdict_known')],
            },
        ),
        migrations.CreateModel(
            name='FirstLook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('assignment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='first_looks', to='review.assignment')),
                ('physician', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('answers', models.JSONField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('assignment', 'physician'), name='first_look_once')],
            },
        ),
        migrations.CreateModel(
            name='ActiveInterval',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('assignment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='intervals', to='review.assignment')),
                ('physician', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='intervals', to=settings.AUTH_USER_MODEL)),
                ('began_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['physician', 'began_at'], name='review_acti_physici_c0511d_idx')],
                'constraints': [models.CheckConstraint(condition=models.Q(('ended_at__gte', models.F('began_at'))), name='interval_forward'), models.UniqueConstraint(fields=('assignment', 'physician', 'began_at'), name='interval_once')],
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='notices', to=settings.AUTH_USER_MODEL)),
                ('kind', models.CharField(choices=[('mention', 'mention'), ('problem', 'problem reported'), ('discussion', 'discussion opened')], max_length=12)),
                ('case', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='review.case')),
                ('remark', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='review.remark')),
                ('text', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('read_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['user', 'read_at'], name='review_noti_user_id_fe05d0_idx')],
            },
        ),
        migrations.CreateModel(
            name='Retraction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('review', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='retraction', to='review.review')),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Rewording',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asked_at', models.DateTimeField()),
                ('due_at', models.DateTimeField()),
                ('case', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='rewording', to='review.case')),
                ('physician', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rewordings', to=settings.AUTH_USER_MODEL)),
                ('review', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='rewording', to='review.review')),
            ],
            options={
                'indexes': [models.Index(fields=['due_at'], name='rewording_due')],
                'constraints': [models.CheckConstraint(condition=models.Q(('due_at__gt', models.F('asked_at'))), name='rewording_due_later')],
            },
        ),
        migrations.CreateModel(
            name='RewordingOutcome',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('consent', models.CharField(choices=[('accepted', 'accepted'), ('objected', 'objected'), ('lapsed', 'lapsed')], max_length=16)),
                ('reason', models.TextField(blank=True)),
                ('at', models.DateTimeField()),
                ('rewording', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='outcome', to='review.rewording')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('consent__in', ['accepted', 'objected', 'lapsed'])), name='rewording_consent_known'), models.CheckConstraint(condition=models.Q(models.Q(('consent', 'objected'), models.Q(('reason', ''), _negated=True)), models.Q(models.Q(('consent', 'objected'), _negated=True), ('reason', '')), _connector='OR'), name='rewording_objection_with_reason')],
            },
        ),
        migrations.AddField(
            model_name='Case',
            name='repeats',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='repeated_as', to='review.review'),
        ),
        migrations.AddConstraint(
            model_name='Case',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('item__isnull', True), ('kind__in', ['work', 'validation']), ('repeats__isnull', True)), models.Q(('item__isnull', False), ('kind', 'calibration'), ('repeats__isnull', True)), models.Q(('item__isnull', True), ('kind', 'repeat'), ('repeats__isnull', False)), _connector='OR'), name='case_kind_whole'),
        ),
        migrations.RunPython(begin_chains, migrations.RunPython.noop),
        review.models.append_only.AppendOnly(
            model_name='Event',
        ),
        review.models.append_only.AppendOnly(
            model_name='PersonEvent',
        ),
        review.models.append_only.AppendOnly(
            model_name='Review',
            columns=('id', 'case_id', 'assignment_id', 'physician_id', 'role', 'phase', 'answers', 'verdict', 'inadequate', 'submitted_at', 'attempt', 'guideline_id', 'meaning'),
        ),
        review.models.append_only.AppendOnly(
            model_name='Retraction',
        ),
        review.models.append_only.AppendOnly(
            model_name='FirstLook',
        ),
        review.models.append_only.AppendOnly(
            model_name='Guideline',
        ),
        review.models.append_only.AppendOnly(
            model_name='ChainHead',
            columns=('name',),
        ),
        review.models.append_only.AppendOnly(
            model_name='ReviewForm',
        ),
        review.models.append_only.AppendOnly(
            model_name='Rewording',
        ),
        review.models.append_only.AppendOnly(
            model_name='RewordingOutcome',
        ),
    ]
