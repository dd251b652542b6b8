"""States, kinds and choices in the person's language. Models and the API keep them in English; the words are listed
here so that `make messages` finds them, and a test compares the list with the models.
"""

import re
from typing import Any

from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as known

from knowledge.models import Chunk
from plumbing.texts import translate, translate_name
from runs.models import Schedule
from runs.rules.crontab_words import describe_crontab

STATES = (
    known("queued"), known("ready"), known("running"), known("waiting"), known("succeeded"), known("partial"),
    known("failed"), known("cancelled"), known("expired"), known("skipped"), known("ok"), known("denied"),
    known("unknown"), known("open"), known("approved"), known("rejected"), known("void"), known("suggested"),
    known("sent"), known("acked"), known("done"), known("due"), known("waiting device"), known("waiting overlap"),
    known("started"), known("missed"), known("refused"), known("coming"), known("online"), known("offline"),
    known("away"), known("revoked"), known("active"), known("archived"), known("error"), known("timeout"),
    known("paused"), known("deny"), known("approve"), known("new"), known("live"), known("draft"), known("answered"),
    known("pending"), known("indexing"), known("declined"), known("enabled"), known("disabled"),
    known("never connected"), known("off"), known("untested"), known("failing"), known("deactivated"),
)  # fmt: skip
KINDS = (
    known("message"), known("schedule"), known("event"), known("agent"), known("chain"), known("device"),
    known("manual"), known("external"), known("memory"), known("task"), known("note"), known("timeline"),
    known("project"), known("comment"), known("model"), known("tool"), known("step"), known("child"), known("approval"),
    known("another run"), known("input"), known("fact"),
    known("provider"), known("prompt"), known("stored function"), known("skill"), known("secret"), known("collection"),
    known("team"), known("file"),
    known("webhook"), known("grant"), known("api key"), known("Agent"), known("Chain"), known("preference"),
    known("pure"), known("read"), known("read out"), known("idempotent"), known("write"), known("sends out"),
    known("destructive"), known("days"), known("hours"), known("minutes"), known("seconds"), known("microseconds"),
    known("ToDo"), known("In Progress"), known("Completed"), known("low"), known("medium"), known("high"),
    known("Stored function"), known("Cloud connector"), known("On the user's device"), known("Another agent (minion)"),
    known("A chain"), known("MCP server"), known("HTTP operation"), known("Remote agent (A2A)"),
    known("Memory or collection"), known("Built in"), known("Skill"),
)  # fmt: skip
CHOICES = (
    known("Reads only"), known("Reads, and its arguments leave the site (a URL, a search query)"),
    known("Safe to repeat"), known("Changes something"), known("Sends something"), known("Cannot be undone"),
    known("Skip missed starts"), known("Start once for all missed starts"),
    known("Start each one missed within the window"), known("Skip it"), known("Wait for the earlier run to end"),
    known("Cancel the earlier run"), known("Start it in parallel"), known("None: every message stands alone"),
    known("The last messages"), known("A running summary and the last messages"),
    known("Off: nothing is put into its prompts"), known("What it remembers waits for the person’s approval"),
    known("What it remembers holds at once"), known("Off"), known("Its facts wait for the person’s approval"),
    known("Its facts hold at once"), known("Graph: steps follow their needs"),
    known("One after the other"), known("All at once"), known("The first whose condition holds"),
    known("One for each agent's step"),
    known("One for the whole run, in which each step changes agent, tools and instructions"),
    known("Viewer"), known("Operator"), known("Author"), known("Administrator"), known("OpenAI-compatible server"),
    known("Offline (no language model)"), known("Outlook mail"), known("HTTP service (OpenAPI)"),
    known("never used"), known("works"), known("login expires soon: reconnect"), known("not working: reconnect"),
    known("All"), known("Mine"), known("Shared with a team"), known("The site's"), known("To decide"),
    known("Suggested"), known("Approved"), known("Rejected"), known("Native tool calls"),
    known("JSON-Schema-constrained (small local models)"),
    known("the person, with every agent"), known("the person, with one agent"),
    known("an agent, for everyone who uses it"), known("a team"), known("Fact"), known("Event"),
    known("preference (in every prompt while there is room)"), known("waiting for its owner"),
    known("sent with the request"), known("a file of its owner"),
    known("uploaded by its owner"), known("made by a run"), known("files of a skill"),
)  # fmt: skip
# In the history of records and memories.
DONE = (
    known("created"), known("changed"), known("suggested a change"), known("forgotten"), known("rolled back"),
)  # fmt: skip
# Labels that forms make of the names of their fields.
FIELDS = (
    known("Name"), known("Kind"), known("Agent"), known("Source"), known("Provider"), known("Value"), known("Hosts"),
    known("Header"), known("Template"), known("Origins"), known("Title"), known("Greeting"), known("Colour"),
    known("Enabled"), known("Default model"), known("Base url"), known("Api key"), known("Team"),
)  # fmt: skip
# What errors say that have no message of their own: their docstrings.
REFUSALS = (
    known("Too many requests."),
    known("This is more than the site allows."),
    known("What this run held was deleted."),
    known("A newer Muster published this; `format` is the number that a process must know to read it."),
    known("There is nothing with this name that you can see."),
    known("A required service is down or busy; try again."),
    known("The body is valid JSON, but violates a schema or a rule."),
    known("You can see this, but you are not allowed to change it."),
    known("It has been changed since you read it."),
    known("It conflicts with an earlier or concurrent change."),
    known("The provider's server did not list its models."),
    known("The agent cannot be built from its rows; its author has to change something."),
    known("This agent has no published version, or is switched off."),
    known("The input does not match the schema."),
    known("This session is closed."),
    known("This input request is no longer open."),
    known("The provider of this agent is switched off."),
    known("This session is working on another message."),
    known("This Idempotency-Key was used with another body."),
    known("This run has ended."),
    known("This approval is no longer open."),
    known("This run is no longer stored: it was deleted, or the database lost what was written last."),
    known("This link has expired."),
    known("The signature of this call is not valid."),
    known("This run cannot be claimed now."),
    known("This claim does not hold the run: it never did, or it was silent too long and was replaced."),
)
# In documents, before a number or the name of a sheet or file.
PLACES = (
    known("page"), known("part"), known("line"), known("sheet"), known("slide"), known("attachment"),
    known("attachments"), known("picture"), known("pictures"), known("message"), known("document"), known("symbols"),
)  # fmt: skip
TIMES = re.compile(r" \((\d+) times\)$")
# The same in every language.
NAMES = ("OpenAI", "Anthropic", "Google Gemini", "Ollama", "Gmail", "Microsoft Teams")


