"""The page of one's own account."""

import pytest

from agents.models import AuditEvent, Secret

PASSWORD = "an-old-long-word-7"
NEW = "a-much-longer-word-9"
SECRET = {"name": "weather", "value": "s3cret-value", "hosts": "api.example.com, b.example.com", "header": "X-Key"}


def change(browser, old, new=NEW, again=NEW):
    return browser.post("/account/password", {"old_password": old, "new_password1": new, "new_password2": again})


@pytest.fixture
def alice(alice):
    alice.set_password(PASSWORD)
    alice.save()
    return alice


def test_the_password_is_changed_and_other_browsers_are_signed_out(signed_in, alice):
    here, there = signed_in(alice), signed_in(alice)
    assert change(here, PASSWORD).status_code == 302
    alice.refresh_from_db()
    assert alice.check_password(NEW)
    assert here.get("/account/").status_code == 200 and there.get("/account/").status_code == 302
    assert AuditEvent.objects.get(action="user.password_changed").actor == alice


@pytest.mark.parametrize(
    ("old", "new", "again", "said"),
    [
        ("wrong", NEW, NEW, "entered incorrectly"),
        (PASSWORD, NEW, "other", "match"),
        (PASSWORD, "123", "123", "too short"),
    ],
)
def test_a_refused_password_says_why_and_changes_nothing(signed_in, alice, old, new, again, said):
    page = change(signed_in(alice), old, new, again)
    assert said in page.content.decode().replace("&#x27;", "'").replace("’", "'")
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_guessing_the_old_password_is_limited_as_signing_in_is(signed_in, alice, settings, one_minute):
    settings.LOGIN_TRIES = 2
    browser = signed_in(alice)
    for _ in range(3):
        change(browser, "wrong")
    assert "Too many attempts" in change(browser, PASSWORD).content.decode()
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_a_secret_is_created_replaced_and_deleted_and_never_shown(signed_in, alice):
    browser = signed_in(alice)
    assert browser.post("/account/secrets", {**SECRET, "template": "{secret}"}).status_code == 302
    secret = Secret.objects.get()
    assert (secret.owner, secret.value, secret.hosts) == (alice, "s3cret-value", ["api.example.com", "b.example.com"])
    page = browser.get("/account/").content.decode()
    assert "weather" in page and "s3cret-value" not in page
    browser.post("/account/secrets", {**SECRET, "value": "other", "template": "{secret}"})
    secret.refresh_from_db()
    assert secret.value == "other" and Secret.objects.count() == 1
    assert browser.post(f"/account/secrets/{secret.pk}/delete").status_code == 302
    assert not Secret.objects.exists()
    actions = AuditEvent.objects.filter(subject_kind="secret").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["secret.created", "secret.changed", "secret.deleted"]


def test_a_refused_secret_says_why_and_does_not_repeat_its_value(signed_in, alice):
    page = signed_in(alice).post("/account/secrets", {**SECRET, "name": "Not A Name", "template": "{secret}"})
    said = page.content.decode()
    assert page.status_code == 200 and "lower-case" in said and "s3cret-value" not in said
    assert not Secret.objects.exists()


def test_nobody_reaches_anothers_secret_or_account(signed_in, client, alice, bob, charlie, team):
    secret = Secret.objects.create(owner=alice, team=team, name="weather", value="x")
    for person in (bob, charlie):
        browser = signed_in(person)
        assert "weather" not in browser.get("/account/").content.decode()
        assert browser.post(f"/account/secrets/{secret.pk}/delete").status_code == 404
    assert client.post(f"/account/secrets/{secret.pk}/delete").status_code == 302
    assert client.get("/account/")["Location"].startswith("/login/")
    assert Secret.objects.exists()


def test_an_email_address_is_checked_and_kept(signed_in, alice):
    browser = signed_in(alice)
    assert "valid email" in browser.post("/account/email", {"email": "nonsense"}).content.decode()
    assert browser.post("/account/email", {"email": "alice@example.com"}).status_code == 302
    alice.refresh_from_db()
    assert alice.email == "alice@example.com"
