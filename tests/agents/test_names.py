"""One person has one name, however it is typed."""

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from agents.names import normal_name


@pytest.mark.parametrize("typed", ["bob", "Bob", " bob ", "\uff42ob", "BOB\u3000"])
def test_spellings_of_one_name(typed):
    assert normal_name(typed) == "bob"


@pytest.mark.django_db
def test_other_spellings_are_no_further_tries(client, settings):
    settings.LOGIN_TRIES = 2
    get_user_model().objects.create_user("zoe", password="right")
    spellings = ["zoe", "zoe ", "\uff5aoe"]
    pages = [client.post("/login/", {"username": name, "password": "wrong"}) for name in spellings]
    assert "Too many attempts" in pages[-1].content.decode()


@pytest.mark.django_db
def test_a_look_alike_gets_no_account():
    get_user_model().objects.create_user("zoe")
    with pytest.raises(CommandError, match="looks like"):
        call_command("create_key", "Zoe")
