"""Every page of the admin in German: names of models, fields, choices, groups and actions."""

import ast
import json
import re
from html.parser import HTMLParser

import polib
import pytest
from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.management import call_command
from django.forms import ModelChoiceField
from django.urls import reverse
from django.utils import translation

from agents.admin.base import pill
from agents.models import Agent, ApiKey, Chain, Membership, Preference, Provider, Secret, Team, Tool
from agents.models.key import SCOPES
from config import names, schema
from config.names import OURS
from functions.models import StoredFunction
from runs.models import Run
from tests.docs import code_texts
from tests.docs.messages import ROOT

pytestmark = pytest.mark.django_db
CATALOGS = [polib.pofile(str(ROOT / f"locale/de/LC_MESSAGES/{name}.po")) for name in ("django", "code")]
ENGLISH = {entry.msgid for catalog in CATALOGS for entry in catalog if entry.msgstr and entry.msgstr != entry.msgid}
ENGLISH |= {text[0].upper() + text[1:] for text in ENGLISH} - {
    entry.msgstr[:1].upper() + entry.msgstr[1:] for catalog in CATALOGS for entry in catalog
}
BOTH = {"Name", "Status", "Version", "Agent", "Do", "Text", "Position", "Session"}  # or German words as well
BY_HAND = [Agent, ApiKey, Chain, Provider, Secret, Team, StoredFunction]  # models whose forms have fields of their own
SAME = BOTH | SCOPES | {
    "", "---------", "API", "Hosts", "Header", "Test", "Tests", "A2A", "Top p", "Team", "Offline", "Pool",
    "Administrator", "Schema", "Scopes", "MB.", "Anthropic", "Google Gemini", "Ollama", "OpenAI",
    "retry, on_error, fallback, timeout_s, approval, policy, repeat_until, …",
}  # fmt: skip
MODELS = [model for model in admin.site._registry if model._meta.app_label in OURS]


class Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style", "pre", "code", "textarea")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style", "pre", "code", "textarea")

    def handle_data(self, data):
        if not self.hidden:
            self.found.append(data.strip().rstrip(":"))


def english(html):
    parser = Texts()
    parser.feed(html)
    return sorted(set(parser.found) & ENGLISH - BOTH)


@pytest.fixture
def german(site_admin, signed_in):
    Preference.objects.create(user=site_admin, language="de")
    return signed_in(site_admin)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_lists_and_forms_of_the_admin_are_in_german(german, model):
    name = f"{model._meta.app_label}_{model._meta.model_name}"
    listed, form = (german.get(reverse(f"admin:{name}_{page}")) for page in ("changelist", "add"))
    assert english(listed.content.decode()) == []
    assert form.status_code in (200, 403)
    assert english(form.content.decode()) == []


def texts_of(model, user, rf):
    """Labels, help texts and choices of the fields that the add form and its inlines ask for."""
    page, request = admin.site.get_model_admin(model), rf.get("/")
    request.user = user
    inlines = [one.get_formset(request).form() for one in page.get_inline_instances(request)]
    found = {}
    for form in (page.get_form(request)(), *inlines):
        for name, field in ((one.name, one.field) for one in form.visible_fields()):
            key = f"{type(form).__name__}.{name}"
            choices = [] if isinstance(field, ModelChoiceField) else getattr(field, "choices", [])
            found |= {f"{key}.label": form[name].label, f"{key}.help_text": field.help_text}
            found |= {f"{key}.{value}": label for value, label in choices}
    return {key: str(text) for key, text in found.items()}


@pytest.mark.parametrize("model", BY_HAND, ids=lambda model: model._meta.label)
def test_a_form_that_is_written_by_hand_is_in_german(site_admin, rf, model):
    usual = texts_of(model, site_admin, rf)
    with translation.override("de"):
        german = texts_of(model, site_admin, rf)
    assert usual.keys() == german.keys() and len(usual) > 5
    assert {key: text for key, text in german.items() if text == usual[key] and text not in SAME} == {}


def test_what_the_admin_keeps_of_a_change_is_in_english(german):
    sent = {
        "name": "local",
        "kind": "offline",
        "api": "chat",
        "tool_calling": "native",
        "thinking": "split",
        "prices": "{}",
    }
    german.post(reverse("admin:agents_provider_add"), sent)
    row = Provider.objects.get(name="local")
    answer = german.post(reverse("admin:agents_provider_change", args=[row.pk]), {**sent, "default_model": "small"})
    assert answer.status_code == 302
    kept = LogEntry.objects.get(action_flag=CHANGE)
    assert json.loads(kept.change_message) == [{"changed": {"fields": ["Default model"]}}]


