"""A function of a script of a skill: a draft, with the rights of functions."""

import pytest

from functions.models import StoredFunction
from knowledge.models import Skill
from knowledge.skills import store
from tests.knowledge.skills.samples import FILES, skill_md

pytestmark = pytest.mark.django_db
PATH = "/api/v1/skills/invoices/functions"


@pytest.fixture
def skill(alice, team):
    files = {**FILES, "scripts/delete.py": b"import os\n\ndef delete(path: str):\n    os.remove(path)\n"}
    return store.save_skill(Skill(owner=alice, team=team), skill_md(), files, user=alice, untrusted=True)


def test_a_script_becomes_a_draft_of_the_person_who_asks(skill, bob_api, bob):
    made = bob_api.post(PATH, {"path": "scripts/total.py"})
    assert (made.status_code, made["Location"]) == (201, "/api/v1/functions/total"), made.json()
    function = StoredFunction.objects.get()
    assert (function.owner, function.published, function.source) == (bob, None, FILES["scripts/total.py"].decode())


def test_what_functions_may_not_do_is_refused_with_its_line(skill, alice_api):
    refused = alice_api.post(PATH, {"path": "scripts/delete.py"})
    assert refused.status_code == 422 and refused.json()["error"]["details"][0]["line"] == 1
    assert not StoredFunction.objects.exists()


def test_strangers_other_files_and_keys_without_the_scope_are_refused(skill, alice, alice_api, charlie_api, api):
    body = {"path": "scripts/total.py"}
    assert charlie_api.post(PATH, body).status_code == 404
    assert api(alice, "skills:write").post(PATH, body).status_code == 403
    assert alice_api.post(PATH, {"path": "references/terms.md"}).status_code == 404
    assert alice_api.post(PATH, {**body, "publish": True}).status_code == 422
    assert alice_api.post(PATH, {**body, "name": "Not A Name"}).status_code == 422
