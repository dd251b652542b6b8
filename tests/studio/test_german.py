"""Every page in German: nothing that has a translation stands there in English."""

from html.parser import HTMLParser
from importlib import import_module
from uuid import uuid4

import polib
import pytest
from django.conf import settings
from django.utils import timezone, translation

from agents import accounts
from agents.exceptions import MusterError
from agents.models import Agent, Chain, Membership, Preference, Provider, StoredFile, Tool
from connectors.models import Connection
from devices.models import Device, OfferedTool, Record, RecordChange
from devices.records import review as records
from knowledge.memory import review as memories
from knowledge.models import CollectionFolder, Document, Memory, MemoryVersion
from runs.models import Approval, Embed, Run, Schedule, ScheduleOccurrence
from runs.models.figures import dashboard
from studio import labels, urls
from tests.docs.messages import ROOT
from tests.knowledge.documents import collection_with

pytestmark = pytest.mark.django_db
CATALOG = polib.pofile(str(ROOT / "locale/de/LC_MESSAGES/django.po"))
CODE = {entry.msgid for entry in polib.pofile(str(ROOT / "locale/de/LC_MESSAGES/code.po"))}
ENGLISH = {entry.msgid for entry in CATALOG if entry.msgstr and entry.msgstr != entry.msgid}
NOT_PAGES = {"login", "logout", "texts", "status", "approval-count", "schedule-times", "chain-picture"}
SHOWN = [
    Tool.Effect, Tool.Kind, Schedule.Missed, Schedule.Overlap, Agent.SessionContext, Agent.Memory, Chain.Strategy,
    Chain.Sessions, Membership.Role, Provider.Kind, Connection.Provider, Connection.Health, Record.Review,
    Memory.Kind, Memory.Scope, StoredFile.Source,
]  # fmt: skip


class Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.code = [], 0

    def handle_starttag(self, tag, attrs):
        self.code += tag in ("script", "style", "pre", "code", "kbd", "textarea")
        self.found += [value for name, value in attrs if name in ("aria-label", "placeholder", "title") and value]

    def handle_endtag(self, tag):
        self.code -= tag in ("script", "style", "pre", "code", "kbd", "textarea")

    def handle_data(self, data):
        if not self.code:
            self.found.append(data)


def english(html):
    """Texts of the page that have a translation and are not translated."""
    parser = Texts()
    parser.feed(html)
    return sorted(({text.strip() for text in parser.found} & ENGLISH) - {"Do"})  # Thursday, Donnerstag


@pytest.fixture
def german(signed_in, alice):
    Preference.objects.create(user=alice, language="de")
    return signed_in(alice)


@pytest.mark.parametrize(
    "path", [str(one.pattern) for one in urls.urlpatterns if "<" not in str(one.pattern) and one.name not in NOT_PAGES]
)
def test_a_page_without_rows_is_in_german(german, path):
    answer = german.get(f"/{path}")
    if answer.status_code == 200:
        assert english(answer.content.decode()) == []
    else:
        assert answer.status_code in (302, 403, 404, 405), "it takes a form, another role, or something that is named"


def test_the_pages_of_administrators_are_in_german(german, alice, charlie, agent):
    accounts.write_role(alice, "administrator")
    accounts.write_role(charlie, "viewer")
    for path in ("people/", "people/alice/", "people/charlie/"):
        answer = german.get(f"/{path}")
        assert answer.status_code == 200 and english(answer.content.decode()) == [], path


def test_an_english_page_would_be_found(signed_in, bob):
    assert "Sign out" in english(signed_in(bob).get("/").content.decode())


