"""Django's settings.

Those that differ between installations come from the environment (`mhb_site.env`).
"""

import os
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import django_stubs_ext
from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from mhb_site import env as _env
from mhb_site.sign_in.providers import read_providers
from review.rules.permissions import UserRole
from review.rules.state_machine import NOT_SAMPLED, Role, State

django_stubs_ext.monkeypatch()  # makes ModelForm[Model] work at run time

os.umask(0o077)  # what this process writes (databases, uploads, backups) is nobody else's on this machine
ENV = _env.read_environment()
BASE_DIR = _env.ROOT
COMMIT = ENV.commit

MHB_PROVIDERS = read_providers(ENV.sso_file)  # of identities

DEBUG = ENV.debug
SECRET_KEY = ENV.secret()
ALLOWED_HOSTS = ENV.allowed_hosts
CSRF_TRUSTED_ORIGINS = ENV.trusted_origins

INSTALLED_APPS = [
    "mhb_site",
    "evaluation",
    "generation",
    "review",
    "mhb_site.apps.BackOfficeConfig",  # django.contrib.admin
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "axes",
    "csp",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "knox",
    "rest_framework",
]

MIDDLEWARE = [
    "mhb_site.observability.probes.ProbesMiddleware",
    "mhb_site.observability.requests.AccessLogMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "mhb_site.web.privacy.NoStoreMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "mhb_site.web.time_zones.TimeZoneMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "mhb_site.web.kept_forms.KeptFormsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "mhb_site.sign_in.required_factor.RequiredFactorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "mhb_site.web.requests.RequestsMiddleware",
    "mhb_site.web.errors.ErrorsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "mhb_site.urls"
WSGI_APPLICATION = "mhb_site.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["review.templatetags.reading"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "mhb_site.web.context.frame",
            ],
        },
    },
]

