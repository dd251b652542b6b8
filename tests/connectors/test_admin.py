import pytest

from agents.models import Tool
from connectors.models import Connection, DeliveredItem, RemoteTool
from connectors.remote import Offered, take_offers

LIST = "/admin/connectors/{}/"


@pytest.fixture
def rows(alice, connect):
    account = connect(alice, "gmail", access_token="hush-hush")
    DeliveredItem.objects.create(connection=account, external_id="message-1", stream="s")
    server = Connection.objects.create(owner=alice, name="weather", provider="mcp", base_url="https://example.com/mcp")
    take_offers(server, [Offered("forecast", "", {"type": "object"}, None, "read", {})], kind="mcp")
    return account


@pytest.mark.parametrize("page", ["connection", "remotetool", "delivereditem"])
def test_people_see_their_own_connections_in_the_admin(alice, charlie, rows, staff, signed_in, page):
    words = {"connection": "gmail", "remotetool": "forecast", "delivereditem": "message-1"}
    mine = signed_in(staff(alice)).get(LIST.format(page))
    assert mine.status_code == 200 and words[page] in mine.content.decode()
    others = signed_in(staff(charlie)).get(LIST.format(page))
    assert others.status_code == 200 and f">{words[page]}<" not in others.content.decode()


def test_no_page_shows_a_token(alice, rows, staff, signed_in):
    page = signed_in(staff(alice)).get(f"{LIST.format('connection')}{rows.pk}/change/")
    assert page.status_code == 200 and "hush-hush" not in page.content.decode()


def test_a_definition_is_approved_by_who_may_change_the_connection(alice, charlie, rows, staff, signed_in):
    row = RemoteTool.objects.get()
    body = {"action": "approve_selected", "_selected_action": [row.pk]}
    signed_in(staff(charlie)).post(LIST.format("remotetool"), body)
    row.refresh_from_db()
    assert row.approved_hash == ""
    signed_in(staff(alice)).post(LIST.format("remotetool"), body)
    row.refresh_from_db()
    assert row.approved_hash == row.offered_hash and Tool.objects.get().effect == "read"
