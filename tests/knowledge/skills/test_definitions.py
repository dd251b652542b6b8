"""Skills as definition files."""

import pytest
import yaml

from agents.definitions import files
from agents.exceptions import Invalid
from agents.models import StoredFile, Tool, ToolGrant
from knowledge.models import Skill
from knowledge.skills import store
from tests.knowledge.skills.samples import FILES, skill_md

pytestmark = pytest.mark.django_db
ODD = {"odd/crlf.txt": b"a\r\nb\r\n", "odd/empty.txt": b"", "odd/bom.txt": b"\xef\xbb\xbfa", "odd/end.txt": b" a \n\n\t",
       "odd/nel.txt": "a\x85b\u2028c".encode()}  # fmt: skip


def apply(text, owner, actor=None):
    changes = files.plan_changes(files.read_definitions(text), owner=owner)
    files.apply_changes(changes, owner=owner, actor=actor or owner)
    return [(change.verb, change.fields) for change in changes]


@pytest.fixture
def skill(alice):
    made = store.save_skill(Skill(owner=alice), skill_md(), FILES | ODD, user=alice, untrusted=True)
    store.publish_skill(made, user=alice, reviewed=True)
    return made


def test_a_skill_comes_back_byte_by_byte(skill, alice, bob):
    exported = files.dump_definitions(files.export_definitions(alice, only="skill"))
    assert apply(exported, bob) == [("create", [])]
    copy = Skill.objects.get(owner=bob)
    assert (copy.text, copy.files, copy.untrusted) == (skill.text, skill.files, False)
    assert copy.published.number == 1 and Tool.objects.get(owner=bob).kind == "skill"
    assert apply(exported, bob) == [("same", [])]
    definition = yaml.safe_load(exported)
    assert definition["files"]["scripts/total.py"] == FILES["scripts/total.py"].decode(), "texts are readable"


def test_the_published_version_is_under_live(skill, alice, bob):
    store.save_skill(skill, skill_md(body="Changed."), {"a.txt": b"a"}, user=alice, untrusted=False)
    exported = files.dump_definitions(files.export_definitions(alice, only="skill"))
    assert "Changed." not in yaml.safe_load(exported)["live"]["text"]
    apply(exported, bob)
    copy = Skill.objects.get(owner=bob)
    assert "Changed." in copy.text and copy.paths == ["a.txt"]
    assert set(copy.published.paths) == set(FILES | ODD) and "Changed." not in copy.published.text
    assert apply(exported, bob) == [("same", [])]


def test_applying_is_no_review(alice):
    text = files.dump_definitions([{"kind": "skill", "name": "invoices", "text": skill_md(), "untrusted": True}])
    apply(text, alice)
    assert Skill.objects.get().untrusted and Tool.objects.get().untrusted
    reviewed = files.dump_definitions([{"kind": "skill", "name": "invoices", "text": skill_md(body="Other.")}])
    apply(reviewed, alice)
    assert Skill.objects.get().untrusted and Tool.objects.get().untrusted
    assert apply(reviewed, alice) == [("same", [])]


def test_a_draft_is_not_published_and_an_agent_comes_after_its_skill(alice, offline):
    agent = {"kind": "agent", "name": "aide", "provider": offline.name, "grants": ["invoices"]}
    draft = {"kind": "skill", "name": "notes", "text": skill_md(name="notes"), "draft": True}
    apply(files.dump_definitions([agent, {"kind": "skill", "name": "invoices", "text": skill_md()}, draft]), alice)
    assert [grant.tool.name for grant in ToolGrant.objects.filter(agent__name="aide")] == ["invoices"]
    assert Skill.objects.get(name="notes").published is None and not Tool.objects.filter(name="notes").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": skill_md(name="other")}, {"text": "no front matter"}, {"text": 1}, {},
        {"text": skill_md(), "files": ["a"]}, {"text": skill_md(), "files": {"../a": "1"}},
        {"text": skill_md(), "files": {"SKILL.md": "1"}}, {"text": skill_md(), "files": {"a": 1}},
        {"text": skill_md(), "files": {"a": {"base64": "!"}}}, {"text": skill_md(), "reviewed": True},
        {"text": skill_md(), "live": {"text": skill_md(), "files": {"a": []}}},
        {"text": skill_md(), "live": {"text": skill_md(), "more": 1}},
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_nothing_is_stored(alice, wrong):
    with pytest.raises(Invalid):
        apply(files.dump_definitions([{"kind": "skill", "name": "invoices", **wrong}]), alice)
    assert not Skill.objects.exists() and not StoredFile.objects.exists()


def test_over_rest_it_needs_the_scope_of_skills(api, alice, skill):
    exported = api(alice, "skills:read").get("/api/v1/definitions/?kind=skill")
    assert exported.status_code == 200 and "name: invoices" in exported.json()["yaml"]
    body = {"yaml": exported.json()["yaml"]}
    assert api(alice, "functions:write").post("/api/v1/definitions/apply", body).status_code == 403
    assert api(alice, "skills:write").post("/api/v1/definitions/apply", body).status_code == 200


def test_an_export_over_rest_is_bounded(api, alice, skill, monkeypatch):
    monkeypatch.setattr("runs.api.definitions.MOST_BYTES", 100)
    answer = api(alice, "*").get("/api/v1/definitions/")
    assert answer.json()["error"]["code"] == "too_large" and "archive" in answer.json()["error"]["hint"]
    assert api(alice, "*").get("/api/v1/definitions/?kind=agent").status_code == 200