@pytest.fixture
def rows(alice, team, make_run, make_chain, make_schedule):
    """Alice has one of everything: {page: path}."""
    chain = make_chain({"key": "first", "tool": "find"})
    run = make_run(status=Run.Status.FAILED, error={"code": "model_failed", "message": "It is down."})
    record = records.create_own_record(alice, "task", {"title": "Pay"}, source="")
    records.edit_record(record, {"title": "Pay the bill"}, by=alice, expected=record.version, source="")
    place = memories.get_writable_place(alice, Memory.Scope.PERSON)
    memory, _ = memories.create_person_memory(
        alice, place, {"text": "Likes tea.", "kind": "preference", "subject": "tea"}, source=""
    )
    device = Device.objects.create(owner=alice, name="laptop")
    notes = Connection.objects.create(owner=alice, name="notes", provider="mcp", base_url="https://mcp.example.org")
    own = Provider.objects.create(owner=alice, name="local", kind="offline")
    document = collection_with(alice, {"rules.md": "# Rules\n\nPay on Mondays."}).documents.get()
    embed = Embed.objects.create(owner=alice, agent=run.agent)
    return {
        "dashboard": "/", "runs": "/runs/", "run": f"/runs/{run.pk}/", "agent": f"/agents/{run.agent}/",
        "sessions": "/sessions/", "session": f"/sessions/{run.session_id}/", "chain": f"/chains/{chain}/",
        "schedules": "/schedules/", "schedule": f"/schedules/{make_schedule()}/", "approvals": "/approvals/",
        "records": "/records/", "record": f"/records/{record.pk}/", "new record": "/records/new/task/",
        "memories": "/memory/", "memory": f"/memory/{memory.pk}/", "device": f"/devices/{device.pk}/",
        "connection": f"/connections/{notes.pk}/", "provider": f"/providers/{own.name}/", "team": f"/teams/{team}/",
        "collections": "/collections/", "collection": "/collections/handbook/?query=pay",
        "document": f"/collections/handbook/documents/{document.pk}/", "embed": f"/clients/embeds/{embed.pk}/",
        "audit": "/audit/", "talk": f"/playground/?session={run.session_id}",
    }  # fmt: skip


def test_pages_with_rows_are_in_german(german, rows):
    found = {}
    for name, path in rows.items():
        answer = german.get(path)
        assert answer.status_code == 200, (name, answer.status_code)
        found[name] = english(answer.content.decode())
    assert {name: words for name, words in found.items() if words} == {}


def test_a_schedule_says_in_german_when_it_starts(german, make_schedule):
    make_schedule(line="30 7 * * 1")
    assert "Um 07:30, nur am Montag" in german.get("/schedules/hourly/").content.decode()
    told = german.get("/schedules/due-times?crontab=30 7 * * 1&timezone=UTC").json()
    assert told["words"] == "Um 07:30, nur am Montag"
    assert Schedule.objects.get().timing_in_words == "At 07:30, only on Monday", "the API stays English"


def test_pages_of_errors_are_in_german(german):
    html = german.get("/nowhere/").content.decode()
    assert "Nicht gefunden" in html and english(html) == []


@pytest.mark.parametrize("choices", SHOWN, ids=lambda one: one.__qualname__)
def test_choices_that_pages_show_are_listed_for_translation(choices):
    known = {*labels.STATES, *labels.KINDS, *labels.CHOICES, *labels.NAMES}
    assert [label for label in map(str, choices.labels) if label not in known] == []


@pytest.mark.parametrize("model", [Agent, Chain, Provider, Schedule, Connection])
def test_choices_of_forms_are_in_german(model):
    """Those that are listed in no table of `labels` too."""
    labelled = [choice for field in model._meta.fields for choice in field.choices or ()]
    with translation.override("de"):
        shown = labels.in_language(labelled)
    wanted = [(value, labels.render_label(label)) for value, label in labelled if label in labels.NAMES]
    same = [choice for choice in shown if choice in {(value, str(label)) for value, label in labelled}]
    assert labelled and same == wanted


@pytest.mark.parametrize(
    "choices",
    [
        Run.Status,
        Run.Trigger,
        Approval.Status,
        ScheduleOccurrence.Outcome,
        Record.Review,
        Memory.Kind,
        Document.Status,
        OfferedTool.Status,
    ],
)
def test_states_that_pages_show_are_listed_for_translation(choices):
    known = {*labels.STATES, *labels.KINDS}
    assert [value for value in choices.values if value.replace("_", " ") not in known] == []


