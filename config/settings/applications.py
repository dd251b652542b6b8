"""What Django loads: apps, middleware, templates, languages, static files."""

from config.settings.environment import BASE_DIR, DATA_DIR
from config.settings.site import FORCE_SCRIPT_NAME

INSTALLED_APPS = [
    "config.apps.Admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "corsheaders",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "oauth2_provider",
    "agents",
    "functions",
    "connectors",
    "devices",
    "knowledge",
    "registry",
    "runs",
    "studio",
    "gateway",
    "supervisor",
]

MIDDLEWARE = [
    "config.middleware.request_id",
    "config.middleware.observation",
    "config.middleware.valid_headers",
    "config.probes.any_host",
    "config.middleware.rate_headers",
    "corsheaders.middleware.CorsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.content_policy",
    "config.static_files.StaticFiles",
    "config.middleware.Sessions",
    "django.middleware.common.CommonMiddleware",
    "config.middleware.Csrf",
    "config.middleware.Authentication",
    "config.middleware.language",
    "config.middleware.Messages",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "agents.http.idempotency.settlement",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
# the worker process that `manage.py serve` starts
WORKER_APPLICATION = "runs.worker.process.Worker"
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
            ]
        },
    }
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "config.formats"

STATIC_URL = f"{FORCE_SCRIPT_NAME or ''}/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
