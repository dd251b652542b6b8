"""The documentation in the app: every page, its links and anchors, and the “?” of each page."""

import re

import pytest
from django.urls import get_resolver

from agents.models import Preference
from studio import help, help_topics


@pytest.mark.parametrize("name", sorted(help.places()))
def test_every_link_of_every_document_leads_somewhere(name):
    document = help.find_document(name)
    for href in re.findall(r'href="([^"]*)"', document.html):
        if href.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = href.partition("#")
        target = document if not path else help.find_document(path.removeprefix("/help/").strip("/") or help.START)
        assert target is not None, href
        assert not anchor or f'id="{anchor}"' in target.html, href


def test_a_document_is_served_with_headings_and_without_markup_of_its_own(alice, signed_in):
    answer = signed_in(alice).get("/help/models/")
    html = answer.content.decode()
    assert "<h1>Configure models</h1>" in html and 'id="private-addresses"' in html and 'href="#cost"' in html
    assert " style=" not in html and "<script>" not in html
    assert signed_in(alice).get("/help/").status_code == 200


def test_a_german_reader_learns_that_the_documents_are_in_english(alice, signed_in):
    words = "Die Dokumentation ist auf Englisch."
    assert words not in signed_in(alice).get("/help/models/").content.decode()
    Preference.objects.create(user=alice, language="de")
    assert words in signed_in(alice).get("/help/models/").content.decode()


def test_an_english_reader_is_not_told_the_language(alice, signed_in):
    assert "The documentation is in English." not in signed_in(alice).get("/help/models/").content.decode()


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_columns_of_a_document_are_its_contents_and_its_text(language, alice, signed_in):
    """Anything else in the grid takes a column of the text."""
    Preference.objects.create(user=alice, language=language)
    html = signed_in(alice).get("/help/models/").content.decode()
    before_text = html[html.index('<div class="doc">') : html.index("<article>")]
    assert re.findall(r"<(nav|p|section)\b", before_text) == ["nav"]


def test_html_in_a_document_is_text():
    html = help.reader().render("<script>alert(1)</script> [x](javascript:alert(1)) ![<b>](x.png)\n\n<b>y</b>")
    assert "<script" not in html and 'href="javascript' not in html and "<b>" not in html and "<img" not in html


@pytest.mark.parametrize("name", ["nothing", "..", "../settings", "howto", "%00", "a" * 300])
def test_what_is_no_document_is_not_there(name, alice, signed_in):
    assert signed_in(alice).get(f"/help/{name}/").status_code == 404


def test_the_help_asks_to_sign_in(client, db):
    assert client.get("/help/models/").status_code == 302


def test_each_topic_is_a_document_and_a_page():
    routes = {pattern.name for pattern in get_resolver("studio.urls").url_patterns}
    assert set(help_topics.TOPICS) <= routes
    assert set(help_topics.TOPICS.values()) <= set(help.places())


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/runs/", "runs"),
        ("/schedules/", "schedules"),
        ("/providers/", "models"),
        ("/playground/", "chat"),
        ("/collections/", "collections"),
        ("/memory/", "memory"),
        ("/prompts/", "chat"),
        ("/connections/", "connections"),
    ],
)
def test_the_question_mark_opens_the_right_document(path, topic, alice, signed_in):
    assert f'href="/help/{topic}/"' in signed_in(alice).get(path).content.decode()
