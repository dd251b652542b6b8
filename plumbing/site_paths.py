"""Paths of this site, also where a proxy serves it below a path (`MUSTER_PUBLIC_URL=https://example.org/muster`).

`django.urls.reverse` knows the prefix only while it answers a request; what is written elsewhere, by workers and
streams, uses these functions.
"""

from django.conf import settings
from django.urls import get_script_prefix, reverse

WELL_KNOWN = "/.well-known/"


def add_site_prefix(path: str) -> str:
    """A path as browsers ask for it: `/muster/runs/7/` for `/runs/7/`."""
    return (settings.FORCE_SCRIPT_NAME or "") + path


def reverse_without_prefix(name: str, *args: object) -> str:
    """The path of this route as the site itself sees it: `/runs/7/`, wherever the caller runs."""
    path = reverse(name, args=args)
    return "/" + path[len(get_script_prefix()) :]


def remove_site_prefix(path: str) -> str:
    """The path of a request as the site's routes have it, whether the proxy left the prefix or not."""
    prefix = settings.FORCE_SCRIPT_NAME or ""
    if not prefix:
        return path
    if path == prefix:
        return "/"
    if path.startswith(prefix + "/"):
        return path.removeprefix(prefix)
    if path.startswith(WELL_KNOWN):
        name, _, rest = path.removeprefix(WELL_KNOWN).partition("/")
        within = "/" + rest
        if within == prefix or within.startswith(prefix + "/"):
            return WELL_KNOWN + name + within.removeprefix(prefix)
    return path
