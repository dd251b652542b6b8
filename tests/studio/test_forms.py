"""What the forms of all pages share."""

import pytest
from django.urls import reverse

from studio.urls import urlpatterns

VALUES = {"UUIDConverter": "01900000-0000-7000-8000-000000000000", "IntConverter": 1}
NOTHING_STORED = {"login", "logout", "join"}


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda one: one.name)
def test_a_nul_character_is_refused_before_the_database_sees_it(pattern, client, alice):
    client.force_login(alice)
    places = pattern.pattern.converters
    values = {name: VALUES.get(type(one).__name__, "x") for name, one in places.items()}
    answer = client.post(reverse(f"page:{pattern.name}", kwargs=values), {"name": "a\0b", "text": "a\0b"})
    # 403: a page for administrators alone.
    assert answer.status_code in (403, 405, 422) or pattern.name in NOTHING_STORED, answer.status_code
    assert answer.status_code < 500
