"""Nobody holds the lock for writing with work that takes long, whatever they send: what is slow comes before the first
write. tests/transactions.py fails each test here in which a transaction contains such work.
"""

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from agents.http import viewsets
from agents.models import Agent
from knowledge.models import Skill
from runs.models import Session
from runs.models import session as sessions
from runs.queue import emptying

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = "application/json"
SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
LARGE_SCHEMA = {"type": "object", "properties": {f"p{number}": {"pattern": "^(a|b)*$"} for number in range(400)}}
SKILL = "---\nname: minutes\ndescription: Writes minutes.\nmetadata: {a: b}\n---\nBe brief.\n"
TEMPLATE = "{% for a in b %}{{ a | upper }}{% endfor %}"
# kind, a new row, changes of it that are checked by a process of the sandbox or store bytes
ROWS = [
    ("functions", {"name": "add", "source": SOURCE}, {"source": SOURCE + "# more\n"}),
    ("functions", {"name": "add", "source": SOURCE}, {"input_schema": LARGE_SCHEMA}),
    ("agents", {"name": "helper", "provider": "offline", "system_prompt": "Hi."}, {"output_schema": LARGE_SCHEMA}),
    ("agents", {"name": "helper", "provider": "offline", "system_prompt": "Hi."}, {"system_prompt": TEMPLATE}),
    ("skills", {"text": SKILL}, {"text": SKILL + "Always.\n"}),
    ("webhooks", {"url": "https://93.184.216.34/told"}, {"url": "https://muster.invalid/other"}),
    ("secrets", {"name": "token", "value": "s3cret", "hosts": ["example.com"]}, {"hosts": ["muster.invalid"]}),
]  # fmt: skip


@pytest.fixture
def make(alice_api, offline):
    def make(kind, body):
        answer = alice_api.post(f"{V1}/{kind}/", body)
        assert answer.status_code == 201, answer.content
        return alice_api.get(answer["Location"])

    return make


@pytest.mark.parametrize("with_tag", [True, False], ids=["if-match", "plain"])
@pytest.mark.parametrize(("kind", "body", "change"), ROWS, ids=[f"{kind}-{[*change][0]}" for kind, _, change in ROWS])
def test_a_change_is_checked_before_it_holds_the_lock(alice_api, make, kind, body, change, with_tag):
    read = make(kind, body)
    headers = {"If-Match": read["ETag"]} if with_tag else {}
    answer = alice_api.patch(read.request["PATH_INFO"], change, JSON, headers=headers)
    assert answer.status_code in (200, 400, 422), answer.content


def zipped(**files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return packed.getvalue()


@pytest.mark.parametrize("tag", ["right", "star"])
@pytest.mark.parametrize("form", [True, False], ids=["archive", "json"])
def test_the_files_of_a_skill_are_stored_before_it_is_replaced(alice_api, make, form, tag):
    read = make("skills", {"text": SKILL})
    headers = {"If-Match": read["ETag"] if tag == "right" else "*"}
    if form:
        content = zipped(SKILL__md=f"{SKILL}Always.\n", more__txt="More.")
        body = encode_multipart(BOUNDARY, {"archive": SimpleUploadedFile("minutes.zip", content)})
        answer = alice_api.put(f"{V1}/skills/minutes", body, MULTIPART_CONTENT, headers=headers)
    else:
        body = {"text": f"{SKILL}Always.\n", "files": [{"path": "more.txt", "text": "More."}]}
        answer = alice_api.put(f"{V1}/skills/minutes", body, JSON, headers=headers)
    assert answer.status_code == 200, answer.content
    assert [one["path"] for one in Skill.objects.get().files] == ["more.txt"]
    late = alice_api.put(f"{V1}/skills/minutes", {"text": SKILL}, JSON, headers={"If-Match": read["ETag"]})
    assert late.status_code == 412


def test_a_row_that_changes_between_the_check_and_the_write_is_left_as_it_is(alice_api, make, monkeypatch):
    """The other writer comes while the change is checked, which takes long."""
    read = make("agents", ROWS[2][1])
    lock_row = viewsets.lock_row

    def change_and_lock(row):
        with connection.cursor() as cursor:  # in small letters: this is not the first write of the request
            cursor.execute("update agents_agent set description = 'Theirs'")
        return lock_row(row)

    monkeypatch.setattr(viewsets, "lock_row", change_and_lock)
    headers = {"If-Match": read["ETag"]}
    answer = alice_api.patch(f"{V1}/agents/helper", {"description": "Mine"}, JSON, headers=headers)
    assert answer.status_code == 412, answer.content
    assert Agent.objects.get().description != "Mine"


def test_a_long_conversation_is_deleted_in_short_transactions(alice, alice_api, make_agent, monkeypatch):
    """One statement that deletes gigabytes would keep everybody from writing, as SQLite overwrites what it deletes."""
    monkeypatch.setattr(emptying, "MESSAGE_BYTES", 50_000)
    session = Session.objects.create(owner=alice, agent=make_agent(), last_seq=12)
    for seq in range(1, 13):
        session.messages.create(seq=seq, role="user", content=[{"type": "text", "text": "x" * 20_000}])
    sizes = []

    def note(execute, sql, parameters, many, context):
        if sql.startswith('DELETE FROM "runs_message"'):
            sizes.append(len(parameters))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(note):
        answer = alice_api.delete(f"{V1}/sessions/{session.pk}")
    assert answer.status_code == 204, answer.content
    assert sizes == [2] * 6 and not Session.objects.exists()


def test_a_conversation_that_is_too_large_is_not_copied(alice, alice_api, make_agent, monkeypatch):
    monkeypatch.setattr(sessions, "MOST_COPIED", 10_000)
    session = Session.objects.create(owner=alice, agent=make_agent(), last_seq=1)
    session.messages.create(seq=1, role="user", content=[{"type": "text", "text": "x" * 20_000}])
    answer = alice_api.post(f"/langgraph/threads/{session.pk}/copy", {})
    assert answer.status_code == 413, answer.content
    assert Session.objects.count() == 1
