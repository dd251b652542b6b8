"""Skills over the API: written, imported, published, compared, shared, exported, deleted."""

import base64
import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import override_settings
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from agents.models import AuditEvent, StoredFile, Tool, ToolGrant
from knowledge.models import Skill, SkillVersion
from tests.knowledge.skills.samples import FILES, SCRIPT, skill_md, tarred, whole, zipped

V1 = "/api/v1/skills/"
JSON = {"content_type": "application/json"}
pytestmark = pytest.mark.django_db


def write(client, **more):
    return client.post(V1, {"text": skill_md(**more)})


def upload(client, content, name="invoices.zip", path=V1, verb="post", **fields):
    body = encode_multipart(BOUNDARY, {"archive": SimpleUploadedFile(name, content), **fields})
    return client.generic(verb.upper(), path, body, content_type=MULTIPART_CONTENT)


def published(client, **more):
    assert write(client, **more).status_code == 201
    answer = client.post(f"{V1}invoices/publish", {})
    assert answer.status_code == 200, answer.json()
    return Skill.objects.get(name="invoices")


def test_a_skill_is_written_published_changed_compared_and_rolled_back(alice_api, alice):
    made = write(alice_api)
    assert (made.status_code, made["Location"]) == (201, f"{V1}invoices")
    assert made.json()["description"].startswith("Checks invoices") and made.json()["untrusted"] is False
    assert alice_api.post(f"{V1}invoices/publish", {"note": "first"}).json()["version"] == 1
    again = alice_api.post(f"{V1}invoices/publish", {}).json()
    assert again["version"] == 1, "equal content is the same version"
    files = [{"path": "scripts/total.py", "text": SCRIPT.decode()}, {"path": "assets/a.bin", "data": "AAEC"}]
    changed = alice_api.put(f"{V1}invoices", {"text": skill_md(body="Be quick."), "files": files}, **JSON)
    assert [one["path"] for one in changed.json()["files"]] == ["assets/a.bin", "scripts/total.py"]
    difference = alice_api.get(f"{V1}invoices/diff?from=1&to=draft").json()
    assert "Be quick." in difference["text"] and "scripts/total.py" in difference["text"]
    assert alice_api.post(f"{V1}invoices/publish", {}).json()["version"] == 2
    assert alice_api.post(f"{V1}invoices/rollback", {"version": 1}).json()["version"] == 1
    assert [one["version"] for one in alice_api.get(f"{V1}invoices/versions/").json()["results"]] == [2, 1]
    assert alice_api.get(f"{V1}invoices/versions/2").json()["front"]["name"] == "invoices"
    verbs = AuditEvent.objects.filter(action__startswith="skill.").order_by("pk").values_list("action", flat=True)
    assert list(verbs) == ["skill.created", "skill.published", "skill.published", "skill.changed", "skill.published",
                           "skill.rolled_back"]  # fmt: skip


def test_the_catalogue_lists_it_with_its_description(alice_api):
    skill = published(alice_api)
    tool = Tool.objects.get(kind="skill")
    assert (tool.name, tool.owner_id, tool.effect) == ("invoices", skill.owner_id, "read")
    assert tool.description.startswith("Checks invoices")


@pytest.mark.parametrize(
    "archive", [zipped(whole()), tarred((f"invoices/{path}", data) for path, data in whole().items())]
)
def test_an_archive_is_imported_and_exported_byte_by_byte(alice_api, archive):
    made = upload(alice_api, archive)
    assert made.status_code == 201, made.json()
    assert made.json()["untrusted"] is True
    exported = alice_api.get(f"{V1}invoices/export")
    with zipfile.ZipFile(io.BytesIO(exported.content)) as found:
        assert {entry: found.read(entry) for entry in found.namelist()} == {
            f"invoices/{path}": content for path, content in whole().items()
        }
    one = alice_api.get(f"{V1}invoices/files/assets/logo.png")
    assert one.content == FILES["assets/logo.png"] and "attachment" in one["Content-Disposition"]
    assert "sandbox" in one["Content-Security-Policy"]
    assert alice_api.get(f"{V1}invoices/files/nothing").status_code == 404
    again = upload(alice_api, exported.content, path=f"{V1}invoices", verb="put")
    assert again.status_code == 200 and again.json()["files"] == made.json()["files"]


