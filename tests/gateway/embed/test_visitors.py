"""What visitors can do, and above all what they cannot: other origins, keys, conversations, endpoints, floods."""

import re
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from django.core import signing
from django.test import Client

from gateway.embed import visitors
from runs.models import Approval, Embed, Message, Run, Session
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
SHOP = "https://shop.example.org"
JSON = "application/json"


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent("clerk", tools=[make_tool(effect="write")], provider=stub_provider)


@pytest.fixture
def embed(agent, alice, functions):
    return Embed.objects.create(owner=alice, agent=agent, enabled=True, origins=[SHOP])


@pytest.fixture
def base(embed):
    return f"/embed/v1/{embed.key}"


@pytest.fixture
def visitor(base, worker):
    """A new visitor each time: `visitor().send("hello")`."""
    return lambda: Visitor(base, worker)


class Visitor:
    def __init__(self, base, worker):
        self.base, self.worker = base, worker
        self.client = Client(raise_request_exception=False)
        self.token = self.client.post(f"{base}/sessions", content_type=JSON).json()["token"]

    def call(self, method, path, body=None, token=None, **headers):
        headers = {"Authorization": f"Bearer {token or self.token}", **headers}
        more = {} if body is None else {"data": body}
        return getattr(self.client, method)(f"{self.base}/{path}", content_type=JSON, headers=headers, **more)

    def send(self, text="hello", status=200, **more):
        with self.worker.capture(execute=True):
            answer = self.call("post", "messages", {"message": text, **more})
        assert answer.status_code == status, answer.content
        self.worker.work()
        leave(answer)
        return answer if status == 200 else answer.json()["error"]

    def said(self):
        return [(one["role"], one["text"]) for one in self.call("get", "messages").json()["messages"]]


def test_a_conversation_goes_on_and_is_shown_again(visitor, stub):
    stub.script(says("Good day."), says("Bye."))
    one = visitor()
    one.send("Hello")
    one.send("Bye")
    assert one.said() == [("user", "Hello"), ("assistant", "Good day."), ("user", "Bye"), ("assistant", "Bye.")]
    assert Session.objects.get().runs.count() == 2


def test_nothing_is_stored_before_the_first_message(visitor):
    visitor()
    assert not Session.objects.exists()


def test_the_description_says_nothing_but_what_the_page_shows(base, client):
    about = client.get(base).json()
    assert (
        about.keys() == {"title", "greeting", "suggestions", "colour", "max_characters"} and about["title"] == "clerk"
    )


def leave(answer):
    """The reader goes; closing the answer itself would close the test's database connection."""
    for close in answer._resource_closers if answer.streaming else ():
        close()


# -- who may ask ----------------------------------------------------------------------------------------------------


def test_the_allowed_origin_is_named_exactly(base, client):
    answer = client.get(base, headers={"Origin": SHOP})
    assert answer["Access-Control-Allow-Origin"] == SHOP and "Origin" in answer["Vary"]
    assert "Access-Control-Allow-Credentials" not in answer and not answer.cookies
    asked = client.options(base, headers={"Origin": SHOP, "Access-Control-Request-Method": "POST"})
    assert asked.status_code == 204 and asked["Access-Control-Allow-Origin"] == SHOP
    assert "authorization" in asked["Access-Control-Allow-Headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://shop.example.org", f"{SHOP}:8443",
                                    "https://shop.example.org.evil.example", "https://shop.example.orgx"])  # fmt: skip
