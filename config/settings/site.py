"""This site: its addresses, its keys, and what it may reach."""

from config.public_url import read_path
from config.settings.environment import env, kept_secret

HOST = env.str("MUSTER_HOST", default="127.0.0.1")  # address to listen on; beyond loopback, keys must be set explicitly
PORT = env.int("MUSTER_PORT", default=8000)  # port to listen on
# Host names that this site serves.
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])  # behind a proxy: https://muster.example.org
# The public address of this site; links and OAuth callbacks start with it. A proxy may serve the site below its path:
# https://example.org/muster
PUBLIC_URL = env.str("MUSTER_PUBLIC_URL", default=f"http://{HOST}:{PORT}").rstrip("/")
FORCE_SCRIPT_NAME = read_path(PUBLIC_URL)  # Django's name for this path, such as /muster
# error pages with stack traces; never enable it where others can reach the site
DEBUG = env.bool("DEBUG", default=False)

SECRET_KEY = kept_secret("SECRET_KEY")
# Comma-separated, newest first: the first one encrypts, all of them decrypt (`rotate_secrets`).
FIELD_KEYS = kept_secret("MUSTER_FIELD_KEYS").split(",")

# Private hosts or networks that providers and connections may reach, such as a local model server.
PRIVATE_HOSTS_ALLOWED = env.list("MUSTER_PRIVATE_HOSTS", default=["localhost", "127.0.0.1", "::1"] if DEBUG else [])
