"""Passwords, login sessions, and what people without a group may do."""

from django.core.exceptions import ImproperlyConfigured

from config.settings.broker import EMBEDDED_VALKEY
from config.settings.environment import env
from config.settings.site import FORCE_SCRIPT_NAME

AUTH_USER_MODEL = "agents.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",  # of every password
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "agents.http.hashing.RandomSecretHasher",  # of client secrets that the site makes
]
SESSION_ENGINE = "agents.http.sessions"
LOGIN_URL = f"{FORCE_SCRIPT_NAME or ''}/login/"
LOGIN_REDIRECT_URL = f"{FORCE_SCRIPT_NAME or ''}/"

# sign-in attempts per minute for one name from one address; 0 means no limit
LOGIN_TRIES = env.int("MUSTER_LOGIN_TRIES", default=10)
# role on the site of people in none of the four groups: viewer, operator, author or administrator;
# by default author where `make run` starts the servers, and operator elsewhere
DEFAULT_ROLE = env.str("MUSTER_DEFAULT_ROLE", default="author" if EMBEDDED_VALKEY else "operator")
if DEFAULT_ROLE not in ("viewer", "operator", "author", "administrator"):
    raise ImproperlyConfigured("MUSTER_DEFAULT_ROLE must be viewer, operator, author or administrator.")
