"""What a stored function counts as: at least what it may reach can do, and what its author says if that is more."""

import pytest

from agents.models import Tool
from agents.spec import GrantSpec
from registry import factory

pytestmark = pytest.mark.django_db
SOURCE = "def look(a: str) -> str:\n    return a\n"
HOSTS, SECRETS = ["api.example"], ["key"]


@pytest.fixture
def publish(alice_api):
    def make(**fields):
        path = "/api/v1/functions/"
        if Tool.objects.filter(name="look").exists():
            answer = alice_api.patch(f"{path}look", fields, content_type="application/json")
        else:
            answer = alice_api.post(path, {"name": "look", "source": SOURCE, **fields})
        assert answer.status_code in (200, 201), answer.json()
        assert alice_api.post(f"{path}look/publish").status_code == 200
        return Tool.objects.get(name="look")

    return make


@pytest.mark.parametrize(
    ("fields", "effect"),
    [
        ({}, "read"),
        ({"effect": "write"}, "write"),
        ({"allowed_hosts": HOSTS}, "read_out"),
        ({"allowed_hosts": HOSTS, "effect": "read"}, "read_out"),
        ({"allowed_hosts": HOSTS, "secrets": SECRETS}, "sends_out"),
        ({"allowed_hosts": HOSTS, "secrets": SECRETS, "effect": "write"}, "sends_out"),
        ({"allowed_hosts": HOSTS, "secrets": SECRETS, "effect": "destructive"}, "destructive"),
    ],
)
def test_an_author_may_raise_the_effect_and_never_lower_it(publish, fields, effect):
    tool = publish(**fields)
    assert (tool.effect, tool.untrusted) == (effect, bool(fields.get("allowed_hosts")))


def test_a_function_that_reads_out_is_not_repeated_after_a_crash(publish):
    tool = publish(allowed_hosts=HOSTS)
    assert not factory.tool_spec(tool, GrantSpec(tool="look", tool_id=tool.pk)).is_repeatable


def test_a_pinned_version_counts_as_what_that_version_may_reach(publish):
    publish(allowed_hosts=HOSTS, secrets=SECRETS)
    tool = publish(allowed_hosts=[], secrets=[])
    assert (tool.effect, tool.untrusted) == ("read", False)
    pinned = factory.tool_spec(tool, GrantSpec(tool="look", tool_id=tool.pk, pinned_version=1))
    assert (pinned.effect, pinned.untrusted) == ("sends_out", True)
