"""Texts that a person sees are marked for translation: those of templates, and those of scripts."""

import re
from html.parser import HTMLParser

import pytest

from tests.docs.messages import ROOT

TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
PARTS = ("vendor/", "editor/", "embed/")  # the embedded chat takes its words from attributes of its script
CODE = ("snippets.js", "agent/use.js")  # programs to copy, which are the same in every language
SCRIPTS = [
    path
    for path in sorted((ROOT / "static/muster").rglob("*.js"))
    if not any(part in str(path.relative_to(ROOT / "static")) for part in (*PARTS, *CODE))
]
MARKED = re.compile(
    r"\{% blocktranslate.*?endblocktranslate %\}|\{% comment.*?endcomment %\}|\{% block body_class %\}.*?\{% endblock %\}|\{#.*?#\}",
    re.DOTALL,
)
TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
WORD = re.compile(r"[A-Za-z]{2,}")
SEEN = {"aria-label", "placeholder", "title", "alt", "data-confirm", "data-ask", "data-label"}
NAMES = re.compile(
    r"\b(Muster|API|JSON|Python|Ctrl|Enter|Delete|Alt|Shift|ms|MB|kB|v\d*|curl|nbsp|ok|muster-device.*|JMESPath|SKILL\.md|skills/pdf)\b|https?://\S*"
)
LITERAL = r"""(?:"([^"\n]*)"|'([^'\n]*)'|`([^`\n]*)`)"""
SHOWN = re.compile(r"\b(?:textContent|ariaLabel|placeholder|title|alt)(?:: | = )" + LITERAL)
SAID = re.compile(r"\b(?:tell|confirm|prompt|alert)\(" + LITERAL)
SENTENCE = re.compile(r"""(?<!gettext\()"([A-Z][a-z’']+ [a-z][^"\n]*)\"""")


class Texts(HTMLParser):
    """Collects text nodes, and attributes that are read out or shown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.code = 0

    def handle_starttag(self, tag, attrs):
        self.code += tag in ("script", "style", "pre", "code", "kbd")
        self.found += [value for name, value in attrs if name in SEEN and value]

    def handle_endtag(self, tag):
        self.code -= tag in ("script", "style", "pre", "code", "kbd")

    def handle_data(self, data):
        if not self.code:
            self.found.append(data)


def unmarked(source):
    parser = Texts()
    parser.feed(TAG.sub(" ", MARKED.sub(" ", source)))
    return [text.strip() for text in parser.found if WORD.search(NAMES.sub("", text))]


def test_a_text_without_a_mark_is_found():
    assert unmarked('<p class="soft">Hello {{ name }}</p>') == ["Hello"]
    assert unmarked("""<a title="Go on">{% translate "Go" %}</a>""") == ["Go on"]
    assert unmarked("<p>{% blocktranslate %}Hello{% endblocktranslate %} <kbd>Ctrl S</kbd></p>") == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_text_of_a_template_is_marked(path):
    assert unmarked(path.read_text()) == [], "put it into {% translate %} or {% blocktranslate %}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_text_of_a_script_is_marked(path):
    source = re.sub(r"^\s*(//|\*|/\*\*).*$|/\*\*.*?\*/|\s// .*$", "", path.read_text(), flags=re.MULTILINE)
    source = re.sub(r'ngettext\("[^"]*", "[^"]*"', "", source)
    shown = ["".join(groups) for groups in (*SHOWN.findall(source), *SAID.findall(source))]
    shown = [re.sub(r"\$\{.*\}", "", text) for text in shown]
    found = [*(text for text in shown if WORD.search(NAMES.sub("", text))), *SENTENCE.findall(source)]
    assert found == [], "put it into gettext() of texts.js"
