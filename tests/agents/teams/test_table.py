"""Every cell of the table of rights, through the API. The table is in table.py; docs/security.md shows the same."""

from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from agents.models import (
    Agent,
    Membership,
    Team,
)
from tests.agents.teams.kinds import KINDS, Deed, World
from tests.agents.teams.table import EVERYBODY, MEMBERS, PEOPLE, TABLE, USERS, VERBS, people_of
from tests.people import make_person


@pytest.fixture
def world(db, offline, api, site_admin, settings):
    settings.SHARED_LINKS = True
    people = {name: make_person(name) for name in PEOPLE if name != "superuser"} | {"superuser": site_admin}
    team, second = Team.objects.create(name="team"), Team.objects.create(name="second")
    for role in ("administrator", "author", "operator", "viewer"):
        Membership.objects.create(team=team, user=people[role], role=role)
    Membership.objects.create(team=team, user=people["owner"], role="author")
    for person in people.values():
        Membership.objects.create(team=second, user=person, role="author")  # so that only the row's rule decides
        Agent.objects.create(name="mine", owner=person, provider=offline).publish(author=person)
    return World(people, team, offline, api)


def test_each_kind_of_the_table_is_tried():
    assert KINDS.keys() == TABLE.keys()


@pytest.mark.parametrize("kind", TABLE)
def test_who_may_do_what(world, kind):
    """Each verb and each person in turn, from the same beginning: what one has done is undone before the next tries."""
    wrong = []
    for verb in [verb for verb, who in TABLE[kind].items() if who]:
        with transaction.atomic():
            world.made.clear()
            deed: Deed = KINDS[kind](world)[verb]
            for person, may in people_of(kind, verb):
                if told := attempt(world, deed, person, may):
                    wrong.append(f"{verb}: {told}")
            transaction.set_rollback(True)
    assert not wrong, "\n".join(wrong)


def attempt(world: World, deed: Deed, person: str, may: bool) -> str:
    """Why this cell is not as the table says; empty when it is."""
    with transaction.atomic():
        try:
            return refuted(world, deed, person, may)
        finally:
            transaction.set_rollback(True)


def refuted(world: World, deed: Deed, person: str, may: bool) -> str:
    who = world.people[person]
    if callable(deed):
        return "" if deed(who) is may else f"{person}: it is {not may}"
    method, path, body = deed
    answer = getattr(world.api(who), method)(path, *body_of(body), headers={"Prefer": "respond-async"})
    is_right = answer.status_code < 400 if may else answer.status_code in (403, 404, 422)
    return "" if is_right else f"{person}: {answer.status_code} {answer.content.decode()[:300]}"


def body_of(body: Any) -> list[Any]:
    return [] if body is None else [body, "application/json"]


def test_the_documentation_shows_the_same_table():
    lines = (settings.BASE_DIR / "docs" / "security.md").read_text().splitlines()
    shown = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("| ")]
    for kind, verbs in TABLE.items():
        assert (kind, *(in_words(verbs.get(verb)) for verb in VERBS)) in shown


def in_words(allowed: str | None) -> str:
    if allowed is None:
        return "–"
    return {MEMBERS: "members", USERS: "members except viewers", EVERYBODY: "everybody with the address"}.get(
        allowed, ", ".join(allowed.split())
    )
