"""One person has one name, in whichever spelling it is typed."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, transaction

from agents.models import User
from agents.names import normal_name

pytestmark = pytest.mark.django_db
SPELLINGS = ["alice", "Alice", "ALICE", " alice ", "ａｌｉｃｅ", "alice\u3000"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_a_name_have_one_normal_form(spelling):
    assert normal_name(spelling) == "alice"
    assert normal_name(normal_name(spelling)) == normal_name(spelling)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_person_signs_in_with_any_spelling_of_the_name(alice, client, settings, spelling):
    settings.LOGIN_TRIES = 0  # other tests of this minute sign in too
    alice.set_password("a long enough password")
    alice.save()

    answer = client.post("/login/", {"username": spelling, "password": "a long enough password"})

    assert answer.status_code == 302 and client.session["_auth_user_id"] == str(alice.pk)


def test_guesses_at_spellings_of_one_name_are_counted_together(alice, client, settings):
    settings.LOGIN_TRIES = 3
    alice.set_password("a long enough password")
    alice.save()
    for spelling in ("alice", "Alice", " alice", "ａlice"):
        client.post("/login/", {"username": spelling, "password": "wrong"})

    answer = client.post("/login/", {"username": "alicE", "password": "a long enough password"})

    assert answer.status_code == 200 and "Too many attempts" in answer.content.decode()


@pytest.mark.parametrize("spelling", ["Alice", "ａｌｉｃｅ"])
def test_a_name_that_reads_like_another_is_refused(alice, spelling):
    with pytest.raises(ValidationError, match="reads the same"):
        User(username=spelling, password="x").full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(username=spelling)
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.bulk_create([User(username=spelling)])


def test_a_name_that_reads_like_another_is_refused_in_the_admin(alice, client):
    client.force_login(User.objects.create_superuser("root", password="x"))
    words = {"username": "ALICE", "usable_password": "true", "password1": "long enough 1", "password2": "long enough 1"}

    answer = client.post("/admin/agents/user/add/", words)

    assert answer.status_code == 200 and "already exists" in answer.content.decode()
    assert User.objects.filter(username="ALICE").count() == 0


def test_a_key_is_made_for_the_account_that_a_spelling_means(alice):
    call_command("create_key", "Alice")

    assert User.objects.count() == 1 and alice.api_keys.count() == 1


def test_a_new_name_has_its_own_normal_form(alice):
    alice.username = "Alicia"
    alice.save()
    assert User.objects.find("ALICIA") == alice and User.objects.find("alice") is None

    alice.username = "Al"
    alice.save(update_fields=["username"])
    assert User.objects.find("al") == alice
