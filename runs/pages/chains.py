"""The pages of chains: a list, and one chain with its picture, a start form, and its newest runs."""

from typing import Any

from django import forms
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from agents.exceptions import MusterError
from agents.models import Chain
from agents.models.team import SLUG
from runs.intake import messages as intake
from runs.models import Run

from .base import by_name, page, pretty, signed_in

BLANK = {"string": "", "number": 0, "integer": 0, "boolean": False, "array": [], "object": {}, "null": None}


class StartForm(forms.Form):
    input = forms.JSONField(
        required=False, widget=forms.Textarea(attrs={"rows": 8, "class": "code", "spellcheck": "false"}),
        help_text="JSON that matches the chain's input schema.",
    )  # fmt: skip


@signed_in
def chain_list(request: HttpRequest) -> HttpResponse:
    """Ordered by name; the search covers names and descriptions."""
    rows = Chain.objects.visible_to(request.user).select_related("published", "owner").annotate(total=Count("steps"))
    found, around = by_name(request, rows)
    return page(request, "chains.html", "Chains", chains=found, **around)


@signed_in
def chain_page(request: HttpRequest, name: str) -> HttpResponse:
    """POST starts the published version and redirects to its run."""
    if not SLUG.regex.match(name):
        raise Http404("There is no chain with that name.")
    chain = Chain.objects.select_related("published", "owner").named(request.user, name)
    form = StartForm(request.POST if request.method == "POST" else None, initial={"input": blank(chain.input_schema)})
    if form.is_bound and form.is_valid():
        try:
            run = intake.start_chain(user=request.user, chain=chain, input=form.cleaned_data["input"])
        except MusterError as error:
            form.add_error("input", " ".join(word for word in (str(error), *reasons(error)) if word))
        else:
            return redirect("page:run", pk=run.pk)
    newest = Run.objects.visible_to(request.user).filter(chain_version__chain=chain)
    answer = page(
        request, "chain.html", chain.name, chain=chain, form=form, schema=pretty(chain.input_schema or {}),
        runs=list(newest.select_related("agent", "chain_version__chain").order_by("-pk")[:8]),
    )  # fmt: skip
    answer.status_code = 422 if form.is_bound else 200
    return answer


def blank(schema: dict[str, Any] | None) -> Any:
    """An empty value of the schema's shape, as a starting point."""
    fields = (schema or {}).get("properties") or {}
    return {name: about.get("default", BLANK.get(str(about.get("type")), "")) for name, about in fields.items()}


def reasons(error: MusterError) -> list[str]:
    return [str(one.get("message", "")) for one in error.details if isinstance(one, dict)][:3]
