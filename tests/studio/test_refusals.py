"""What a person reads where a page cannot be had."""

import secrets

import pytest
from django.contrib.auth import get_user_model
from django.test import Client


@pytest.mark.parametrize("path", ["/nothing/here", "/runs/nothing/"])
def test_what_is_not_there_is_said_in_our_own_words(path, client, db):
    answer = client.get(path)
    assert answer.status_code == 404
    assert b"This page does not exist" in answer.content
    assert b"muster/app.css" in answer.content


def test_a_form_from_another_site_is_refused_in_our_own_words(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    answer = browser.post("/devices/pair")
    assert answer.status_code == 403
    assert b"The page was too old" in answer.content


def test_a_password_is_not_guessed_without_end(settings, client, db, one_minute):
    """The right one comes too late, and another person is in nobody's way."""
    settings.LOGIN_TRIES, path = 3, "/login/"
    name, other = secrets.token_hex(6), secrets.token_hex(6)
    for person in (name, other):
        get_user_model().objects.create_superuser(person, password="right horse")
    tries = [client.post(path, {"username": name, "password": f"guess {number}"}) for number in range(3)]
    assert all(b"Too many attempts" not in answer.content for answer in tries)
    late = client.post(path, {"username": name, "password": "right horse"})
    assert late.status_code == 200
    assert b"Too many attempts" in late.content
    assert client.post(path, {"username": other, "password": "right horse"}).status_code == 302