def test_a_folder_is_imported_file_by_file(alice_api):
    parts = {path: SimpleUploadedFile(path.rpartition("/")[2], content) for path, content in whole().items()}
    made = alice_api.generic("POST", V1, encode_multipart(BOUNDARY, parts), content_type=MULTIPART_CONTENT)
    assert made.status_code == 201, made.json()
    assert {one["path"] for one in made.json()["files"]} == FILES.keys()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (zipped(whole(), **{"../evil": b"1"}), "bad_path"),
        (zipped({"SKILL.md": b"1", "zeros": bytes(9 << 20)}), "too_large"),
        (zipped({"README.md": b"1"}), "nothing_found"),
        (zipped(whole(), folder="other/"), "invalid_skill"),
        (b"PK\3\4 broken", "broken_archive"),
        (zipped({"SKILL.md": b"\xff\xfe"}), "invalid_skill"),
    ],
)
def test_hostile_archives_are_refused_and_nothing_is_stored(alice_api, content, code):
    answer = upload(alice_api, content)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == code, answer.json()
    assert not Skill.objects.exists() and not StoredFile.objects.exists()


def test_other_fields_of_a_form_are_refused(alice_api):
    assert upload(alice_api, zipped(whole()), publish="yes").json()["error"]["code"] == "unknown_field"
    assert alice_api.post(V1, {"text": skill_md(), "publish": True}).status_code == 422
    assert alice_api.post(V1, {"text": skill_md(), "files": [{"path": "../a", "text": ""}]}).status_code == 422
    assert alice_api.post(V1, {"text": skill_md(), "files": [{"path": "SKILL.md", "text": ""}]}).status_code == 422


def test_only_a_review_removes_the_mark_of_an_import(alice_api):
    upload(alice_api, zipped(whole()))
    assert alice_api.post(f"{V1}invoices/publish", {}).json()["version"] == 1
    tool = Tool.objects.get(kind="skill")
    assert tool.untrusted and "Checks invoices" not in tool.description, "strangers' text is not put into prompts"
    edited = alice_api.patch(f"{V1}invoices", {"text": skill_md(body="Edited.")}, **JSON)
    assert edited.json()["untrusted"] is True, "an edit of one line is no review"
    assert alice_api.post(f"{V1}invoices/publish", {"reviewed": True}).json()["version"] == 2
    tool.refresh_from_db()
    assert not tool.untrusted and tool.description.startswith("Checks invoices")
    assert AuditEvent.objects.filter(action="skill.reviewed").count() == 1
    upload(alice_api, zipped(whole()), path=f"{V1}invoices", verb="put")
    assert alice_api.get(f"{V1}invoices").json()["untrusted"] is True, "the next import is not reviewed"
    alice_api.post(f"{V1}invoices/rollback", {"version": 1})
    tool.refresh_from_db()
    assert tool.untrusted, "a version keeps its mark"


def test_a_stranger_sees_nothing_and_a_team_mate_cannot_change_it(alice_api, bob_api, charlie_api, team):
    published(alice_api)
    for path in ("", "/export", "/versions/", "/files/SKILL.md", "/used-by", "/diff?from=1&to=draft"):
        assert charlie_api.get(f"{V1}invoices{path}").status_code == 404
        assert bob_api.get(f"{V1}invoices{path}").status_code == 404
    assert alice_api.patch(f"{V1}invoices", {"team": team.name}, **JSON).status_code == 200
    assert bob_api.get(f"{V1}invoices/export").status_code == 200
    assert charlie_api.get(f"{V1}invoices").status_code == 404
    for verb, path, body in (("patch", "", {"text": skill_md()}), ("post", "/publish", {}), ("delete", "", {})):
        assert getattr(bob_api, verb)(f"{V1}invoices{path}", body, **JSON).status_code == 403
    assert Tool.objects.get(kind="skill").team == team
    assert write(bob_api).status_code == 201, "names are each person's own"


