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

from ..base import page, pretty, read_uuid, signed_in
from ..labels import words
from .runs import JOINS
from .waterfall import name_target

MOST = 200  # steps, and tool calls, of each run
LONGEST = 20_000  # characters of one value


@dataclass
class Row:
    """One line of the comparison. An empty side has nothing that corresponds to the other."""

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        return self.left != self.right


@signed_in
def compare(request: HttpRequest) -> HttpResponse:
    """`?run=…&run=…`: two runs that the person can see."""
    left, right = found(request)
    usages = totals.with_children([left, right])
    models, words = find_models(left, right), find_words(left, right)
    return page(
        request,
        "run_compare.html",
        _("Two runs compared"),
        left=left,
        right=right,
        figures=figures(left, right, usages, models),
        texts=[*texts(left, right, words), *outputs(left, right)],
        steps=steps(left, right),
        calls=calls(left, right),
    )


def found(request: HttpRequest) -> tuple[Run, Run]:
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


def find_words(*runs: Run) -> dict[tuple[UUID, str], str]:
    """The first message of the person, and the last answer."""
    rows = Message.objects.filter(run__in=runs, role__in=(Message.Role.USER, Message.Role.ASSISTANT)).order_by("seq")
    words: dict[tuple[UUID, str], str] = {}
    for row in rows[:MOST]:
        key = (row.run_id, str(row.role))
        if row.role == Message.Role.ASSISTANT or key not in words:
            words[key] = row.words or words.get(key, "")
    return words


def figures(left: Run, right: Run, usages: dict[UUID, Any], models: dict[UUID, str]) -> list[Row]:
    def row(name: str, value: Any) -> Row:
        return Row(name, str(value(left)), str(value(right)))

    return [
        row(_("Agent or chain"), name_target),
        row(_("Version"), version_label),
        row(_("Model"), lambda run: models.get(run.pk, "–")),
        row(_("State"), lambda run: words(run.status)),
        row(_("Started by"), lambda run: words(run.trigger)),
        row(_("Seconds"), lambda run: "–" if run.took_s is None else f"{run.took_s:.2f}"),
        row(_("Turns"), lambda run: run.turns),
        row(_("Tokens in"), lambda run: usages[run.pk].input_tokens),
        row(_("Tokens out"), lambda run: usages[run.pk].output_tokens),
        row(_("Cost"), lambda run: money.dollars(usages[run.pk].cost)),
    ]


def version_label(run: Run) -> str:
    version = run.version or run.chain_version
    if version is None:
        return "–"
    return _("draft") if getattr(version, "is_draft", False) else f"v{version.number}"


def texts(left: Run, right: Run, words: dict[tuple[UUID, str], str]) -> list[Row]:
    def of(run: Run, role: str) -> str:
        return words.get((run.pk, role), "")[:LONGEST]

    rows = [
        Row(_("Message"), of(left, "user"), of(right, "user")),
        Row(_("Input"), value(left.input), value(right.input)),
        Row(_("Answer"), of(left, "assistant"), of(right, "assistant")),
    ]
    return [row for row in rows if row.left or row.right]


def outputs(left: Run, right: Run) -> list[Row]:
    rows = [
        Row(_("Output"), value(left.output), value(right.output)),
        Row(_("Error"), value(left.error), value(right.error)),
    ]
    return [row for row in rows if row.left or row.right]


def value(content: Any) -> str:
    return "" if content is None else pretty(content)[:LONGEST]


def steps(left: Run, right: Run) -> list[Row]:
    """By their key and item, in the order in which either run reached them."""
    described: dict[UUID, dict[tuple[str, int], str]] = {left.pk: {}, right.pk: {}}
    for run in (left, right):
        for step in StepRun.objects.filter(run=run).order_by("id")[:MOST]:
            described[run.pk][step.key, step.item] = facts(
                state=step.status, input=step.input, output=step.output, error=step.error
            )
    keys = dict.fromkeys([*described[left.pk], *described[right.pk]])
    return [
        Row(
            f"{key}[{item}]" if item >= 0 else key,
            described[left.pk].get((key, item), ""),
            described[right.pk].get((key, item), ""),
        )
        for key, item in keys
    ]


def calls(left: Run, right: Run) -> list[Row]:
    """Tool calls with the same name stand beside each other, in the order of the calls."""
    one, two = (list(ToolCallRecord.objects.filter(run=run).order_by("id")[:MOST]) for run in (left, right))
    matcher = SequenceMatcher(None, [call.name for call in one], [call.name for call in two], autojunk=False)
    pairs: list[tuple[Any, Any]] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            pairs += zip(one[a:b], two[c:d], strict=True)
        else:
            pairs += [*((call, None) for call in one[a:b]), *((None, call) for call in two[c:d])]
    return [Row((first or second).name, call_facts(first), call_facts(second)) for first, second in pairs]


def call_facts(call: ToolCallRecord | None) -> str:
    if call is None:
        return ""
    return facts(outcome=call.outcome, arguments=call.arguments, result=call.result, error=call.error)


def facts(**values: Any) -> str:
    return "\n".join(f"{name}: {pretty(value)}" for name, value in values.items() if value not in (None, ""))[:LONGEST]
