"""The server for e-mail."""

import environ
from django.core.exceptions import ImproperlyConfigured

from config.settings.environment import env

# Server for e-mail: smtp+tls://user:password@mail.example.org:587, or smtp+ssl://… ; empty: no e-mail is sent
EMAIL_URL = env.str("MUSTER_EMAIL_URL", default="")
EMAIL_IS_ON = bool(EMAIL_URL)
try:
    server = environ.Env.email_url_config(EMAIL_URL or "dummymail://")
except (KeyError, ValueError):
    raise ImproperlyConfigured("MUSTER_EMAIL_URL cannot be read: write smtp+tls://user:password@mail.example.org:587.")
EMAIL_BACKEND = server["EMAIL_BACKEND"]
EMAIL_HOST = server["EMAIL_HOST"] or "localhost"
EMAIL_PORT = server["EMAIL_PORT"] or 25
EMAIL_HOST_USER = server["EMAIL_HOST_USER"] or ""
EMAIL_HOST_PASSWORD = server["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS = server.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = server.get("EMAIL_USE_SSL", False)
EMAIL_FILE_PATH = server["EMAIL_FILE_PATH"]
EMAIL_TIMEOUT = 10
# address that e-mail is sent from
EMAIL_FROM = DEFAULT_FROM_EMAIL = env.str("MUSTER_EMAIL_FROM", default="muster@localhost")
