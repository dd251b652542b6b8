"""Messages of several parts: what is taken, what is refused and why, what the model reads, what stays."""

import base64

import pytest

from runs.models import Message, Run
from tests.corpus.documents import CASES, zipped
from tests.fakes import says
from tests.files import stored

pytestmark = pytest.mark.django_db
ASYNC = {"Prefer": "respond-async"}
PIXEL = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010100000000376ef924")).decode()
NOWHERE = "00000000-0000-7000-8000-000000000000"
TEXT = {"type": "text", "text": "What is this?"}


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent(provider=stub_provider)


@pytest.fixture
def report(alice):
    return stored(alice, "report.txt", content=b"Sales fell.", untrusted=False)


@pytest.fixture
def send(worker, alice_api, agent, stub):
    """Send parts and let the worker work; what the model was shown of the last message."""

    def send(*parts, session=None, reply="I see."):
        stub.script(says(reply))
        body = {"message": list(parts), **({"session": session} if session else {})}
        with worker.capture(execute=True):
            answer = alice_api.post("/api/v1/agents/helper/messages", body, headers=ASYNC)
        assert answer.status_code == 202, answer.json()
        worker.work()
        run = Run.objects.get(pk=answer.json()["run"]["id"])
        assert run.status == "succeeded", run.error
        return stub.requests[-1]["messages"][-1]["content"], run

    return send


@pytest.fixture
def refused(alice_api, agent):
    """The details of a refusal, once it is sure that nothing was stored."""

    def refused(message, status=422):
        answer = alice_api.post("/api/v1/agents/helper/messages", {"message": message}, headers=ASYNC)
        assert answer.status_code == status, answer.json()
        assert Run.objects.count() == Message.objects.count() == 0
        return answer.json()["error"]["details"]

    return refused


def test_texts_reach_the_model_as_one(send):
    assert send(TEXT, {"type": "text", "text": "Tell me."})[0] == "What is this?\nTell me."


@pytest.mark.parametrize(
    ("image", "url"),
    [
        ({"url": "https://example.org/cat.png"}, "https://example.org/cat.png"),
        ({"data": PIXEL}, f"data:image/png;base64,{PIXEL}"),
        ({"data": PIXEL, "media_type": "image/jpeg"}, f"data:image/jpeg;base64,{PIXEL}"),
    ],
)
def test_an_image_reaches_the_model_as_openai_spells_it(send, image, url):
    shown, run = send(TEXT, {"type": "image", **image})
    assert shown == [TEXT, {"type": "image_url", "image_url": {"url": url}}]
    assert run.messages.get(role="user").content == [TEXT, {"type": "image", **image}]


def test_an_image_alone_is_a_message(send):
    shown, run = send({"type": "image", "data": PIXEL})
    assert [part["type"] for part in shown] == ["image_url"] and run.session.title == ""
    assert (run.messages.get(role="user").words, run.messages.get(role="assistant").words) == ("[image]", "I see.")


@pytest.mark.parametrize("written", ["{}", "file:{}"])
def test_a_file_reaches_the_model_as_its_text_and_stays_a_reference_in_the_history(send, report, written):
    part = {"type": "file", "file": written.format(report.pk)}
    shown, run = send(TEXT, part)
    assert shown == "What is this?\nFile report.txt:\nSales fell."
    assert run.messages.get(role="user").content == [TEXT, part]


def test_a_file_that_is_a_picture_reaches_the_model_as_one(send, alice):
    picture = stored(alice, "dot.png", media_type="image/png", content=base64.b64decode(PIXEL))
    shown, _ = send(TEXT, {"type": "file", "file": str(picture.pk)})
    assert shown[1] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}


def test_of_a_file_without_text_the_model_is_told_why(send, alice):
    binary = stored(alice, "a.zip", media_type="application/zip", content=zipped({"a.txt": "a"}), untrusted=False)
    shown, _ = send(TEXT, {"type": "file", "file": str(binary.pk)})
    assert shown.startswith("What is this?\n[file a.zip, application/zip, ")
    assert shown.endswith("bytes: Archives are not read: add the files in it one by one.]")


@pytest.mark.parametrize(
    "name",
    ["insertions.docx", "gaps.xlsx", "notes.pptx", "utf16.txt", "utf16nomark.txt", "utf8mark.csv", "hidden.xlsx"],
)
def test_an_attached_document_reaches_the_model_with_what_is_not_in_its_text(send, alice, name):
    [case] = [case for case in CASES if case.name == name]
    row = stored(alice, name, media_type="application/octet-stream", content=case.make(), untrusted=False)
    shown, _ = send(TEXT, {"type": "file", "file": str(row.pk)})
    assert [wanted for wanted in case.texts if wanted.strip() not in shown] == []
    assert ("[not in this text: " in shown) == bool(case.lost) and all(word in shown for word in case.lost)
    assert ("[about this text: " in shown) == bool(case.noted) and all(word in shown for word in case.noted)


