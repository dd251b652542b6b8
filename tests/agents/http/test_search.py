"""Every `?search=` finds words in every spelling of Unicode, on both databases."""

import unicodedata
from pathlib import Path

import pytest
from django.conf import settings

from agents.http.filters import filter_by_words
from agents.models import Agent
from runs.models import Message, Run, Session
from studio.conversations.conversation import history

TEXTS = {
    "chinese": "退货须在三十天内办理",
    "composed": "Le café ferme",
    "decomposed": unicodedata.normalize("NFD", "Une école à Orléans"),
    "street": "Unsere Straße heißt so",
    "capitals": "FUSSBALLPLATZ GEÖFFNET",
}
QUESTIONS = {
    "三十天": "chinese", "CAFÉ": "composed", unicodedata.normalize("NFD", "café"): "composed", "école": "decomposed",
    "ÉCOLE orléans": "decomposed", "STRASSE": "street", "strasse": "street", "Fußballplatz": "capitals",
    "geöffnet": "capitals",
}  # fmt: skip
questions = pytest.mark.parametrize(("question", "wanted"), QUESTIONS.items(), ids=ascii)


@questions
def test_the_lists_of_agents_and_conversations_are_searched_alike(question, wanted, alice, alice_api, offline):
    for name, text in TEXTS.items():
        agent = Agent.objects.create(owner=alice, name=name, description=text, provider=offline)
        Session.objects.create(owner=alice, agent=agent, title=text)
    agents = alice_api.get("/api/v1/agents/", {"search": question}).json()["results"]
    sessions = alice_api.get("/api/v1/sessions/", {"search": question}).json()["results"]
    assert [row["name"] for row in agents] == [wanted]
    assert [row["title"] for row in sessions] == [TEXTS[wanted]]
    assert [row.title for row in history(alice, None, question)] == [TEXTS[wanted]]


@questions
def test_messages_are_searched_alike(question, wanted, alice, alice_api, offline):
    agent = Agent.objects.create(owner=alice, name="helper", provider=offline)
    session = Session.objects.create(owner=alice, agent=agent)
    runs = {}
    for number, (name, text) in enumerate(TEXTS.items()):
        runs[name] = Run.objects.create(principal=alice, agent=agent, session=session, status="succeeded")
        content = [{"type": "text", "text": f"Please read: {text}"}]
        Message.objects.create(session=session, seq=number, role="user", run=runs[name], content=content)
    found = alice_api.get("/api/v1/runs/", {"text": question}).json()["results"]
    assert [row["id"] for row in found] == [str(runs[wanted].pk)]


@questions
def test_tasks_and_notes_are_searched_alike(question, wanted, alice_api):
    for text in TEXTS.values():
        answer = alice_api.post("/api/v1/records/tasks/", {"title": text})
        assert answer.status_code == 201, answer.content
    found = alice_api.get("/api/v1/records/", {"search": question}).json()["results"]
    assert [row["title"] for row in found] == [TEXTS[wanted]]


def test_a_search_has_a_bounded_number_of_words(alice, offline):
    Agent.objects.create(owner=alice, name="one", provider=offline)
    assert filter_by_words(Agent.objects.all(), "one " * 10 + "two", "name").count() == 1
    assert filter_by_words(Agent.objects.all(), "\0 one", "name").count() == 1
    assert filter_by_words(Agent.objects.all(), "100%", "name").count() == 0


def test_no_other_code_compares_words_of_a_search():
    """`icontains` alone finds É only as it was typed; the second file compares text inside JSON."""
    apps = ("agents", "connectors", "devices", "functions", "gateway", "knowledge", "registry", "runs", "studio")
    files = [path for app in apps for path in Path(settings.BASE_DIR, app).rglob("*.py")]
    using = {str(path.relative_to(settings.BASE_DIR)) for path in files if "icontains" in path.read_text()}
    assert using == {"agents/http/filters.py", "runs/models/figures/matching.py"}
