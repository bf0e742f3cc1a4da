"""All settings of the project. Every environment value comes through `planner.env`; `.env.example` lists them.

Without DATABASE_URL this is the embedded instance of one machine: SQLite and a private Valkey under VAR_DIR.
With DATABASE_URL it is a production server, and secrets, hosts and the broker must be given too.
"""

import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import environ
from csp.constants import NONE, SELF

from planner.documents import MAX_BODY_BYTES
from planner.embedded import instance
from planner.env import env_bool, env_choice, env_int, env_list, env_secret, env_text
from planner.logs import logging_config
from planner.ops.schedule import SWEEP, SWEEP_SECONDS

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env_text("PLANNER_VAR", str(BASE_DIR / "var")))
DATABASE_URL = env_secret("DATABASE_URL")
EMBEDDED = DATABASE_URL is None

# --- core
DEBUG = env_bool("DEBUG", default=False)
SECRET_KEY = env_secret("SECRET_KEY") or (instance.secret_key(VAR_DIR) if EMBEDDED else env_text("SECRET_KEY"))
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"] if EMBEDDED else None)
ROOT_URLCONF = "planner.urls"
WSGI_APPLICATION = "planner.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "import_export",
    "simple_history",
    "django_structlog",
    "knox",
    "hardware",
    "planner",
]
KNOX_TOKEN_MODEL = "planner.ApiToken"
# Its own migrations make a token table that nothing uses, and that bars flushing the tables it refers to.
MIGRATION_MODULES = {"knox": None}

MIDDLEWARE = [
    "planner.api.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "planner.api.middleware.BodyLimitMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "planner.api.middleware.NulMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "planner.ops.guesses.LoginLimitMiddleware",
    "planner.web.admin_keys.AdminKeyMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "loaders": [("django.template.loaders.cached.Loader", ["planner.web.loaders.CompactLoader"])],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
        },
    },
]

# --- database
DATABASES: dict[str, dict[str, Any]] = {
    "default": environ.Env.db_url_config(DATABASE_URL or f"sqlite:///{VAR_DIR / 'planner.sqlite3'}")
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Django's defaults lose writers to "database is locked": WAL lets readers work beside one writer, IMMEDIATE takes
    # the write lock at the start of a transaction, where waiting for it is still possible.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
    }
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"].setdefault("OPTIONS", {})
    if env_bool("DB_POOL", default=True):
        # The pool must not be smaller than gunicorn's threads, or requests wait for one another.
        DATABASES["default"]["OPTIONS"]["pool"] = {
            "min_size": 0,
            "max_size": env_int("DB_POOL_SIZE", default=20, least=1),
            "timeout": 5,
        }

# --- broker, cache, tasks
REDIS_URL = env_secret("REDIS_URL") or (instance.broker_url(VAR_DIR) if EMBEDDED else env_text("REDIS_URL"))
REDIS_PREFIX = env_text("REDIS_PREFIX", "planner:")

CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": env_secret("CACHE_URL") or REDIS_URL,
        "KEY_PREFIX": f"{REDIS_PREFIX}cache",
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 5},
    }
}

CELERY_BROKER_URL = instance.celery_url(REDIS_URL)
CELERY_IMPORTS = ["planner.tasks"]
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_BACKEND = None  # the plan's own row is the only truth about its state
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_TIME_LIMIT = env_int("TASK_TIME_LIMIT_SECONDS", default=3600, least=60)
CELERY_TASK_SOFT_TIME_LIMIT = CELERY_TASK_TIME_LIMIT - 30
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"planner.gpu.*": {"queue": "gpu"}, "planner.validation_run": {"queue": "validation"}}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.1, "interval_max": 0.1}
# Below the grace of a stop: a plan in hand may end; a harder stop loses nothing, its lease runs out.
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 45.0
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {
    "visibility_timeout": CELERY_TASK_TIME_LIMIT + 300,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "queue_order_strategy": "priority",
    "priority_steps": list(range(10)),
    "global_keyprefix": REDIS_PREFIX,
    "socket_timeout": 30,
    "socket_connect_timeout": 2,
}
# On Redis 0 is the first to be taken: the sweep must not wait behind the very queue it watches over.
CELERY_TASK_DEFAULT_PRIORITY = 5
# A ring that no worker heard in time is not worth hearing: the next one follows.
SWEEP_OPTIONS = {"expires": SWEEP_SECONDS, "priority": 0}
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    SWEEP: {"task": "planner.plans_sweep", "schedule": SWEEP_SECONDS, "options": SWEEP_OPTIONS},
}