@pytest.mark.parametrize("choices", [RecordChange.Action, MemoryVersion.Action])
def test_what_histories_say_is_listed_for_translation(choices):
    known = {*labels.STATES, *labels.DONE}
    assert [label for label in choices.labels if label.lower() not in known] == []


def test_errors_without_a_message_of_their_own_are_listed_for_translation():
    def kinds(kind):
        for below in kind.__subclasses__():
            yield below
            yield from kinds(below)

    import_module(settings.ROOT_URLCONF)  # with the modules that define errors of their own
    usual = {
        kind.usual_message() for kind in kinds(MusterError) if not kind.__module__.startswith(("gateway", "tests"))
    }
    assert usual == set(labels.REFUSALS) <= ENGLISH


def test_the_api_gives_its_errors_in_the_language_that_the_request_names(alice_api):
    path = "/api/v1/agents/nothing/"
    usual, german = alice_api.get(path).json(), alice_api.get(path, HTTP_ACCEPT_LANGUAGE="de-AT,en;q=0.5").json()
    assert usual["error"]["message"] == "There is no agent “nothing” that you can see."
    assert german["error"]["message"] == "„nothing“ gibt es nicht, oder Sie dürfen es nicht sehen (Agent)."
    assert usual["error"]["code"] == german["error"]["code"] == "not_found"
    wrong = alice_api.post("/api/v1/agents/", {"name": "new"}, HTTP_ACCEPT_LANGUAGE="de").json()["error"]
    assert wrong["message"] == "Die Angaben sind nicht gültig."
    assert "Dieses Feld ist zwingend erforderlich." in [one["message"] for one in wrong["details"]]
    other = alice_api.get(path, HTTP_ACCEPT_LANGUAGE="fr").json()["error"]
    assert other["message"] == usual["error"]["message"], "a language that Muster does not have"


def test_a_refusal_on_a_page_is_in_german(german, alice, signed_in, team):
    html = german.post("/teams/", {"name": str(team)}, follow=True).content.decode()
    assert "heißt schon" in html and "called" not in html


def test_a_word_that_is_not_listed_stays_as_it_is():
    with translation.override("de"):
        assert (labels.render_label("failed"), labels.render_label("loan"), labels.render_label("")) == (
            "fehlgeschlagen",
            "loan",
            "",
        )


def test_problems_of_a_chain_and_of_a_function_are_in_the_language_of_the_request(alice_api, make_chain):
    chain = make_chain({"key": "first", "tool": "find"})
    chain.replace_steps([{"key": "first", "tool": "find", "when": "steps.nothing.output"}])
    path = f"/api/v1/chains/{chain}/graph/"
    usual, german = alice_api.get(path).json(), alice_api.get(path, HTTP_ACCEPT_LANGUAGE="de").json()
    assert "is not a step of this chain" in usual["problems"][0]["message"]
    assert "das ist kein Schritt dieser Kette" in german["problems"][0]["message"]
    assert german["problems"][0]["hint"] == "Ihre Schritte sind first."
    body = {"name": "look", "source": "def look():\n    return open('x')\n"}
    checked = alice_api.post("/api/v1/functions/validate", body, HTTP_ACCEPT_LANGUAGE="de").json()
    assert checked["refusals"] and english_of(checked["refusals"]) == []
    unknown = alice_api.post("/api/v1/functions/", {**body, "nme": 1}, HTTP_ACCEPT_LANGUAGE="de").json()["error"]
    assert "Diesen Namen gibt es nicht (Feld)." in unknown["details"][0]["message"]


def english_of(problems):
    return [one for one in problems if one["message"] in CODE or one["hint"] in CODE]


@pytest.fixture
def ended(make_run):
    return make_run(status=Run.Status.FAILED, error={"code": "deadline", "message": "the run's deadline passed"})


