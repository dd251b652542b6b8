from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from agents.models import ApiKey, Provider


def create_key(*arguments):
    out, err = StringIO(), StringIO()
    call_command("create_key", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_it_prints_the_key_and_nothing_else(alice):
    out, err = create_key(
        "alice", "--scope", "runs:read", "--scope", "messages:write", "--name", "laptop", "--days", "7"
    )
    assert err == ""
    assert out.count("\n") == 1
    key = ApiKey.find(out.strip())
    assert (key.user, key.scopes, key.name) == (alice, ["runs:read", "messages:write"], "laptop")
    assert key.expires_at is not None


def test_without_a_scope_it_may_do_everything_but_decide(alice):
    key = ApiKey.find(create_key("alice")[0].strip())
    assert key.allows("agents:write")
    assert not key.allows("approvals:decide")


def test_a_missing_user_is_made_without_a_password(db):
    out, err = create_key("zoe")
    assert "zoe" in err
    assert not get_user_model().objects.get(username="zoe").has_usable_password()
    assert ApiKey.find(out.strip())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["alice", "--scope", "agents:fly"], "Unknown scope agents:fly; valid scopes are"),
        (["alice", "--days", "-1"], "--days must lie"),
        (["not a name!"], "not a valid user name"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_made(db, arguments, complaint):
    with pytest.raises(CommandError, match=complaint):
        create_key(*arguments)
    assert not ApiKey.objects.exists()
    assert not get_user_model().objects.exists()


def test_secrets_are_rotated_to_the_newest_key(alice, settings):
    settings.FIELD_KEYS = ["old"]
    provider = Provider.objects.create(name="mine", kind="openai", api_key="sk-1", owner=alice)
    settings.FIELD_KEYS = ["new", "old"]
    call_command("rotate_secrets", stdout=StringIO())
    settings.FIELD_KEYS = ["new"]
    provider.refresh_from_db()
    assert provider.api_key == "sk-1"