DATABASES = {"default": ENV.database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Shared by all processes: used codes, numbers of attempts, results of finished runs.
CACHES = {
    "default": {
        "BACKEND": "mhb_site.web.cache.SignedDatabaseCache",
        "LOCATION": "mhb_site_cache",  # mhb_site.models.CacheEntry
        "OPTIONS": {"MAX_ENTRIES": 10_000},  # above it, expired entries are deleted first
    }
}

AUTH_USER_MODEL = "review.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    # Not allauth's, which reveals whether the password of a closed account was right.
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Of invitations, the only links that set a password.
PASSWORD_RESET_TIMEOUT = ENV.invitation_hours * 3600
LOGIN_URL = "account_login"
CSRF_FAILURE_VIEW = "mhb_site.web.kept_forms.csrf_failure"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_ADAPTER = "mhb_site.sign_in.adapters.ClosedAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
# axes counts failures (mhb_site.sign_in); allauth would count them again, with its own limits.
# Beginning with a passkey or at a provider stores a session before anybody is known.
ACCOUNT_RATE_LIMITS = {"login_failed": None, "sign_in_begun": "60/m/ip"}
ACCOUNT_FORMS = {
    "login": "mhb_site.sign_in.forms.SignInForm",
    "reauthenticate": "mhb_site.sign_in.forms.ConfirmPasswordForm",
}
SOCIALACCOUNT_ADAPTER = "mhb_site.sign_in.sso.ProviderAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
# A link, not a form: the policy below forbids forms that lead to another site.
SOCIALACCOUNT_LOGIN_ON_GET = True
_openid_apps = [provider.app for provider in MHB_PROVIDERS if provider.protocol == "openid_connect"]
_saml_apps = [provider.app for provider in MHB_PROVIDERS if provider.protocol == "saml"]
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": _openid_apps}, "saml": {"APPS": _saml_apps}}
for _protocol in sorted({provider.protocol for provider in MHB_PROVIDERS}):
    INSTALLED_APPS.append(f"allauth.socialaccount.providers.{_protocol}")  # imports clients that nobody else needs
MFA_ADAPTER = "mhb_site.sign_in.adapters.SecondFactorAdapter"
MFA_FORMS = {
    "activate_totp": "mhb_site.sign_in.adapters.SetUpForm",
    "authenticate": "mhb_site.sign_in.adapters.SignInCodeForm",
    "reauthenticate": "mhb_site.sign_in.adapters.ConfirmCodeForm",
    "add_webauthn": "mhb_site.sign_in.passkeys.AddPasskeyForm",
    "login_webauthn": "mhb_site.sign_in.passkeys.SignInPasskeyForm",
    "authenticate_webauthn": "mhb_site.sign_in.passkeys.SecondPasskeyForm",
    "reauthenticate_webauthn": "mhb_site.sign_in.passkeys.ConfirmPasskeyForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = True
MHB_KEEP_SIGN_INS_DAYS = ENV.keep_sign_ins_days
MHB_KEEP_CALL_TEXTS_DAYS = ENV.keep_call_texts_days
MHB_SSO_SESSION_HOURS = ENV.sso_session_hours
MHB_SSO_TOKEN_HOURS = ENV.sso_token_hours
MHB_SECOND_FACTOR_ROLES = ENV.second_factor_roles
MFA_TOTP_ISSUER = "MHB"
MFA_TOTP_TOLERANCE = 1  # in steps of 30 seconds: a phone's clock may be off
AXES_HANDLER = "mhb_site.sign_in.limits.SignInLimits"
AXES_USERNAME_CALLABLE = "mhb_site.sign_in.limits.attempted_name"
AXES_CLIENT_IP_CALLABLE = "mhb_site.sign_in.limits.client_address"
AXES_FAILURE_LIMIT = 10  # per name and address
AXES_COOLOFF_TIME = 0.25  # hours
# Else continued guessing would lock an account forever.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "mhb_site.web.errors.locked_out"
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "account/locked.html"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
FORMAT_MODULE_PATH = "mhb_site.formats"
LOCALE_PATHS = [BASE_DIR / "mhb_site" / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True

FORCE_SCRIPT_NAME = ENV.sub_path or None
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = LANGUAGE_COOKIE_PATH = f"{ENV.sub_path}/"
STATIC_URL = f"{ENV.sub_path}/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT: Path | None = ENV.static_root
_static_files = "mhb_site.web.static_files.StaticFiles"
if ENV.embedded:  # served from their source folders
    STATIC_ROOT = None
    _static_files = "django.contrib.staticfiles.storage.StaticFilesStorage"
WHITENOISE_USE_FINDERS = ENV.embedded
MHB_S3 = ENV.s3  # else files are in these folders
MHB_IMAGES = ENV.data_dir / "images"  # stored by SHA-256
MEDIA_ROOT = ENV.data_dir / "uploads"
MEDIA_ROOT.mkdir(exist_ok=True)
FILE_UPLOAD_TEMP_DIR = MEDIA_ROOT  # so that the sweeper finds leftovers of a killed web process
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"file_permissions_mode": 0o600},
    },
    "staticfiles": {
        "BACKEND": _static_files,
        "OPTIONS": {"file_permissions_mode": 0o644, "directory_permissions_mode": 0o755},
    },
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = bool(ENV.https)
SECURE_HSTS_SECONDS, SECURE_PROXY_SSL_HEADER = 0, None
if ENV.https:
    SECURE_HSTS_SECONDS, SECURE_PROXY_SSL_HEADER = 31_536_000, ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = ENV.cookie("session"), ENV.cookie("csrf")
SESSION_ENGINE = "mhb_site.sign_in.session_store"
MESSAGE_STORAGE = "mhb_site.web.messages.SiteStorage"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "review.common.api.BearerTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["review.common.api.HasRight"],
    "DEFAULT_PARSER_CLASSES": ["review.common.api.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "review.common.api.SingleFormatNegotiation",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "mhb_site.web.schema.Schema",
    "EXCEPTION_HANDLER": "mhb_site.web.errors.problem",
    "URL_FORMAT_OVERRIDE": None,  # exports use `?format=`
}
REST_KNOX = {
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_PREFIX": "mhb_",  # so that scanners for leaked secrets recognise them
    "TOKEN_TTL": timedelta(days=90),
    "TOKEN_LIMIT_PER_USER": 20,
}
_case_states = [(state.value, state.value) for state in State]
_review_stages = [(state.value, state.value) for state in State if not state.final]
_case_roles = [(role.value, role.value) for role in Role]
_account_roles = [(role.value, role.value) for role in UserRole]
SPECTACULAR_SETTINGS = {
    "TITLE": "MHB",
    "DESCRIPTION": "Build medical hallucination benchmarks with physicians, and measure models on them.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "WorkStatus": "generation.models.work.Work.Status",
        "JobStatus": "generation.models.jobs.Job.Status",
        "SampleStatus": "generation.samples.forms.SAMPLE_STATUSES",
        "SampleArm": "generation.models.Sample.Arm",
        "VersionStatus": "generation.samples.forms.VERSION_STATUSES",
        "CaseRole": _case_roles,
        "EventKindEnum": "review.models.Event.Kind",
        "StagesEnum": _review_stages,
        "CaseStatus": [*_case_states, (NOT_SAMPLED, NOT_SAMPLED)],
        "CaseKind": "review.models.Case.Kind",
        "Occasion": "review.models.Occasion",
        "WebhookOccasion": "generation.notifications.services.OCCASIONS",
        "DeliveryStatus": "review.models.Delivery.Status",
        "PersonEventKind": "review.models.PersonEvent.Kind",
        "EndpointRole": [("target", "target"), ("judge", "judge")],
        "AccountRole": _account_roles,
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "mhb_site.web.schema.add_problem_responses",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # Deep links are links inside buttons, the highlighter's contrast is too low, and the validator
    # is a third-party site.
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": False,
        "docExpansion": "none",  # there are many operations: show only their groups first
        "syntaxHighlight": {"activated": False},
        "validatorUrl": None,
    },
}

