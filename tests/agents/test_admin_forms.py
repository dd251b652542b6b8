"""Every form of the admin: what is wrong is said at its field, what was typed is kept, nothing is stored."""

from html import unescape

import pytest
from django.contrib import admin
from django.urls import reverse

NO_GRANTS = {"grants-TOTAL_FORMS": 0, "grants-INITIAL_FORMS": 0}
NO_STEPS = {"steps-TOTAL_FORMS": 0, "steps-INITIAL_FORMS": 0}
NO_TESTS = {"tests-TOTAL_FORMS": 0, "tests-INITIAL_FORMS": 0}
SOURCE = "def double(n: int) -> int:\n    return 2 * n\n"
FUNCTION = {
    "name": "double", "source": SOURCE, "effect": "read", "timeout": 30, "memory_limit": 512, "max_concurrency": 0,
    "cache_ttl": 0, "reuse": "never", "min_isolation": "reduced", "safe_mode": "on", **NO_TESTS,
}  # fmt: skip

# Admin, what is sent, and the field that is wrong.
WRONG = [
    ("agents_agent", {"name": "Not a slug", **NO_GRANTS}, "name"),
    ("agents_agent", {"name": "fine", "temperature": "9", **NO_GRANTS}, "temperature"),
    ("agents_agent", {"name": "fine", "max_steps": "0", **NO_GRANTS}, "max_steps"),
    ("agents_agent", {"name": "fine", "input_schema": '{"type": "nonsense"}', **NO_GRANTS}, "input_schema"),
    ("agents_agent", {"name": "fine", "output_schema": "{broken", **NO_GRANTS}, "output_schema"),
    ("agents_provider", {"name": "Not a slug", "kind": "openai"}, "name"),
    ("agents_provider", {"name": "mine", "kind": "openai", "base_url": "no address"}, "base_url"),
    ("agents_provider", {"name": "mine", "kind": "openai", "prices": "[1, "}, "prices"),
    ("agents_chain", {"name": "fine", "timeout": "soon", **NO_GRANTS, **NO_STEPS}, "timeout"),
    ("agents_chain", {"name": "fine", "input_schema": "7", **NO_GRANTS, **NO_STEPS}, "input_schema"),
    ("agents_team", {"name": "", "membership_set-TOTAL_FORMS": 0, "membership_set-INITIAL_FORMS": 0}, "name"),
    ("agents_secret", {"name": "Not a slug", "value": "x", "hosts": "example.com"}, "name"),
    ("agents_apikey", {"name": "ci", "scopes": ["agents:read"], "expires_at_0": "someday"}, "expires_at"),
    ("functions_storedfunction", {**FUNCTION, "name": "Not a slug"}, "name"),
    ("functions_storedfunction", {**FUNCTION, "source": "def double(:\n"}, "source"),
    ("functions_storedfunction", {**FUNCTION, "source": "import os\ndef f():\n    return os.getcwd()\n"}, "source"),
    ("functions_storedfunction", {**FUNCTION, "timeout": "minus one"}, "timeout"),
    ("functions_storedfunction", {**FUNCTION, "input_schema": "{broken"}, "input_schema"),
    ("runs_schedule", {"name": "mornings", "timezone": "Mars/Olympus"}, "timezone"),
    ("runs_schedule", {"name": "mornings", "timezone": "UTC"}, "agent"),
    ("runs_schedule", {"name": "mornings", "timezone": "UTC"}, "crontab"),
    ("runs_schedule", {"name": "Not a slug", "timezone": "UTC"}, "name"),
    ("runs_schedule", {"name": "mornings", "timezone": "UTC", "notify_email": "nobody"}, "notify_email"),
    ("runs_budget", {"period": "day", "max_tokens": "-5"}, "max_tokens"),
    ("runs_trigger", {"name": "Not a slug", "kind": "webhook"}, "name"),
]


@pytest.mark.parametrize(("name", "sent", "wrong"), WRONG, ids=[f"{name}-{wrong}" for name, _, wrong in WRONG])
def test_what_is_wrong_is_said_at_its_field_and_kept(name, sent, wrong, site_admin, signed_in):
    url = reverse(f"admin:{name}_add")
    answer = signed_in(site_admin).post(url, sent)
    assert answer.status_code == 200
    form = answer.context["adminform"].form
    assert form.errors[wrong]
    page = unescape(answer.content.decode())
    assert form.errors[wrong][0] in page
    assert without_spaces(sent.get(wrong, "")) in without_spaces(page)
    model = next(one for one in admin.site._registry if f"{one._meta.app_label}_{one._meta.model_name}" == name)
    assert not model._default_manager.filter(**{"name": sent["name"]} if sent.get("name") else {"pk": None}).exists()


def without_spaces(value):
    """JSON comes back indented."""
    return "".join(str(value).split())