def test_what_the_admin_says_is_in_german(german, agent):
    draft = german.get(reverse("admin:agents_agent_try_out", args=[agent.pk]), follow=True).content.decode()
    assert "ist ein Entwurf: Veröffentlichen Sie ihn" in draft
    copy = german.post(reverse("admin:agents_agent_duplicate", args=[agent.pk]), follow=True).content.decode()
    assert "ist Ihre Kopie" in copy


def errors(answer):
    form = answer.context["adminform"].form
    return [text for texts in form.errors.values() for text in texts]


def test_errors_of_forms_are_in_german(german, site_admin, alice):
    secret = german.post(reverse("admin:agents_secret_add"), {"name": "crm", "hosts": "example.com"})
    assert any(text.startswith("Geben Sie das Geheimnis ein.") for text in errors(secret))
    schedule = german.post(reverse("admin:runs_schedule_add"), {"name": "mornings", "timezone": "UTC"})
    for text in ("Wählen Sie genau einen Agenten oder eine Kette.", "Wählen Sie genau eines von diesen dreien."):
        assert text in errors(schedule)
    team = Team.objects.create(name="library")
    Membership.objects.create(team=team, user=alice, role=Membership.Role.AUTHOR)
    Secret.objects.create(name="crm", value="x", owner=alice, team=team)
    sent = {"name": "crm", "value": "x", "hosts": "example.com", "owner": site_admin.pk, "team": team.pk}
    shared = errors(german.post(reverse("admin:agents_secret_add"), sent))
    assert any(
        "„crm“ ist schon vergeben" in text and "Geben Sie Ihrem einen anderen Namen" in text for text in shared
    ), shared


def test_states_and_titles_are_in_german(german, agent):
    with translation.override("de"):
        shown = [pill(word) for word in ("open", "waiting_device", "v3")]
    assert shown == [
        '<span class="pill open">offen</span>', '<span class="pill waiting_device">wartet auf Gerät</span>',
        '<span class="pill v3">v3</span>',
    ]  # fmt: skip
    assert pill("waiting_device") == '<span class="pill waiting_device">waiting device</span>'
    assert ">Entwurf</span>" in german.get(reverse("admin:agents_agent_changelist")).content.decode()
    page = german.get(reverse("admin:agents_agent_show_versions", args=[agent.pk]))
    assert page.context["title"] == "Versionen von „librarian“"


def unmarked(path):
    """Texts that an admin says and that are not marked for translation."""
    for node in ast.walk(ast.parse(path.read_text())):
        is_said = isinstance(node, ast.Call) and ast.unparse(node.func).startswith("messages.")
        for given in node.args[1:] if is_said else ():
            yield from (
                text for text in code_texts.within(given) if re.search("[A-Za-z]{2}", code_texts.PLACE.sub("", text))
            )


def test_what_the_admin_says_is_marked():
    paths = [*ROOT.glob("*/admin.py"), *ROOT.glob("*/admin/*.py")]
    assert {path.name: texts for path in paths if (texts := list(unmarked(path)))} == {}
    assert len(paths) > 15


def test_the_api_gives_names_in_english(alice_api, make_run, client, monkeypatch):
    monkeypatch.setattr(schema, "documents", schema.Documents())
    text = client.get("/api/schema/?format=json", headers={"Accept-Language": "de"}).content.decode()
    assert "What it does, in one sentence; used by the router." in text and "für den Router" not in text
    path = f"/api/v1/runs/{make_run().pk}/"
    assert alice_api.get(path, HTTP_ACCEPT_LANGUAGE="de").json()["priority"] == "person"
    usual, asked = (alice_api.options("/api/v1/agents/", HTTP_ACCEPT_LANGUAGE=name) for name in ("en", "de"))
    assert usual.content == asked.content


def test_the_index_of_the_admin_is_in_german_and_an_english_one_would_be_found(german, signed_in, site_admin):
    assert english(german.get(reverse("admin:index")).content.decode()) == []
    Preference.objects.update(language="en")
    assert "Automatic starts" in english(german.get(reverse("admin:index")).content.decode())


def test_names_stay_english_where_they_are_kept():
    with translation.override("de"):
        assert (str(Run._meta.verbose_name), Run._meta.verbose_name_raw) == ("Lauf", "run")
        assert str(Tool._meta.get_field("description").verbose_name) == "Beschreibung"
        assert Agent(memory=Agent.Memory.values[0]).get_memory_display() != Agent.Memory.labels[0]
    assert list(names.names()) and str(Run._meta.verbose_name) == "run"


def test_migrations_do_not_see_the_names():
    with translation.override("de"):
        call_command("makemigrations", "--check", "--dry-run", verbosity=0)
