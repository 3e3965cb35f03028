"""The one settings file. A checkout just runs: SQLite in var/, Redis where REDIS_URL says."""

from __future__ import annotations

from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from console.env import env_bool, env_int, env_list, env_secret, env_str

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env_str("MUXFLOW_VAR_DIR", str(BASE_DIR / "var")))

MUXFLOW_DEMO = env_bool("MUXFLOW_DEMO")
DEBUG = env_bool("MUXFLOW_DEBUG")
PRODUCTION = env_bool("MUXFLOW_PRODUCTION")

SECRET_KEY = env_secret("MUXFLOW_SECRET_KEY", "" if PRODUCTION else "only-for-a-checkout")
# Every node's signing key is derived from it: losing it means enrolling all nodes again.
MASTER_SECRET = env_secret("MUXFLOW_MASTER_SECRET", "" if PRODUCTION else "only-for-a-checkout")
if not SECRET_KEY or not MASTER_SECRET:
    raise ImproperlyConfigured(
        "MUXFLOW_PRODUCTION is on: set MUXFLOW_SECRET_KEY and MUXFLOW_MASTER_SECRET (or …_FILE)"
    )

ALLOWED_HOSTS = env_list("MUXFLOW_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("MUXFLOW_TRUSTED_ORIGINS")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PRODUCTION else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "django_tables2",
    "crispy_forms",
    "crispy_bootstrap5",
    "axes",
    "console",
    "console.accounts",
    "console.audit",
    "console.inventory",
    "console.workloads",
    "console.policies",
    "console.scheduling",
    "console.forecasts",
    "console.evictions",
    "console.faults",
    "console.telemetry",
    "console.history",
    "console.past",
    "console.prometheus",
    "console.replay",
    "console.runs",
    "console.predictor",
    "console.overview",
    *(["console.demo"] if MUXFLOW_DEMO else []),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "console.security.SecurityHeadersMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.security.TextOnlyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.accounts.middleware.SignInRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    *(["console.demo.middleware.FirstViewMiddleware"] if MUXFLOW_DEMO else []),
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.shell.context",
            ],
            "builtins": ["console.templatetags.muxflow"],
        },
    }
]

DATABASES = {
    "default": dj_database_url.parse(
        env_str("DATABASE_URL", f"sqlite:///{VAR_DIR / 'muxflow.sqlite3'}"),
        # A request has a thread of its own here: what it kept open would be lost with the thread.
        conn_max_age=0,
        conn_health_checks=True,
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {
        "min_size": 1,
        "max_size": env_int("MUXFLOW_DB_POOL_SIZE", 16),
        "timeout": 10,
    }
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    VAR_DIR.mkdir(parents=True, exist_ok=True)
    # IMMEDIATE: a writer waits its turn at BEGIN instead of failing in the middle.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env_str("REDIS_URL", "redis://127.0.0.1:6379/0")
REDIS_PREFIX = env_str("MUXFLOW_REDIS_PREFIX", "muxflow")

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign_in"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "console.accounts.views.locked_out"

LANGUAGE_CODE = "en-gb"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = VAR_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "console.assets.vendor.VendorFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "console.assets.storage.HashedStorage"
    },
}

CRISPY_ALLOWED_TEMPLATE_PACKS = "bootstrap5"
CRISPY_TEMPLATE_PACK = "bootstrap5"
DJANGO_TABLES2_TEMPLATE = "components/table.html"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "console.accounts.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["console.parsing.Json"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "console.api.Pages",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "console.api.explain",
    "PAGE_SIZE": 100,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "MuxFlow API",
    "DESCRIPTION": "Inventory, workloads, rounds, evictions and policies of the console.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "console.api.describe_errors",
    ],
}

