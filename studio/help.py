"""The documentation, served by the app: what the “?” of each page opens.

The pages are the Markdown files of `docs/`. They are part of the program, never a user's text; HTML
in them is escaped all the same. Each is rendered once in a process.
"""

import posixpath
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from .base import render_shell_page, require_login

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDERS = ("howto", "reference", "adr", ".")
START = "index"


@dataclass(frozen=True)
class Document:
    title: str
    html: SafeString
    # (anchor, words) of each second-level heading.
    headings: tuple[tuple[str, str], ...]


@require_safe
@require_login
def help_page(request: HttpRequest, name: str = START) -> HttpResponse:
    document = find_document(name)
    if document is None:
        raise Http404("There is no such page of the documentation.")
    answer = render_shell_page(request, "help.html", document.title, document=document, is_index=name == START)
    answer["Cache-Control"] = "private, max-age=300"
    return answer


@cache
def places() -> dict[str, str]:
    """The name of each page in an address → its file below `docs/`: `models` → `howto/models.md`."""
    files: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted((DOCS / folder).glob("*.md")):
            name = path.stem
            if folder in ("reference", "adr"):
                name = f"{folder}-{path.stem}"
            # Folders that come first win: a guide has the short name.
            files.setdefault(name, path.relative_to(DOCS).as_posix())
    return files


@cache
def get_help_names() -> dict[str, str]:
    return {path: name for name, path in places().items()}


def find_document(name: str) -> Document | None:
    return render_page(name) if name in places() else None


@cache
def render_page(name: str) -> Document:
    path = places()[name]
    folder = posixpath.dirname(path)
    text = (DOCS / path).read_text(encoding="utf-8")
    markdown = reader()
    tokens = markdown.parse(text)
    title = name
    # A heading is three tokens: opening, words, closing. The page shows the title itself.
    if tokens and tokens[0].tag == "h1":
        title = get_inline_text(tokens[1])
        tokens = tokens[3:]
    headings = anchors(tokens)
    for token in tokens:
        rewrite_links(token, folder)
    html = markdown.renderer.render(tokens, markdown.options, {})
    # The files are our own, and the reader escapes HTML in them.
    return Document(title, mark_safe(html), headings)  # noqa: S308


def rewrite_links(token: Token, folder: str) -> None:
    """Links between the files lead to pages of this app."""
    for part in token.children or ():
        if part.type == "link_open":
            href = str(part.attrs.get("href", ""))
            part.attrs["href"] = build_help_address(href, folder)


@cache
def reader() -> MarkdownIt:
    """CommonMark with tables. Raw HTML is shown as text."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("fence", code_block)
    markdown.add_render_rule("code_block", code_block)
    # A wide table scrolls by itself instead of widening the page.
    markdown.add_render_rule("table_open", lambda *_: f"{SCROLL}<table>")
    markdown.add_render_rule("table_close", lambda *_: "</table></div>")
    # Pictures are not served: their description stands for them.
    markdown.add_render_rule("image", lambda self, tokens, at, *_: escape(tokens[at].content))
    return markdown


SCROLL = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'


def code_block(self: Any, tokens: list[Token], at: int, options: Any, env: Any) -> str:
    return f'<pre class="json" tabindex="0"><code>{escape(tokens[at].content)}</code></pre>\n'


def anchors(tokens: list[Token]) -> tuple[tuple[str, str], ...]:
    """Gives each heading the id that links use (as in the built documentation), and lists those of the second level."""
    counts: dict[str, int] = {}
    listed: list[tuple[str, str]] = []
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        words = get_inline_text(inline)
        anchor = slug = make_slug(words)
        # The second heading of the same words is slug_1, as MkDocs counts.
        earlier_count = counts.get(slug, 0)
        if earlier_count:
            anchor = f"{slug}_{earlier_count}"
        counts[slug] = earlier_count + 1
        opening.attrs["id"] = anchor
        if opening.tag == "h2":
            listed.append((anchor, words))
    return tuple(listed)


def make_slug(words: str) -> str:
    letters = re.sub(r"[^\w\s-]", "", words).strip().lower()
    return re.sub(r"[-\s]+", "-", letters)


def get_inline_text(inline: Token) -> str:
    """The text of a heading without its marks."""
    parts = inline.children or ()
    return "".join(part.content for part in parts if part.type in ("text", "code_inline"))


def build_help_address(href: str, folder: str) -> str:
    """A link between files as an address of this app. A file that is not served leads to the start."""
    if re.match(r"[a-z]+:", href) or href.startswith(("#", "/")):
        return href
    path, _, anchor = href.partition("#")
    target = posixpath.normpath(posixpath.join(folder, path))
    name = get_help_names().get(target)
    if name is None:
        return reverse("page:help")
    url = reverse("page:help-page", args=[name])
    return f"{url}#{anchor}" if anchor else url
