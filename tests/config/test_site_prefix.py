"""Paths of a site that a proxy serves below a path; tests/journeys/test_path_prefix.py tries a whole one."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.urls import set_script_prefix
from twisted.web.http_headers import Headers

from config.public_url import read_path
from plumbing import site_paths
from studio.activity.runs import DOCUMENT_PLACE
from supervisor import body_limits

ROOT = Path(__file__).resolve().parents[2]
STRING = "[\"'`]/"
IN_SCRIPTS = re.compile(
    rf"(?:\b(?:href|src|action): |(?:fetch|reach|assign|EventSource|(?<!this\.)open)\(|location\.href = |null, \"\", ){STRING}"
)
IN_TEMPLATES = re.compile(r"(?:href|src|action|formaction)=[\"']/")


@pytest.fixture
def below(settings):
    settings.FORCE_SCRIPT_NAME, settings.PUBLIC_URL = "/muster", "https://example.org/muster"


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ("/muster/runs/", "/runs/"),
        ("/muster/", "/"),
        ("/muster", "/"),
        ("/runs/", "/runs/"),
        ("/musterix/runs/", "/musterix/runs/"),
        ("/muster/muster/runs/", "/muster/runs/"),
        ("/.well-known/oauth-authorization-server/muster", "/.well-known/oauth-authorization-server"),
        ("/.well-known/oauth-protected-resource/muster/mcp", "/.well-known/oauth-protected-resource/mcp"),
        ("/.well-known/oauth-protected-resource/musterix", "/.well-known/oauth-protected-resource/musterix"),
        ("/.well-known/agent-card.json", "/.well-known/agent-card.json"),
    ],
)
def test_the_path_of_a_request_without_the_prefix(below, asked, seen):
    assert site_paths.remove_site_prefix(asked) == seen


def test_without_a_prefix_every_path_stays(settings):
    settings.FORCE_SCRIPT_NAME = None
    assert site_paths.remove_site_prefix("/muster/runs/") == "/muster/runs/"
    assert site_paths.add_site_prefix("/runs/") == "/runs/"


@pytest.mark.parametrize("prefix", ["/", "/muster/"])
def test_a_route_has_the_same_path_in_a_worker_and_in_a_request(below, prefix):
    set_script_prefix(prefix)
    try:
        assert site_paths.reverse_without_prefix("page:runs") == "/runs/"
        assert site_paths.add_site_prefix(site_paths.reverse_without_prefix("page:runs")) == "/muster/runs/"
    finally:
        set_script_prefix("/")


def test_a_signed_call_below_the_prefix_has_the_room_of_signed_calls(below):
    room = {}
    for path in (b"/api/v1/hooks/x", b"/muster/api/v1/hooks/x", b"/other/api/v1/hooks/x"):
        request = SimpleNamespace(requestHeaders=Headers(), channel=SimpleNamespace(_path=path))
        room[path] = body_limits.limit_of_body(request)
    assert room[b"/muster/api/v1/hooks/x"] == room[b"/api/v1/hooks/x"] > body_limits.STRANGERS_BYTES
    assert room[b"/other/api/v1/hooks/x"] == body_limits.STRANGERS_BYTES


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("https://example.org", None),
        ("https://example.org/", None),
        ("https://example.org/muster/", "/muster"),
        ("https://example.org/a/b", "/a/b"),
    ],
)
def test_the_prefix_is_the_path_of_the_public_address(monkeypatch, address, prefix):
    monkeypatch.setenv("MUSTER_PUBLIC_URL", address)
    site = runpy.run_path(str(ROOT / "config/settings/site.py"))
    assert (site["FORCE_SCRIPT_NAME"], site["PUBLIC_URL"]) == (prefix, address.rstrip("/"))


@pytest.mark.parametrize(
    "address",
    ["muster.example.org", "localhost:8000", "https://example.org/my%20site", "https://example.org//evil",
     "https://example.org/a?b=c", "ftp://example.org", "https://", "https://example.org/a b"],
)  # fmt: skip
def test_an_address_that_cannot_work_is_refused_at_the_start(address):
    with pytest.raises(ImproperlyConfigured, match="MUSTER_PUBLIC_URL"):
        read_path(address)


def test_a_place_in_a_document_is_a_path_of_a_site():
    place = "/collections/a/documents/01a21eb8-8d89-7669-a83a-0d8ebbf3d34b/?at=1"
    assert DOCUMENT_PLACE.fullmatch(place) and DOCUMENT_PLACE.fullmatch(f"/muster/b{place}")
    assert not DOCUMENT_PLACE.fullmatch(f"//evil.example{place}") and not DOCUMENT_PLACE.fullmatch(f"/a//b{place}")


def test_scripts_and_templates_write_no_path_of_this_site_by_hand():
    """They use `sitePath` and `{% url %}`."""
    scripts = [path for path in (ROOT / "static/muster").rglob("*.js") if "vendor" not in path.parts]
    templates = list((ROOT / "templates").rglob("*.html"))
    found = [f"{path.name}: {hit}" for path in scripts for hit in IN_SCRIPTS.findall(path.read_text())]
    found += [f"{path.name}: {hit}" for path in templates for hit in IN_TEMPLATES.findall(path.read_text())]
    assert scripts and templates and found == []
