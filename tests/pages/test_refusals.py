"""What a person reads where a page cannot be had."""

import pytest
from django.test import Client


@pytest.mark.parametrize("path", ["/nothing/here", "/runs/nothing/"])
def test_what_is_not_there_is_said_in_our_own_words(path, client, db):
    answer = client.get(path)
    assert answer.status_code == 404
    assert b"There is nothing here" in answer.content
    assert b"muster/app.css" in answer.content


def test_a_form_from_another_site_is_refused_in_our_own_words(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    answer = browser.post("/devices/pair")
    assert answer.status_code == 403
    assert b"The page was too old" in answer.content