def test_a_run_keeps_its_error_in_english_and_is_shown_in_the_language_of_the_reader(german, ended, alice_api):
    assert "die Frist des Laufs ist um" in german.get(f"/runs/{ended.pk}/").content.decode()
    assert "die Frist des Laufs ist um" in german.get("/runs/").content.decode()
    path = f"/api/v1/runs/{ended.pk}/"
    assert alice_api.get(path, HTTP_ACCEPT_LANGUAGE="de").json()["error"]["message"] == "die Frist des Laufs ist um"
    assert alice_api.get(path).json()["error"]["message"] == "the run's deadline passed"


def test_what_a_german_request_causes_is_stored_in_english(german, alice, make_schedule):
    schedule = make_schedule()
    Agent.objects.update(enabled=False)
    german.post(f"/schedules/{schedule}/run-now", follow=True)
    row = ScheduleOccurrence.objects.get()
    assert row.outcome == ScheduleOccurrence.Outcome.REFUSED and "has no published version" in row.reason
    assert "hat keine veröffentlichte Version" in german.get(f"/schedules/{schedule}/").content.decode()


def test_histories_keep_capital_letters_of_nouns(german, alice):
    record = records.create_own_record(alice, "task", {"title": "Pay"}, source="")
    RecordChange.objects.filter(record=record).update(action=RecordChange.Action.SUGGESTED)
    html = german.get(f"/records/{record.pk}/").content.decode()
    assert "Änderung vorgeschlagen" in html and "änderung" not in html


def test_a_folder_of_a_removed_device_and_what_is_unusual_today_are_in_german(german, alice, monkeypatch):
    collection = collection_with(alice, {"rules.md": "Pay on Mondays."}).pk
    CollectionFolder.objects.create(collection_id=collection, owner=alice, device_id=uuid4(), path="notes")
    assert "ein entferntes Gerät" in german.get("/collections/handbook/?query=pay").content.decode()
    monkeypatch.setattr(dashboard, "anomalies", lambda days: ["50% of today's runs failed; usually 10% do."])
    assert "50% der heutigen Läufe sind fehlgeschlagen" in german.get("/").content.decode()


def test_an_answer_that_waited_is_in_the_language_of_its_request(alice, rf):
    from rest_framework.views import APIView

    from agents.exceptions import NotFound
    from agents.http.deferred_response import Later

    def refuse(found):
        raise NotFound("Two tools have the same name.")

    with translation.override("de"):
        view = APIView()
        view.format_kwarg = None
        view.setup(rf.get("/api/v1/runs/", HTTP_ACCEPT_LANGUAGE="de"))
        view.request = view.initialize_request(view.request)
        view.request.accepted_renderer, view.request.accepted_media_type = view.perform_content_negotiation(
            view.request
        )
        view.headers = view.default_response_headers
        answer = Later(view, Awaited(), refuse)
    assert "Zwei Werkzeuge haben" in answer.complete(None).content.decode()


class Awaited:
    @property
    def place(self):
        return self

    def keep(self):
        return lambda: None


def test_an_approval_that_nobody_answered_and_a_device_that_never_connected_say_so_in_german(german, alice, make_run):
    Approval.objects.create(
        run=make_run(), tool="create_task", status="expired", note="by its deadline", decided_at=timezone.now(),
        expires_at=timezone.now(),
    )  # fmt: skip
    shown = german.get("/approvals/").content.decode()
    assert "durch Ablauf der Frist" in shown and "by its deadline" not in shown
    device = Device.objects.create(owner=alice, name="phone")
    shown = german.get(f"/devices/{device.pk}/").content.decode()
    assert "nie verbunden" in shown and "zuletzt gesehen" not in shown


def test_the_page_of_a_function_says_how_a_key_leaves_the_editor(german):
    assert "drücken Sie Esc, dann Tab" in german.get("/functions/new/").content.decode()
