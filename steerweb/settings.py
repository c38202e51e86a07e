"""Wiring of the Django project. Everything comes from the environment or from the record of a running `up`."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg.conninfo import conninfo_to_dict

from steerweb import runtime

BASE_DIR = Path(__file__).resolve().parent.parent
PACKAGE_DIR = Path(__file__).resolve().parent
# In a checkout templates and static files stand at the top level; in an installed wheel they lie inside the package.
ASSETS_DIR = BASE_DIR if (BASE_DIR / "templates").is_dir() else PACKAGE_DIR / "assets"

RECORD = runtime.read_record()
DATA_DIR = runtime.data_dir()


def _setting(name: str, recorded: str | None, default: str) -> str:
    return os.environ.get(name) or recorded or default


DATABASE_URL = _setting("DATABASE_URL", RECORD.database_url if RECORD else None, "postgresql:///steerweb")
REDIS_URL = _setting("REDIS_URL", RECORD.redis_url if RECORD else None, "redis://localhost:6379/0")
SECRET_KEY = _setting("STEERWEB_SECRET_KEY", RECORD.secret_key if RECORD else None, "")
STEERWEB_URL = _setting("STEERWEB_URL", RECORD.url if RECORD else None, "")
if not SECRET_KEY:
    # Only commands that need no key get this far (help, makemigrations); web and worker refuse an ephemeral key.
    SECRET_KEY = "ephemeral-" + os.urandom(32).hex()
# Push services of one's own, as origins: without TLS, or in this network. All others have to be public.
STEERWEB_PUSH_SERVICES = frozenset(filter(None, os.environ.get("STEERWEB_PUSH_SERVICES", "").split(",")))

DEBUG = False
ALLOWED_HOSTS = (
    os.environ.get("STEERWEB_ALLOWED_HOSTS", "").split(",") if os.environ.get("STEERWEB_ALLOWED_HOSTS") else ["*"]
)
ROOT_URLCONF = "steerweb.urls"
ASGI_APPLICATION = "steerweb.asgi.application"
AUTH_USER_MODEL = "sessions_app.Person"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "sessions_app",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "sessions_app.people.middleware.PeopleMiddleware",
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ASSETS_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

_conninfo = conninfo_to_dict(DATABASE_URL)
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _conninfo.get("dbname", "steerweb"),
        "USER": _conninfo.get("user", ""),
        "PASSWORD": _conninfo.get("password", ""),
        "HOST": _conninfo.get("host", ""),
        "PORT": str(_conninfo.get("port", "") or ""),
        # Under ASGI every request has a thread of its own, and would leave a kept connection behind in it.
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,  # a server that was restarted has cut the connections of the pool
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 12, "timeout": 5}},
    }
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [ASSETS_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # served straight from the source tree: no collectstatic step on anybody's machine
WHITENOISE_MAX_AGE = 0

LOGIN_URL = "/signin/"
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = 90 * 24 * 3600  # a device stays signed in for 90 days of use
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = urlsplit(STEERWEB_URL).scheme == "https"
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE
CSRF_TRUSTED_ORIGINS = ["{0.scheme}://{0.netloc}".format(urlsplit(STEERWEB_URL))] if STEERWEB_URL else []
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("STEERWEB_LOG", "INFO")},
    "loggers": {
        "django.server": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
    },
}