# Periods of the scheduled work, in seconds. The demo sets them short.
ROUND_PERIOD_S = env_int("MUXFLOW_ROUND_PERIOD_S", 60)
REALLOCATION_PERIOD_S = env_int("MUXFLOW_REALLOCATION_PERIOD_S", 60)
FLEET_SAMPLE_PERIOD_S = env_int("MUXFLOW_FLEET_SAMPLE_PERIOD_S", 10)
METRICS_PERIOD_S = env_int("MUXFLOW_METRICS_PERIOD_S", 15)
HISTORY_PERIOD_S = env_int("MUXFLOW_HISTORY_PERIOD_S", 10)
HISTORY_ROLL_PERIOD_S = env_int("MUXFLOW_HISTORY_ROLL_PERIOD_S", 30)
FORGET_PERIOD_S = env_int("MUXFLOW_FORGET_PERIOD_S", 600)
# Samples of pools: all of them for so long, then one a quarter of an hour.
FLEET_SAMPLES_FINE_DAYS = env_int("MUXFLOW_FLEET_SAMPLES_FINE_DAYS", 14)
FLEET_SAMPLES_KEPT_DAYS = env_int("MUXFLOW_FLEET_SAMPLES_KEPT_DAYS", 730)
# Events of agents that belong to no eviction and no placement.
EVENTS_KEPT_DAYS = env_int("MUXFLOW_EVENTS_KEPT_DAYS", 365)
# The customer's Prometheus: how often it is asked, and the whole header that says who we are.
PROMETHEUS_PERIOD_S = env_int("MUXFLOW_PROMETHEUS_PERIOD_S", 60)
PROMETHEUS_AUTHORIZATION = env_secret("MUXFLOW_PROMETHEUS_AUTHORIZATION")
FORECAST_PERIOD_S = env_int("MUXFLOW_FORECAST_PERIOD_S", 30)
OBSERVE_PERIOD_S = env_int("MUXFLOW_OBSERVE_PERIOD_S", 15)
OBSERVATION_WINDOW_S = env_int("MUXFLOW_OBSERVATION_WINDOW_S", 60)
WATCH_PREDICTOR_PERIOD_S = env_int("MUXFLOW_WATCH_PREDICTOR_PERIOD_S", 300)
RETRAIN_PERIOD_S = env_int("MUXFLOW_RETRAIN_PERIOD_S", 21_600)
LEASE_S = env_int("MUXFLOW_LEASE_S", 600)
# A job's first minutes: warm-up and window of its measurement, how long it waits for a free GPU to
# be measured on, how long that may take, and how long without a fault makes it proven.
PROFILE_SETTLE_S = env_int("MUXFLOW_PROFILE_SETTLE_S", 30)
PROFILE_WINDOW_S = env_int("MUXFLOW_PROFILE_WINDOW_S", 60)
PROFILE_WITHIN_S = env_int("MUXFLOW_PROFILE_WITHIN_S", 600)
PROFILE_LIMIT_S = env_int("MUXFLOW_PROFILE_LIMIT_S", 600)
PROFILE_MAX_AGE_DAYS = env_int("MUXFLOW_PROFILE_MAX_AGE_DAYS", 30)
SERVICE_PROFILE_PERIOD_S = env_int("MUXFLOW_SERVICE_PROFILE_PERIOD_S", 30)
BURN_IN_S = env_int("MUXFLOW_BURN_IN_S", 300)
# How many world seconds pass in one real second: 1 everywhere but in the demo.
WORLD_CLOCK = env_int("MUXFLOW_WORLD_CLOCK", 1)

# Prometheus: what it has to bring, and where a worker or beat shows what it counts (0: nowhere).
METRICS_TOKEN = env_secret("MUXFLOW_METRICS_TOKEN", "")
METRICS_HOST = env_str("MUXFLOW_METRICS_HOST", "127.0.0.1")
METRICS_PORT = env_int("MUXFLOW_METRICS_PORT", 0)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env_str("MUXFLOW_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "axes": {"level": "WARNING"},
    },
}
