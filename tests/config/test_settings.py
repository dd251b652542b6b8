"""The settings are spread over modules; Django reads them from the index, `config/settings/__init__.py`."""

import ast
import runpy
from pathlib import Path

import pytest

from config import settings as index

HOLDS_NONE = ("__init__.py", "removed.py")  # the index, and the settings that are constants now
MODULES = sorted(path for path in Path(index.__file__).parent.glob("*.py") if path.name not in HOLDS_NONE)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_setting_of_a_module_is_in_the_index(module):
    assert [name for name in settings_in(module) if not hasattr(index, name)] == []


def test_every_setting_is_set_in_one_module():
    names = [name for module in MODULES for name in settings_in(module)]

    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_behind_tls_cookies_are_for_https_only(monkeypatch):
    assert run("web")["SECURE_PROXY_SSL_HEADER"] is None

    monkeypatch.setenv("MUSTER_BEHIND_TLS", "1")
    web = run("web")

    assert web["SECURE_PROXY_SSL_HEADER"] == ("HTTP_X_FORWARDED_PROTO", "https")
    assert (web["SESSION_COOKIE_SECURE"], web["CSRF_COOKIE_SECURE"]) == (True, True)
    assert web["SECURE_HSTS_SECONDS"] == 31_536_000


def run(name):
    """The module's names, read anew from the environment of this test."""
    return runpy.run_path(str(next(path for path in MODULES if path.stem == name)))


def settings_in(module):
    """What it assigns itself; imported names do not count."""
    stored = {node.id for node in ast.walk(ast.parse(module.read_text())) if is_stored(node)}
    return sorted(name for name in stored if name.isupper())


def is_stored(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
