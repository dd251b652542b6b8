"""Agents, chains and functions have a name for people beside the technical one, in any language."""

import pytest

from agents.names import make_technical_name

SOURCE = 'def shipping(weight: float) -> float:\n    """What a parcel costs.\n\n    Args:\n        weight: In kg.\n    """\n    return weight\n'
BODIES = {"agents": {"provider": "offline"}, "chains": {}, "functions": {"source": SOURCE}}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Invoices", "invoices"),
        ("Rechnungen für Köln (Süd)", "rechnungen-fuer-koeln-sued"),
        ("Crème brûlée n° 5", "creme-brulee-n-5"),
        ("Łódź", "lodz"),
        ("Счета и письма", "scheta-i-pisma"),
        ("Σοφία", "sofia"),
        ("ＡＢＣ", "abc"),
        ("请求", ""),
        ("x" * 100, "x" * 64),
    ],
)
def test_a_technical_name_is_made_of_any_letters_that_can_be_transliterated(text, name):
    assert make_technical_name(text) == name


@pytest.mark.parametrize("kind", BODIES)
def test_a_new_row_gets_its_name_from_the_display_name(kind, alice_api, offline):
    body = {**BODIES[kind], "display_name": "Rechnungen für Köln", "icon": "🧾"}

    first = alice_api.post(f"/api/v1/{kind}/", body).json()
    second = alice_api.post(f"/api/v1/{kind}/", body).json()

    separator = "_" if kind == "functions" else "-"
    name = separator.join(["rechnungen", "fuer", "koeln"])
    assert (first["name"], first["display_name"], first["icon"]) == (name, "Rechnungen für Köln", "🧾")
    assert second["name"] == f"{name}{separator}2"


def test_a_name_in_letters_that_nobody_transliterates_is_that_of_its_kind(alice_api, offline):
    answer = alice_api.post("/api/v1/agents/", {"provider": "offline", "display_name": "请求"})

    assert answer.json()["name"] == "agent"


def test_a_name_of_ones_own_choice_stays(alice_api, offline):
    body = {"provider": "offline", "display_name": "Rechnungen", "name": "invoices"}

    assert alice_api.post("/api/v1/agents/", body).json()["name"] == "invoices"


@pytest.mark.parametrize("body", [{}, {"display_name": ""}, {"display_name": "  "}, {"display_name": 7}])
def test_a_row_without_any_name_is_refused(body, alice_api, offline):
    answer = alice_api.post("/api/v1/agents/", {"provider": "offline", **body})

    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["field"] == "name"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("display_name", "two\nlines"), ("display_name", "\u202egnp.exe"), ("display_name", "n" * 101),
        ("icon", "words of it"), ("icon", "abc"), ("icon", "\u0007"), ("icon", "<b>"),
    ],
)  # fmt: skip
def test_a_name_that_deceives_and_an_icon_that_is_none_are_refused(field, value, alice_api, offline):
    answer = alice_api.post("/api/v1/agents/", {"provider": "offline", "name": "some", field: value})

    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["field"] == field


def test_another_display_name_is_no_other_version(alice_api, offline):
    alice_api.post("/api/v1/agents/", {"provider": "offline", "name": "some"})
    first = alice_api.post("/api/v1/agents/some/publish", {}).json()
    alice_api.patch("/api/v1/agents/some", {"display_name": "Some other", "icon": "S"})

    again = alice_api.post("/api/v1/agents/some/publish", {}).json()
    assert (again["version"], first["version"]) == (1, 1)


def test_a_team_mate_reads_the_display_name_and_a_stranger_nothing(alice_api, bob_api, charlie_api, offline, team):
    body = {"provider": "offline", "name": "some", "display_name": "Some other", "team": team.name}
    alice_api.post("/api/v1/agents/", body)

    assert bob_api.get("/api/v1/agents/some").json()["display_name"] == "Some other"
    assert charlie_api.get("/api/v1/agents/some").status_code == 404