def test_names_are_free_only_once(alice_api, make_tool, alice):
    make_tool("taken")
    assert write(alice_api, name="taken").json()["error"]["code"] == "name_taken"
    write(alice_api)
    assert write(alice_api).json()["error"]["code"] == "name_taken"
    other = alice_api.patch(f"{V1}invoices", {"text": skill_md(name="other")}, **JSON)
    assert other.json()["error"]["code"] == "other_name"
    assert write(alice_api, name="search").status_code == 422, "a path of the API"


def test_a_skill_in_use_is_not_deleted_and_a_deleted_one_leaves_no_bytes(alice_api, agent, alice):
    upload(alice_api, zipped(whole()))
    alice_api.post(f"{V1}invoices/publish", {})
    grant = ToolGrant.objects.create(agent=agent, tool=Tool.objects.get(kind="skill"), pinned_version=1)
    assert alice_api.get(f"{V1}invoices/used-by").json()["results"] == [
        {"kind": "agent", "name": agent.name, "mode": "allow", "version": 1}
    ]
    refused = alice_api.delete(f"{V1}invoices")
    assert refused.status_code == 409 and agent.name in refused.json()["error"]["hint"]
    grant.delete()
    assert alice_api.delete(f"{V1}invoices").status_code == 204
    assert not SkillVersion.objects.exists() and not StoredFile.objects.exists() and not Tool.objects.exists()


def test_the_archive_of_a_skill_cannot_be_deleted_as_a_file(alice_api):
    upload(alice_api, zipped(whole()))
    refused = alice_api.delete(f"/api/v1/files/{StoredFile.objects.get().pk}")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "in_use"


def test_a_person_who_is_deleted_leaves_no_skill(alice_api, alice):
    upload(alice_api, zipped(whole()))
    alice_api.post(f"{V1}invoices/publish", {})
    alice.api_keys.all().delete()
    alice.delete()
    assert not Skill.objects.exists() and not StoredFile.objects.exists()


@override_settings(FILE_BYTES_PER_PERSON=100)
def test_files_count_against_the_quota_of_the_owner(alice_api):
    answer = upload(alice_api, zipped(whole()))
    assert answer.json()["error"]["code"] == "quota_exceeded" and not Skill.objects.exists()


def test_the_list_costs_the_same_for_one_and_for_many(alice_api, django_assert_max_num_queries):
    for number in range(3):
        write(alice_api, name=f"skill-{number}")
    with django_assert_max_num_queries(8):
        assert len(alice_api.get(V1).json()["results"]) == 3


def test_data_must_be_base64(alice_api):
    good = base64.b64encode(b"1").decode()
    assert alice_api.post(V1, {"text": skill_md(), "files": [{"path": "a", "data": "!"}]}).status_code == 422
    both = {"path": "a", "data": good, "text": "1"}
    assert alice_api.post(V1, {"text": skill_md(), "files": [both]}).status_code == 422


def test_a_put_keeps_the_files_that_are_sent_back_without_their_content(alice_api):
    upload(alice_api, zipped(whole()))
    read = alice_api.get(f"{V1}invoices").json()
    assert alice_api.put(f"{V1}invoices", read, **JSON).json()["files"] == read["files"]
    moved = [{**one, "path": f"other/{one['path']}"} for one in read["files"]]
    answer = alice_api.put(f"{V1}invoices", {**read, "files": [*moved, {"path": "new.txt", "text": "hello"}]}, **JSON)
    assert answer.status_code == 200 and len(answer.json()["files"]) == len(moved) + 1
    assert answer.json()["untrusted"], "an edit does not remove the mark"
    path = f"{V1}invoices/files/{moved[0]['path']}"
    assert alice_api.get(path).content == whole()[read["files"][0]["path"]]
    unknown = [{"path": "a.txt", "sha256": "0" * 64}]
    refused = alice_api.put(f"{V1}invoices", {**read, "files": unknown}, **JSON)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "unknown_file")
    assert alice_api.put(f"{V1}invoices", {**read, "files": [{"path": "a.txt"}]}, **JSON).status_code == 422


def test_a_file_of_another_skill_is_not_reached_by_its_hash(alice_api, bob_api):
    upload(alice_api, zipped(whole()))
    theirs = alice_api.get(f"{V1}invoices").json()["files"]
    write(bob_api)
    assert bob_api.put(f"{V1}invoices", {"text": skill_md(), "files": theirs}, **JSON).status_code == 422
