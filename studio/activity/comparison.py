"""Two runs side by side, with their differences marked."""

from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from runs.models import Message, ModelCall, Run, StepRun, ToolCallRecord
from runs.models.figures import money, totals

from ..base import pretty, read_uuid, render_shell_page, require_login
from ..labels import render_label
from .runs import JOINS
from .waterfall import name_target

# steps, and tool calls, of each run.
MOST = 200
# Characters of one value.
LONGEST = 20_000


@dataclass
class Row:
    """One line of the comparison. An empty side has nothing that corresponds to the other."""

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        return self.left != self.right


@require_login
def compare(request: HttpRequest) -> HttpResponse:
    """`?run=…&run=…`: two runs that the person can see."""
    left, right = load_compared_runs(request)
    usages = totals.with_children([left, right])
    models = find_models(left, right)
    words = load_compared_texts(left, right)
    return render_shell_page(
        request,
        "run_compare.html",
        _("Two runs compared"),
        left=left,
        right=right,
        figures=figures(left, right, usages, models),
        texts=texts(left, right, words),
        steps=steps(left, right),
        calls=build_call_rows(left, right),
    )


def load_compared_runs(request: HttpRequest) -> tuple[Run, Run]:
    """The older run first, in whatever order they were chosen."""
    ids = [read_uuid(text) for text in request.GET.getlist("run")[:3]]
    if len(ids) != 2 or None in ids or ids[0] == ids[1]:
        raise Http404("Choose two runs.")
    rows = Run.objects.all() if request.user.is_superuser else Run.objects.visible_to(request.user)
    by_id = rows.select_related(*JOINS).in_bulk(ids)
    if len(by_id) != 2:
        raise Http404("There is no such run that you can see.")
    first, second = sorted(by_id)
    return by_id[first], by_id[second]


def find_models(*runs: Run) -> dict[UUID, str]:
    names: dict[UUID, list[str]] = defaultdict(list)
    rows = ModelCall.objects.filter(run__in=runs).order_by("provider", "model_name")
    for pk, provider, model in rows.values_list("run_id", "provider", "model_name").distinct():
        names[pk].append(f"{provider} {model}".strip())
    return {pk: ", ".join(model_names) for pk, model_names in names.items()}


def load_compared_texts(*runs: Run) -> dict[tuple[UUID, str], str]:
    """The first message of the person, and the last answer."""
    roles = (Message.Role.USER, Message.Role.ASSISTANT)
    rows = Message.objects.filter(run__in=runs, role__in=roles).order_by("seq")
    words: dict[tuple[UUID, str], str] = {}
    for row in rows[:MOST]:
        key = (row.run_id, str(row.role))
        if row.role == Message.Role.ASSISTANT:
            # An answer that only calls tools has no words.
            words[key] = row.words or words.get(key, "")
        else:
            words.setdefault(key, row.words)
    return words


def figures(left: Run, right: Run, usages: dict[UUID, Any], models: dict[UUID, str]) -> list[Row]:
    """The lines with what both runs were and took."""
    return pair_lines(list_figures(left, usages[left.pk], models), list_figures(right, usages[right.pk], models))


def pair_lines(left: dict[str, str], right: dict[str, str]) -> list[Row]:
    """A line for each name that either side has, in the order in which it comes."""
    names = dict.fromkeys([*left, *right])
    return [Row(name, left.get(name, ""), right.get(name, "")) for name in names]


def list_figures(run: Run, usage: Any, models: dict[UUID, str]) -> dict[str, str]:
    seconds = "–" if run.took_s is None else f"{run.took_s:.2f}"
    return {
        _("Agent or chain"): name_target(run),
        _("Version"): version_label(run),
        _("Model"): models.get(run.pk, "–"),
        _("State"): render_label(run.status),
        _("Started by"): render_label(run.trigger),
        _("Seconds"): seconds,
        _("Turns"): str(run.turns),
        _("Tokens in"): str(usage.input_tokens),
        _("Tokens out"): str(usage.output_tokens),
        _("Cost"): str(money.format_dollars(usage.cost)),
    }


def version_label(run: Run) -> str:
    version = run.version or run.chain_version
    if version is None:
        return "–"
    if getattr(version, "is_draft", False):
        return _("draft")
    return f"v{version.number}"


def texts(left: Run, right: Run, words: dict[tuple[UUID, str], str]) -> list[Row]:
    """The lines with what went in and what came out, without those that are empty; `words` by run and role."""
    rows = pair_lines(list_texts(left, words), list_texts(right, words))
    return [row for row in rows if row.left or row.right]


def list_texts(run: Run, words: dict[tuple[UUID, str], str]) -> dict[str, str]:
    question = words.get((run.pk, "user"), "")
    answer = words.get((run.pk, "assistant"), "")
    return {
        _("Message"): question[:LONGEST],
        _("Input"): value(run.input),
        _("Answer"): answer[:LONGEST],
        _("Output"): value(run.output),
        _("Error"): value(run.error),
    }


def value(content: Any) -> str:
    if content is None:
        return ""
    return pretty(content)[:LONGEST]


def steps(left: Run, right: Run) -> list[Row]:
    """By their key and item, in the order in which either run reached them."""
    return pair_lines(describe_steps(left), describe_steps(right))


def describe_steps(run: Run) -> dict[str, str]:
    """The facts of each step by its name: “mail”, or “mail[2]” for an item of a step with several."""
    described: dict[str, str] = {}
    for step in StepRun.objects.filter(run=run).order_by("id")[:MOST]:
        name = f"{step.key}[{step.item}]" if step.item >= 0 else step.key
        described[name] = facts(state=step.status, input=step.input, output=step.output, error=step.error)
    return described


def build_call_rows(left: Run, right: Run) -> list[Row]:
    """Tool calls with the same name stand beside each other, in the order of the calls."""
    left_calls = load_calls(left)
    right_calls = load_calls(right)
    left_names = [call.name for call in left_calls]
    right_names = [call.name for call in right_calls]
    matcher = SequenceMatcher(None, left_names, right_names, autojunk=False)
    rows: list[Row] = []
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        left_part = left_calls[left_start:left_end]
        right_part = right_calls[right_start:right_end]
        if tag == "equal":
            for left_call, right_call in zip(left_part, right_part, strict=True):
                rows.append(Row(left_call.name, call_facts(left_call), call_facts(right_call)))
        else:
            rows += [Row(call.name, call_facts(call), "") for call in left_part]
            rows += [Row(call.name, "", call_facts(call)) for call in right_part]
    return rows


def load_calls(run: Run) -> list[ToolCallRecord]:
    return list(ToolCallRecord.objects.filter(run=run).order_by("id")[:MOST])


def call_facts(call: ToolCallRecord) -> str:
    return facts(outcome=call.outcome, arguments=call.arguments, result=call.result, error=call.error)


def facts(**values: Any) -> str:
    """A line for each value that there is."""
    lines = [f"{name}: {pretty(value)}" for name, value in values.items() if value not in (None, "")]
    return "\n".join(lines)[:LONGEST]
