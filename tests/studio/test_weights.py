"""What a page transfers, its styles, scripts and pictures with it: gzip, without a browser and with an empty cache."""

import gzip
import posixpath
import re
from functools import cache
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from agents.models import Agent, Chain, Provider
from functions import store
from functions.models import StoredFunction

KB = 1024
PLAIN, EDITOR, ADMIN = 120 * KB, 350 * KB, 300 * KB
PAGES = {
    PLAIN: [
        "/", "/start/", "/playground/", "/runs/", "/sessions/", "/approvals/", "/schedules/", "/records/", "/memory/",
        "/records/new/task/", "/files/", "/agents/", "/agents/new/", "/functions/", "/chains/", "/chains/new/",
        "/devices/", "/providers/", "/connections/", "/clients/", "/teams/", "/audit/", "/account/", "/help/",
    ],
    EDITOR: ["/functions/new/", "/functions/weighed/", "/agents/weighed/", "/chains/weighed/"],
    ADMIN: ["/admin/", "/admin/agents/agent/", "/admin/agents/agent/add/", "/admin/functions/storedfunction/add/"],
}  # fmt: skip
IN_PAGE = re.compile(r'(?:href|src)="/static/([^"?#]+\.(?:css|js|svg|png|woff2?))')
IN_SCRIPT = re.compile(
    r'(?:from|import)\s*"(\.[^"]+)"'
)  # what a script imports only when it needs it is not of the first load
IN_STYLE = re.compile(r"""(?:url\(|@import )["']?([^"')?#]+)""")


@pytest.fixture
def administrator(admin_user, signed_in):
    provider = Provider.objects.create(name="offline", kind="offline", owner=admin_user)
    Agent.objects.create(name="weighed", provider=provider, owner=admin_user)
    Chain.objects.create(name="weighed", owner=admin_user)
    source = 'def weighed(text: str) -> str:\n    """Give it back.\n\n    Args:\n        text: A text.\n    """\n    return text\n'
    store.save_function(StoredFunction(owner=admin_user, name="weighed", source=source), user=admin_user)
    return signed_in(admin_user)


def test_no_page_is_heavier_than_its_limit(administrator):
    found = {path: (weight(administrator, path), most) for most, paths in PAGES.items() for path in paths}
    assert {path: pair for path, pair in found.items() if pair[0] > pair[1]} == {}
    assert found["/"][0] > 5 * KB and found["/functions/new/"][0] > 100 * KB, "styles and the editor were counted"


def test_the_chat_works_before_what_formats_its_messages_has_come(administrator):
    """`markdown.js` imports its parser after the page has loaded, colours and formulas when it meets the first."""
    files = files_of(administrator, "/playground/")
    assert "muster/markdown.js" in files
    assert not files & {f"muster/vendor/{name}.js" for name in ("markdown", "highlight", "temml")}


def test_the_chat_asks_for_all_its_scripts_at_once(administrator):
    html = administrator.get("/playground/").content.decode()
    preloaded = set(re.findall(r'rel="modulepreload" href="/static/([^"]+)"', html))
    scripts = {name for name in files_of(administrator, "/playground/") if name.endswith(".js")}
    assert {name for name in scripts if name not in preloaded} <= {
        f"muster/{name}.js" for name in ("badge", "status", "history", "agentpicker")
    }


def weight(browser, path):
    answer = browser.get(path)
    return len(gzip.compress(answer.content)) + sum(size_of(name) for name in files_of(browser, path))


def files_of(browser, path):
    answer = browser.get(path)
    assert answer.status_code == 200, path
    files, waiting = set(), IN_PAGE.findall(answer.content.decode())
    while waiting:
        name = waiting.pop()
        if name not in files:
            files.add(name)
            waiting += needed_by(name)
    return files


@cache
def size_of(name):
    return len(gzip.compress(read(name)))


@cache
def needed_by(name):
    """Modules that a script imports, files that a style names."""
    pattern = IN_SCRIPT if name.endswith(".js") else IN_STYLE if name.endswith(".css") else None
    named = pattern.findall(read(name).decode()) if pattern else []
    here = posixpath.dirname(name)
    beside = [posixpath.normpath(posixpath.join(here, one)) for one in named if not one.startswith(("data:", "#"))]
    return [one for one in beside if finders.find(one)]


def read(name):
    place = finders.find(name)
    assert place, f"a page names /static/{name}, which is not there"
    return Path(place).read_bytes()
