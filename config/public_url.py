"""Reads the public address of the site when a program starts: one sentence for what cannot work."""

import re
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

PLAIN_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def read_path(url: str) -> str | None:
    """The path below which a proxy serves the site, such as /muster; None without one. Raises ImproperlyConfigured."""
    parts = urlsplit(url)
    is_address = parts.scheme in ("http", "https") and parts.netloc and not parts.query and not parts.fragment
    if not is_address or not PLAIN_PATH.fullmatch(parts.path):
        raise ImproperlyConfigured(
            f"MUSTER_PUBLIC_URL is “{url}”: write it as https://muster.example.org, or with a path of letters, digits "
            "and -._~ as https://example.org/muster."
        )
    return parts.path or None
