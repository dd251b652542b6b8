"""A person searches a collection, and their own machine answers with excerpts of its files."""

import secrets

import pytest

from tests.devices.machine import Machine
from tests.live import wait_for

from .browser import picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]


@pytest.fixture
def shelf():
    return f"rules-{secrets.token_hex(3)}"


@pytest.fixture
def machine(live, tmp_path, shelf):
    """Removed at the end: tools of a person go to the device that they paired last."""
    made = Machine(tmp_path, live.url, live.http, name=f"laptop-{shelf}")
    yield made
    live.http.post(f"/api/v1/devices/{made.id}/revoke", json={}).raise_for_status()


def test_a_search_has_excerpts_of_a_file_that_stays_on_the_device(open_page, live, shelf, machine):
    live.http.post("/api/v1/collections/", json={"name": shelf}).raise_for_status()
    (machine.folder / "contracts").mkdir()
    (machine.folder / "contracts" / "bikes.txt").write_text("Contract\n\nRented bicycles go back on Friday.\n")
    machine.start()
    try:
        page = open_page(f"/collections/{shelf}/")
        page.get_by_label("Shared folder").select_option(label=f"docs (laptop-{shelf})")
        page.get_by_label("Folder in it").fill("contracts")
        page.get_by_role("button", name="Add folder").click()
        page.locator("li", has_text="docs/contracts").wait_for()
        asked = {"query": "When do rented bicycles go back?"}
        found = wait_for(lambda: results(live, shelf, asked), within=60)
        assert found[0]["document"] == {
            "id": "", "name": "docs/contracts/bikes.txt", "untrusted": True, "device": f"laptop-{shelf}",
        }  # fmt: skip
        assert found[0]["place"]["line"] == 3 and "Friday" in found[0]["text"]
        page = open_page(f"/collections/{shelf}/?query=rented+bicycles")
        page.get_by_text("Rented bicycles go back on Friday.").wait_for()
        assert serious(page) == []
        picture(page, "collection-folders")
    finally:
        machine.stop()
    wait_for(lambda: not machine.is_online(), within=60)
    answer = live.http.post(f"/api/v1/collections/{shelf}/search", json=asked).json()
    assert answer["results"] == [] and answer["not_searched"][0]["device"] == f"laptop-{shelf}"


def results(live, shelf, asked):
    return live.http.post(f"/api/v1/collections/{shelf}/search", json=asked).json()["results"]