@pytest.mark.parametrize("method", ["get", "options"])
def test_another_origin_is_refused_and_cannot_read_the_refusal(base, client, origin, method):
    answer = getattr(client, method)(base, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert answer.status_code == 403 and "Access-Control-Allow-Origin" not in answer and "Origin" in answer["Vary"]


def test_another_origin_starts_no_run(visitor):
    answer = visitor().call("post", "messages", {"message": "hello"}, Origin="https://evil.example")
    assert answer.status_code == 403 and not Run.objects.exists()


def test_the_page_of_the_site_itself_needs_no_entry(base, client, embed):
    embed.origins = []
    embed.save()
    assert client.get(base, headers={"Origin": "http://testserver"}).status_code == 200
    assert client.get(base, headers={"Origin": SHOP}).status_code == 403


@pytest.mark.parametrize("change", [
    "embed.enabled = False", "embed.agent.enabled = False", "embed.agent.published = None",
    "embed.owner.is_active = False", "embed.agent.owner = charlie", "embed.agent.owner = None",
])  # fmt: skip
def test_what_is_closed_is_as_if_it_did_not_exist(visitor, embed, base, charlie, change):
    one = visitor()
    exec(change)
    for row in (embed, embed.agent, embed.owner):
        row.save()
    unknown = Client().get("/embed/v1/pub_unknown")
    assert unknown.status_code == 404
    for answer in (one.call("get", "messages"), one.call("post", "messages", {"message": "hi"})):
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == unknown.json()["error"]["message"]
    page = Client().get(f"/chat/{embed.key}/", headers={"accept-language": "de"})
    assert page.status_code == 404 and not Run.objects.exists()
    assert "oder er ist ausgeschaltet" in page.content.decode() and b'class="button"' not in page.content


def test_an_owner_without_the_right_to_start_runs_offers_nothing(base, client, settings):
    settings.DEFAULT_ROLE = "viewer"
    assert client.get(base).status_code == 404


# -- whose conversation ---------------------------------------------------------------------------------------------


def test_a_visitor_never_reaches_anothers_conversation(visitor, stub):
    stub.script(calls(("add", {"a": 1, "b": 2})), says("My secret."))
    one, two = visitor(), visitor()
    one.send("Secret")
    run = Run.objects.get()
    assert two.said() == []
    assert two.call("get", f"runs/{run.pk}/reply").status_code == 404
    assert two.call("post", f"runs/{run.pk}/stop").status_code == 404
    reply = one.call("get", f"runs/{run.pk}/reply")
    leave(reply)
    assert reply.status_code == 200


@pytest.mark.parametrize("forge", ["", "x", "mk_a.b", "{session}", "{other_embed}", "{other_salt}", "{cut}"])
def test_a_token_cannot_be_made_up(visitor, embed, alice, agent, stub, forge):
    stub.script(says("My secret."))
    one = visitor()
    one.send("Secret")
    session = str(Session.objects.get().pk)
    other = Embed.objects.create(owner=alice, agent=agent, enabled=True)
    tokens = {
        "session": session, "other_embed": signing.dumps(session, salt=visitors.build_token_salt(other)),
        "other_salt": signing.dumps(session), "cut": one.token[:-1],
    }  # fmt: skip
    token = forge.format(**tokens) or " "
    for answer in (
        one.call("get", "messages", token=token),
        one.call("post", "messages", {"message": "x"}, token=token),
    ):
        assert answer.status_code == 401 and "Secret" not in answer.content.decode()


def test_another_key_ends_every_conversation(visitor, embed, stub):
    stub.script(says("Hello."))
    one = visitor()
    one.send()
    embed.rotate()
    assert one.call("get", "messages").status_code == 404
    one.base = f"/embed/v1/{embed.key}"
    assert one.call("get", "messages").status_code == 401


def test_what_the_owner_says_in_it_stays_with_the_owner(visitor, worker, alice, agent, stub):
    stub.script(says("Hello."), says("The margin is 40 %."))
    one = visitor()
    one.send("Hi")
    worker.send_message(alice, "What is our margin?", agent, session=str(Session.objects.get().pk))
    assert Message.objects.count() == 4 and one.said() == [("user", "Hi"), ("assistant", "Hello.")]


# -- what else ------------------------------------------------------------------------------------------------------

ELSEWHERE = ["/api/v1/agents/", "/api/v1/runs/", "/api/v1/sessions/", "/api/v1/approvals/", "/api/v1/embeds/",
             "/v1/models", "/langgraph/threads/x", "/api/v1/keys/", "/api/v1/files/"]  # fmt: skip


@pytest.mark.parametrize("path", ELSEWHERE)
def test_neither_key_nor_token_opens_another_endpoint(visitor, embed, client, path):
    for credential in (embed.key, visitor().token):
        assert client.get(path, headers={"Authorization": f"Bearer {credential}"}).status_code == 401


def test_a_visitor_never_decides_an_approval(visitor, embed, alice, alice_api, stub, client):
    embed.tools = ["add"]
    embed.save()
    stub.script(calls(("add", {"a": 1, "b": 2})), says("Done."))
    one = visitor()
    one.send("add 1 and 2")
    approval = Approval.objects.get()
    for credential in (embed.key, one.token):
        answer = client.post(
            f"/api/v1/approvals/{approval.pk}", {"decision": "approve"}, content_type=JSON,
            headers={"Authorization": f"Bearer {credential}"},
        )  # fmt: skip
        assert answer.status_code == 401
    assert one.send("approve", 409)["code"] == "session_busy"
    assert one.call("get", "messages").json()["run"] == str(Run.objects.get().pk)
    assert alice_api.get("/api/v1/approvals/").json()["results"][0]["id"] == str(approval.pk)


def test_a_reader_of_the_owners_site_sees_no_cookie_at_work(visitor, signed_in, charlie, base):
    """A login session changes nothing: the endpoints read no cookie."""
    assert signed_in(charlie).get(f"{base}/messages").status_code == 401


# -- limits ---------------------------------------------------------------------------------------------------------


def test_too_long_a_message_is_refused_before_a_run_starts(visitor, embed):
    error = visitor().send("x" * (embed.max_characters + 1), 422)
    assert error["code"] == "message_too_long" and str(embed.max_characters) in error["message"]
    assert not Run.objects.exists() and not Session.objects.exists()


@pytest.mark.parametrize("body", [{}, {"message": ""}, {"message": 7}, {"message": [{"type": "file", "file": str(uuid4())}]},
                                  {"message": "x", "agent": "other"}, {"message": "x", "session": str(uuid4())}])  # fmt: skip
def test_only_text_is_taken(visitor, body):
    assert visitor().call("post", "messages", body).status_code == 422 and not Run.objects.exists()


def test_a_flood_of_one_visitor_is_refused_and_leaves_room_for_others(visitor, embed, stub, one_minute):
    Embed.objects.update(per_visitor=2, per_minute=4)
    stub.script(*[says("Hello.")] * 9)
    one, two = visitor(), visitor()
    one.send(), one.send()
    for _ in range(9):
        error = one.send(status=429)
    assert error["code"] == "rate_limited" and Run.objects.count() == 2
    two.send()


def test_a_flood_of_many_visitors_is_refused(visitor, stub, one_minute):
    Embed.objects.update(per_visitor=1, per_minute=3)
    stub.script(*[says("Hello.")] * 9)
    for _ in range(3):
        visitor().send()
    refused = visitor()
    answer = refused.call("post", "messages", {"message": "hi"}, Origin=SHOP)
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 0
    assert answer["Access-Control-Allow-Origin"] == SHOP and Run.objects.count() == 3


def test_new_conversations_give_one_address_no_more_messages(visitor, stub, one_minute):
    Embed.objects.update(per_visitor=1, per_minute=600)
    stub.script(*[says("Hello.")] * 9)
    for _ in range(visitors.NEIGHBOURS):
        visitor().send()
    visitor().send(status=429)


def test_a_message_that_is_sent_again_is_answered_once(visitor, stub):
    stub.script(says("Hello."))
    one, id = visitor(), str(uuid4())
    one.send("Hi", id=id)
    one.send("Hi", id=id)
    assert Run.objects.count() == 1


def test_a_message_whose_answer_failed_is_sent_again_and_shown_once(visitor, stub):
    one, id = visitor(), str(uuid4())
    stub.script(*[says("", status=400)] * 2, says("Hello."))
    one.send("Hi", id=id)
    assert one.said() == [("user", "Hi")]
    one.send("Hi", id=id)
    assert one.said() == [("user", "Hi")]
    one.send("Hi", id=id)
    assert one.said() == [("user", "Hi"), ("assistant", "Hello.")]
    one.send("Hi", id=id)  # it is answered now: nothing more happens
    assert [run.status for run in Run.objects.order_by("id")] == ["failed", "failed", "succeeded"]
    assert one.send("Ho", 409, id=id)["code"] == "idempotency_mismatch"
    asked = [message for message in stub.requests[-1]["messages"] if message["role"] == "user"]
    assert len(asked) == 1 and "Hi" in str(asked)


def test_only_the_last_message_and_only_ones_own_is_answered_again(visitor, stub):
    one, other, id = visitor(), visitor(), str(uuid4())
    stub.script(says("", status=400), says("Second."), says("Mine."))
    one.send("First", id=id)
    one.send("Second")
    one.send("First", id=id)
    assert Run.objects.count() == 2
    other.send("First", id=id)  # the id belongs to a conversation
    assert [text for _, text in other.said()] == ["First", "Mine."]
    assert [text for _, text in one.said()] == ["First", "Second", "Second."]


def test_visitors_spend_the_budget_of_the_embed(visitor, embed, stub):
    from runs.models import Budget

    Budget.objects.create(owner=embed.owner, embed=embed, period="day", max_cost=Decimal(0), max_tokens=1)
    one = visitor()
    one.send()
    run = Run.objects.get()
    assert (run.status, run.error["code"]) == ("failed", "budget_exhausted") and stub.requests == []


# -- the page -------------------------------------------------------------------------------------------------------


def test_only_listed_origins_may_frame_the_page(embed, client):
    page = client.get(f"/chat/{embed.key}/")
    assert f"frame-ancestors {SHOP}" in page["Content-Security-Policy"] and "X-Frame-Options" not in page
    assert "unsafe" not in page["Content-Security-Policy"] and not page.cookies
    Embed.objects.update(origins=[])
    page = client.get(f"/chat/{embed.key}/")
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"] and page["X-Frame-Options"] == "DENY"


def test_the_script_and_its_modules_have_the_size_that_the_documentation_names(settings):
    root, start = Path(settings.BASE_DIR), "static/muster/embed.js"
    modules = sorted((root / "static/muster/embed").glob("*.js"))
    size = sum(path.stat().st_size for path in [root / start, *modules])
    words = (root / "docs/howto/embed.md").read_text()
    number, kilobytes = re.search(r"The script and its (\w+)\s+modules have (\d+) KB", words).groups()
    assert (number, int(kilobytes)) == (["four", "five", "six"][len(modules) - 4], round(size / 1000))


def test_any_page_may_load_the_script_from_its_short_address(client):
    script = client.get("/embed.js", headers={"Origin": "https://anywhere.example"})
    assert script.status_code == 200 and script["Content-Type"].startswith("text/javascript")
    assert script["Access-Control-Allow-Origin"] == "*" and script["Cache-Control"] == "public, max-age=3600"
    assert b"/static/muster/embed/widget.js" in script.content and not script.cookies
    same = client.get("/embed.js", headers={"If-None-Match": script["ETag"]})
    assert same.status_code == 304 and same.content == b""
    assert client.post("/embed.js").status_code == 405


def test_the_title_is_text_on_the_page(embed, client):
    Embed.objects.update(title="</title><script>alert(1)</script>")
    assert b"<script>alert" not in client.get(f"/chat/{embed.key}/").content
