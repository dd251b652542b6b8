"""The pages of connections: the list and the page of one say the same of its state."""

import pytest

from agents.models import Preference
from connectors.models import Connection

pytestmark = pytest.mark.django_db
STATES = {"ok": "funktioniert", "broken": "neu verbinden", "expiring": "neu verbinden", "unknown": "nie verwendet"}


@pytest.mark.parametrize(("health", "wanted"), STATES.items())
def test_the_state_of_a_connection_is_in_the_persons_language(alice, signed_in, health, wanted):
    Preference.objects.create(user=alice, language="de")
    row = Connection.objects.create(
        owner=alice, name="notes", provider="mcp", base_url="https://mcp.example.org", health=health
    )
    browser = signed_in(alice)
    listed = browser.get("/connections/").content.decode()
    assert f'class="pill {health}"' in listed and wanted in listed
    assert wanted in browser.get(f"/connections/{row.pk}/").content.decode()