def render_label(text: Any) -> str:
    """A state, kind or label as people read it; a word that is not listed, such as a name, stays as it is."""
    if isinstance(text, Promise) or not text:
        return str(text)
    return gettext(str(text).replace("_", " "))


def timing(schedule: Schedule) -> str:
    """`Schedule.timing_in_words`, which the API gives in English, in the person's language."""
    if schedule.line:
        return describe_crontab(schedule.line, get_language())
    if schedule.interval:
        period = render_label(schedule.interval.period)
        return gettext("Every %(number)s %(period)s") % {"number": schedule.interval.every, "period": period}
    if schedule.clocked:
        moment = date_format(schedule.clocked.clocked_time, "DATETIME_FORMAT")
        return gettext("Once, at %(at)s UTC") % {"at": moment}
    return ""


def in_language(choices: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """The choices of a model with their labels in the person's language."""
    return [(value, translate_name(str(label))) for value, label in choices]


def name_place(place: str) -> str:
    """A place in a document, such as “sheet Sales, picture (2 times)”. Names of sheets and files stay as they are."""
    times = TIMES.search(place)
    if times:
        counted = name_place(place[: times.start()])
        return gettext("%(place)s (%(number)s times)") % {"place": counted, "number": times[1]}
    return ", ".join(name_step(step) for step in place.split(", "))


def name_step(step: str) -> str:
    """One part of a place: “page 3”, “sheet Sales”, or a word of ours."""
    kind, space, name = step.partition(" ")
    if kind in PLACES:
        return f"{gettext(kind)}{space}{name}"
    return translate(step)


def name_piece(piece: Chunk) -> str:
    """The place of a piece of text. A heading is text of the document."""
    own = piece.place.removesuffix(piece.heading)
    return name_place(own) + piece.heading