# --- plans
PLAN_LEASE_SECONDS = env_int("PLAN_LEASE_SECONDS", default=30, least=1)
PLAN_WAIT_MAX_SECONDS = env_int("PLAN_WAIT_MAX_SECONDS", default=60, least=0)

# --- webhooks
# Networks beside the public internet that a team may name as an endpoint, as 10.1.0.0/16.
WEBHOOK_NETWORKS = env_list("WEBHOOK_NETWORKS", [])

# --- metrics
METRICS_TOKEN = env_secret("METRICS_TOKEN")
"""What a collector sends as its bearer token; without one /metrics is not there."""

# --- validations
VALIDATION_PYTHON = env_text("VALIDATION_PYTHON", sys.executable)
"""Interpreter of an environment with planner/validation/requirements.txt; validations that run a model use it."""
VALIDATION_MEMORY_BYTES = env_int("VALIDATION_MEMORY_MB", default=8192, least=512) * 2**20
VALIDATION_SECONDS = env_int("VALIDATION_SECONDS", default=1800, least=10)
VALIDATION_PROCESSES = env_int("VALIDATION_PROCESSES", default=64, least=4)

# --- API
ESTIMATES_PER_BULK = env_int("ESTIMATES_PER_BULK", default=100, least=1)
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "planner.api.auth.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "planner.api.handler.problem_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
API_REQUESTS_PER_MINUTE = env_int("API_REQUESTS_PER_MINUTE", default=60_000, least=1)
TOKEN_DAYS = env_int("TOKEN_DAYS", default=365, least=1)
REST_KNOX = {
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_PREFIX": "plan_",
    "TOKEN_TTL": timedelta(days=TOKEN_DAYS),
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Shardplan",
    "DESCRIPTION": "Does a training run fit, on how many of which devices, how long does it take, what does it cost?",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v[0-9]+",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["planner.api.schema.complete"],
}
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES

# --- browser safety
HTTPS_ONLY = env_bool("HTTPS_ONLY", default=not EMBEDDED)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS_ONLY else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS_ONLY
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS", [])
BEHIND_TLS_PROXY = env_bool("BEHIND_TLS_PROXY", default=False)
if BEHIND_TLS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
LOGIN_URL = "web:login"
LOGIN_REDIRECT_URL = "web:plans"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# --- static files
STATIC_URL = "/static/"
# `finders` serves straight from the packages, so that the embedded instance needs no collectstatic before it starts.
STATIC_FILES = env_choice(
    "STATIC_FILES", frozenset({"manifest", "finders"}), default="finders" if EMBEDDED else "manifest"
)
WHITENOISE_USE_FINDERS = STATIC_FILES == "finders"
STATIC_ROOT = Path(env_text("STATIC_ROOT", str(BASE_DIR / "staticfiles"))) if STATIC_FILES == "manifest" else None
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_FILES == "manifest"
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# --- import and export of catalog tables
IMPORT_EXPORT_USE_TRANSACTIONS = True

# --- logs
DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True  # our own middleware has judged it
DJANGO_STRUCTLOG_TRUST_UPSTREAM_CORRELATION_ID = False  # any text that a client likes, on every line
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False  # `planner.ops.log_lines` writes the address that a client cannot choose
DJANGO_STRUCTLOG_CELERY_DEFAULT_LOG_LEVEL = logging.DEBUG  # the sweep alone would write two lines every few seconds
LOGGING = logging_config(
    level=env_choice("LOG_LEVEL", frozenset({"debug", "info", "warning", "error"}), default="info").upper(),
    form=env_choice("LOG_FORM", frozenset({"json", "text"}), default="json"),
)
LOGGING_CONFIG = "logging.config.dictConfig"