def test_a_long_file_is_cut_and_says_so(send, alice):
    long = stored(alice, "long.txt", content=b"x" * 50_000, untrusted=False)
    shown, _ = send(TEXT, {"type": "file", "file": str(long.pk)})
    assert shown.endswith("[cut: 10000 more characters]")


def test_a_later_message_shows_the_file_again_until_it_is_deleted(send, report, stub):
    _, run = send(TEXT, {"type": "file", "file": str(report.pk)})
    send(TEXT, session=str(run.session_id))
    assert "Sales fell." in str(stub.requests[-1]["messages"])
    report.delete()
    send(TEXT, session=str(run.session_id))
    assert "Sales fell." not in str(stub.requests[-1]["messages"])
    assert "deleted" in str(stub.requests[-1]["messages"])


def test_an_image_counts_a_thousand_tokens_of_the_history_not_its_bytes(send, make_agent, agent, stub):
    large = base64.b64encode(b"x" * 200_000).decode()
    _, run = send(TEXT, {"type": "image", "data": large})
    send(TEXT, session=str(run.session_id))
    assert [message["role"] for message in stub.requests[-1]["messages"]] == ["system", "user", "assistant", "user"]


def test_images_beyond_the_budget_fall_out_of_the_history(send, agent, stub, alice):
    agent.context_tokens = 1500
    agent.save()
    agent.publish(author=alice)
    _, run = send(TEXT, {"type": "image", "data": PIXEL}, reply="One.")
    send(TEXT, {"type": "image", "data": PIXEL}, session=str(run.session_id), reply="Two.")
    send(TEXT, session=str(run.session_id))
    told = stub.requests[-1]["messages"]
    assert str(told).count("'type': 'image_url'") == 1
    assert "Two." in str(told) and "One." in str(told)


@pytest.mark.parametrize(
    ("part", "says_why"),
    [
        ({"type": "smell"}, "one of text, image, file"),
        ({"type": ["text"], "text": "a"}, "one of text, image, file"),
        ({"text": "no type"}, "one of text, image, file"),
        ({"type": "text"}, "needs “text”"),
        ({"type": "text", "text": 7}, "needs “text”"),
        ({"type": "image"}, "either “url” or “data”"),
        ({"type": "image", "url": "https://example.org/a.png", "data": PIXEL}, "either “url” or “data”"),
        ({"type": "image", "url": 7}, "https://"),
        ({"type": "image", "url": "file:///etc/passwd"}, "https://"),
        ({"type": "image", "url": "https://[oops"}, "https://"),
        ({"type": "image", "data": "not base64!"}, "base64"),
        ({"type": "image", "data": f"data:image/png;base64,{PIXEL}"}, "base64"),
        ({"type": "image", "data": ""}, "base64"),
        ({"type": "image", "data": PIXEL, "media_type": "text/html"}, "image/png"),
        ({"type": "image", "data": PIXEL, "media_type": ["image/png"]}, "image/png"),
        ({"type": "file"}, "no such file"),
        ({"type": "file", "file": "/etc/passwd"}, "no such file"),
        ({"type": "file", "file": NOWHERE}, "no such file"),
    ],
)
def test_a_malformed_part_is_refused_with_its_place_and_the_reason(refused, part, says_why):
    (detail,) = refused([TEXT, part])
    assert detail["field"] == "message.1" and detail["code"] == "invalid" and says_why in detail["message"]


def test_each_bad_part_is_named(refused):
    assert [detail["field"] for detail in refused([{"type": "text"}, TEXT, {"type": "image"}])] == [
        "message.0", "message.2"
    ]  # fmt: skip


@pytest.mark.parametrize("message", [[], [{"type": "text", "text": ""}], "", ["text"], [None], {"type": "text"}, None])
def test_what_is_no_list_of_parts_is_refused(refused, message):
    assert refused(message)[0]["field"].startswith("message")


def test_a_strangers_file_is_not_there(charlie_api, charlie, agent, report, make_agent):
    agent.owner = charlie
    agent.save()
    body = {"message": [TEXT, {"type": "file", "file": str(report.pk)}]}
    answer = charlie_api.post("/api/v1/agents/helper/messages", body, headers=ASYNC)
    assert answer.status_code == 422 and Run.objects.count() == 0
    assert answer.json()["error"]["details"][0]["message"] == "there is no such file"
