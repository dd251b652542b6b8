"""Template tags for words and numbers."""

import json
import posixpath
import re
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from django import template
from django.contrib.staticfiles import finders
from django.template.defaultfilters import filesizeformat
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext

from plumbing.texts import translate
from runs.models.figures import money
from studio.activity.waterfall import name_target
from studio.base import pretty
from studio.labels import name_piece, name_place, render_label, timing
from studio.owner_urls import address

register = template.Library()
# Of numbers, in place of those of English.
SEPARATORS = {"de": str.maketrans(".,", ",.")}
register.filter("pretty", pretty)
register.filter("words", render_label)
register.filter("timing", timing)
register.filter("place", name_place)
register.filter("piece_place", name_piece)
register.filter("translate", translate)
register.simple_tag(address)


@register.filter
def in_short(details: dict[str, Any]) -> str:
    """A few facts on one line: {"version": 1, "sha256": "83f2…"} → version 1, sha256 83f23f0d565f…"""
    facts = []
    for name, value in details.items():
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        # A long text without spaces is a hash or an id, whose beginning is enough.
        if len(text) > 40 and " " not in text:
            text = f"{text[:12]}…"
        facts.append(f"{name.replace('_', ' ')} {text}")
    line = ", ".join(facts)
    if len(line) > 140:
        return f"{line[:139]}…"
    return line


def localize_number(number: str) -> str:
    """A number that is written in English, with the separators of the page's language; numbers.js does the same."""
    separators = SEPARATORS.get(get_language() or "", {})
    return number.translate(separators)


@register.filter
def decimal(value: float | None, digits: int) -> str:
    """1.5 → 1.50 with two digits, and 1,50 on German pages."""
    if value is None:
        return "–"
    return localize_number(f"{value:.{digits}f}")


@register.filter
def size(value: int) -> str:
    """2097152 bytes → 2.0 MB, and 2,0 MB on German pages."""
    return localize_number(filesizeformat(value))


@register.filter
def whole(value: int) -> str:
    """1234 → 1,234"""
    return localize_number(f"{value:,}")


@register.filter
def seconds(value: float | None) -> str:
    """0.0123 → 12 ms; 83 → 1 min 23 s; None → –."""
    if value is None:
        return "–"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return localize_number(f"{value:.1f} s")
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@register.filter
def milliseconds(value: float | None) -> str:
    return "–" if value is None else seconds(value / 1000)


@register.filter
def dollars(value: Any) -> str:
    """$1,234.50, and 1.234,50 $ on German pages."""
    text = money.format_dollars(value)
    if get_language() != "de" or "$" not in text:
        return text
    return f"{localize_number(text.replace('$', ''))}\N{NO-BREAK SPACE}$"


@register.filter
def percent(value: float | None) -> str:
    """0.25 → 25%, and 25 % on German pages."""
    if value is None:
        return "–"
    if get_language() == "de":
        return f"{value * 100:.0f}\N{NO-BREAK SPACE}%"
    return f"{value:.0%}"


@register.simple_tag
def at(moment: datetime | None, ago: bool = False) -> SafeString | str:
    """A time that the browser shows in the viewer's zone."""
    if moment is None:
        return "–"
    mark = SafeString(" data-ago") if ago else ""
    # What people without scripts read.
    words = moment.strftime("%Y-%m-%d %H:%M UTC")
    return format_html('<time datetime="{}"{}>{}</time>', moment.isoformat(), mark, words)


@register.simple_tag
def pill(status: str, note: str = "") -> SafeString:
    """A state as a coloured label: “waiting for approval”."""
    text = render_label(status)
    if note:
        text = gettext("%(state)s for %(what)s") % {"state": text, "what": render_label(note)}
    return format_html('<span class="pill {}">{}</span>', status, text)


@register.filter
def split(text: str, by: str) -> list[str]:
    return text.split(by)


@register.simple_tag
def preload_modules(script: str) -> SafeString:
    """Links that let the browser fetch a script and all that it imports at once, not one import after the other."""
    links = [format_html('<link rel="modulepreload" href="{}">', static(path)) for path in list_modules(script)]
    return SafeString("".join(links))


IMPORT = re.compile(r'^(?:import|export)\b[^"\n]*"(\.{1,2}/[^"]+)"', re.MULTILINE)


@lru_cache(maxsize=64)
def list_modules(script: str) -> list[str]:
    """The script and the modules that it imports at its start, themselves and through others."""
    modules: list[str] = []
    waiting = [script]
    while waiting:
        path = waiting.pop()
        place = finders.find(path)
        if place is None or path in modules:
            continue
        modules.append(path)
        folder = posixpath.dirname(path)
        for imported in IMPORT.findall(Path(place).read_text()):
            waiting.append(posixpath.normpath(posixpath.join(folder, imported)))
    return modules


@register.filter
def who_ran(run: Any) -> str:
    """The name of the agent or chain of a run."""
    return name_target(run)