CELERY_BROKER_URL = ENV.redis_url or "filesystem://"
CELERY_BROKER_TRANSPORT = "mhb_site.server.file_queue:FileTransport"
if ENV.redis_url:
    CELERY_BROKER_TRANSPORT = "mhb_site.server.redis_queue:RedisTransport"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker that gives up would need a manual restart
# Remote control deletes its queue over a connection that may be lost, which kills the worker.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_DEFAULT_QUEUE = "mhb"
CELERY_TASK_ROUTES = {"generation.tasks.run_lane": {"queue": "mhb-lanes"}}
if ENV.redis_url:
    # The work is in rows with leases, and the broker only wakes workers. So a long timeout loses
    # nothing and redelivers nothing.
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {"visibility_timeout": 24 * 3600}
else:
    _queue = ENV.data_dir / "queue"
    for _folder in ("messages", "processed", "control"):
        (_queue / _folder).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_queue / "messages"),
        "data_folder_out": str(_queue / "messages"),
        "processed_folder": str(_queue / "processed"),
        "control_folder": str(_queue / "control"),
        "polling_interval": 0.05,
    }

MHB_CELERY = "mhb_site.celery"  # imported when the first task is sent: most commands send none
MHB_BENCHMARKS = "mhb_site.benchmarks"  # each folder of this package is a benchmark
MHB_ALIVE_FILE = ENV.alive_file
MHB_TIME_ZONE = ENV.time_zone
MHB_LEASE_SECONDS = ENV.lease_seconds
MHB_LANES = 2
if ENV.embedded:
    MHB_LANES = 1
if ENV.lanes is not None:
    MHB_LANES = ENV.lanes
MHB_LANE_SECONDS = ENV.lane_seconds
MHB_STATEMENT_SECONDS = ENV.statement_seconds
MHB_BATCH_POLL_SECONDS = ENV.batch_poll_seconds
MHB_CURRENCY = ENV.currency
MHB_MAX_REPLY_BYTES = ENV.max_reply_bytes
MHB_READER_MEMORY = ENV.reader_memory_mb * 2**20  # bytes
MHB_READER_SECONDS = ENV.reader_seconds
MHB_REVIEW_LEASE_MINUTES = ENV.review_lease_minutes
MHB_RELEASES_PER_HOUR = ENV.releases_per_hour
MHB_CASES_BEFORE_ADJUDICATION = ENV.cases_before_adjudication
MHB_SITE_URL = ENV.site
MHB_EMAILS = bool(ENV.email_url)  # e-mail invitations; else show their links
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
if MHB_EMAILS:
    EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_HOST = ENV.mail.hostname or ""
EMAIL_PORT = ENV.mail.port or _env.MAIL_PORTS.get(ENV.mail.scheme, 25)
EMAIL_HOST_USER = unquote(ENV.mail.username or "")
EMAIL_HOST_PASSWORD = unquote(ENV.mail.password or "")
EMAIL_USE_TLS = ENV.mail.scheme == "smtp+tls"
EMAIL_USE_SSL = ENV.mail.scheme == "smtps"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = ENV.email_from
MHB_CALIBRATION_SHARE = ENV.calibration_share
MHB_REPEAT_SHARE = ENV.repeat_share
MHB_EMBEDDED = ENV.embedded
MHB_TRUSTED_PROXIES = ENV.proxies
MHB_ENDPOINT_ACCESS = ENV.access()

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"structured": {"()": "mhb_site.observability.logs.StructuredFormatter", "as_json": ENV.log_json}},
    "filters": {"without_texts": {"()": "mhb_site.observability.logs.WithoutTexts"}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "structured", "filters": ["without_texts"]}
    },
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {
        "allauth.socialaccount.providers.saml": {"level": "CRITICAL"},  # it quotes what a provider, or anybody, sent
        "axes": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
        "httpx2": {"level": "WARNING"},  # the ledger has every call
        "kombu.connection": {"level": "ERROR"},
        "psycopg.pool": {"level": "ERROR"},  # it warns at every attempt; mhb_site.server.startup says it once
        "waitress": {"level": "WARNING"},
        "waitress.queue": {"level": "ERROR"},  # it warns whenever a request waits for a thread
    },
}
