"""The page of one run: waterfall, conversation, chain graph, live updates."""

import re
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import Conflict, MusterError
from agents.models import Chain, Provider, Tool
from runs.api import chain_pictures
from runs.intake import messages as intake
from runs.intake import options
from runs.intake import retry as retries
from runs.intake.parts import parse_run_ids
from runs.models import Artifact, Message, ModelCall, Run
from runs.models.figures import totals
from runs.queue import endings, workers

from ..base import add_refusal_message, render_shell_page, require_login
from ..conversations import memory, message_files
from ..owner_urls import mark_namesake
from .waterfall import waterfall

# The codes of errors that a model or its provider causes start with one of these.
MODEL_CODES = ("model_", "provider_", "private_address", "base_url_missing")
DOCUMENT_PLACE = re.compile(r"(?:/[\w.~-]+)*/collections/[a-z0-9-]+/documents/[0-9a-f-]{36}/\?at=\d+")
# So many calls of knowledge tools are searched for the sources of a run.
KNOWLEDGE_CALLS = 50
JOINS = ("agent", "version", "chain_version__chain", "session", "parent", "principal")


@require_login
def run_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One run. `?part=live` returns only what changes while it is in progress."""
    run = find_run(request, pk)
    run_messages = list(run.messages.exclude(role=Message.Role.TOOL).order_by("seq")[:20])
    message_files.place_attachments(run_messages, request.user.pk)
    usages = totals.with_children([run])
    artifacts = Artifact.objects.of_tree(run).select_related("file").order_by("id")
    graph = chain_pictures.draw_run_chain(run, is_alone=False) if run.chain_version_id else None
    earlier_runs = parse_run_ids([run.metadata.get(link) for link in ("retry_of", "again_of")])
    context = {
        "run": run,
        "starts_runs": run.children.exists(),
        "run_messages": run_messages,
        "usage": usages[run.pk],
        "options": options.serialize_options(run),
        "why_queued": workers.why_queued(run),
        "fall": waterfall(run),
        "sources": find_sources(run),
        "artifacts": list(artifacts[: message_files.LIMIT]),
        "graph": graph,
        "memory": memory.describe_run_memory(request, run),
        "may_read_raw": request.user.has_perm("runs.read_raw"),
        "is_mine": run.principal_id == request.user.pk,
        "provider": find_provider_to_check(request, run),
        "before": next(iter(earlier_runs), None),
    }
    template = "run_live.html" if request.GET.get("part") == "live" else "run.html"
    return render_shell_page(request, template, run_title(run), **context)


def find_sources(run: Run) -> list[dict[str, str]]:
    """The places in documents that the run searched or read, as [{"url", "title"}], in the order of its calls."""
    calls = run.tool_calls.filter(kind=Tool.Kind.KNOWLEDGE, outcome="ok").order_by("pk")
    by_url: dict[str, dict[str, str]] = {}
    for result in calls.values_list("result", flat=True)[:KNOWLEDGE_CALLS]:
        for source in find_places(result):
            by_url[source["url"]] = source
    return list(by_url.values())


def find_places(result: Any) -> list[dict[str, str]]:
    """The places in documents that one result names. A tool's result may be anything, and its addresses too."""
    if not isinstance(result, dict):
        return []
    hits = result.get("results", [result])
    if not isinstance(hits, list):
        return []
    places: list[dict[str, str]] = []
    for hit in hits:
        url = hit.get("url") if isinstance(hit, dict) else None
        if isinstance(url, str) and DOCUMENT_PLACE.fullmatch(url):
            places.append({"url": url, "title": str(hit.get("title", ""))})
    return places


def find_provider_to_check(request: HttpRequest, run: Run) -> Provider | None:
    """If the run failed because of its model: the provider of its agent, if this person can see it."""
    code = run.error.get("code", "") if run.error else ""
    if run.agent is None or not code.startswith(MODEL_CODES):
        return None
    providers = Provider.objects.visible_to(request.user).select_related("owner")
    provider = providers.filter(pk=run.agent.provider_id).first()
    if provider is None:
        return None
    return mark_namesake(request.user, provider)


def find_run(request: HttpRequest, pk: UUID) -> Run:
    """A superuser can open any run, other users their own."""
    rows = Run.objects.all() if request.user.is_superuser else Run.objects.visible_to(request.user)
    run = rows.select_related(*JOINS).filter(pk=pk).first()
    if run is None:
        raise Http404("There is no such run that you can see.")
    return run


def run_title(run: Run) -> str:
    if run.agent:
        name = run.agent.name
    elif run.chain_version and run.chain_version.chain:
        name = run.chain_version.chain.name
    else:
        return _("Run, not routed yet")
    return _("Run of %(name)s") % {"name": name}


@require_login
def raw_call(request: HttpRequest, pk: UUID, call: UUID) -> HttpResponse:
    """The raw request and answer of a model call, for users with that permission."""
    run = find_run(request, pk)
    model_call = ModelCall.objects.filter(run=run, pk=call).first()
    if model_call is None or not request.user.has_perm("runs.read_raw"):
        raise Http404("There is no such model call that you can read.")
    return render_shell_page(
        request, "raw.html", _("Turn %(turn)s, raw") % {"turn": model_call.turn}, run=run, call=model_call
    )


@require_login
def chain_picture(request: HttpRequest, pk: int) -> HttpResponse:
    """The draft of a chain, for users who can see it."""
    rows = Chain.objects.all() if request.user.is_superuser else Chain.objects.visible_to(request.user)
    chain = rows.filter(pk=pk).first()
    if chain is None:
        raise Http404("There is no such chain that you can see.")
    picture = chain_pictures.of_draft(chain.draft_spec())
    return HttpResponse(picture, content_type="image/svg+xml", headers={"Cache-Control": "no-store"})


@require_POST
@require_login
def cancel_shown_run(request: HttpRequest, pk: UUID) -> HttpResponse:
    run = find_own_run(request, pk)
    try:
        endings.cancel_run(run, by=request.user, reason="from the run's page")
    except MusterError as error:
        add_refusal_message(request, error)
    return redirect("page:run", pk=pk)


@require_POST
@require_login
def repeat_shown_run(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Start a run with the same message in a new session, or of the same chain with the same input.

    It uses the live version, or the same draft if the run tried one.
    """
    run = find_own_run(request, pk)
    try:
        fresh = start_same_run(request.user, run)
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:run", pk=pk)
    return redirect("page:run", pk=fresh.pk)


def start_same_run(user: Any, run: Run) -> Run:
    """A new run of the same chain or with the same message.

    Raises Conflict if the run has neither, Forbidden, and whatever starting a run raises.
    """
    is_draft = run.trigger == Run.Trigger.DRAFT
    options_asked = run.options.get("asked")
    if run.chain_version is not None:
        chain = run.chain_version.chain
        priority = options_asked.get("priority") if options_asked else None
        start_options: dict[str, Any] = {"metadata": {"again_of": str(run.pk)}, "priority": priority}
        if is_draft:
            chain.require_edit(user)
            start_options["version"] = run.chain_version
            start_options["trigger"] = run.trigger
        return intake.start_chain(user=user, chain=chain.name, input=run.input, **start_options)
    message = run.messages.filter(role=Message.Role.USER).order_by("seq").first()
    if run.agent is None or message is None:
        raise Conflict(
            _("Only a chain's run, or a run started by a message, can be run again from here."),
            hint=_("Start it where it came from, such as its schedule or trigger."),
        )
    version = None
    if is_draft:
        run.agent.require_edit(user)
        version = run.version
    accepted = intake.accept_message(
        user=user, parts=message.content, asked=options_asked, agent=run.agent.name, input=run.input, version=version
    )
    return accepted.run


@require_POST
@require_login
def retry_shown_run(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Start a chain's run again from the failed step, or send an agent's message again in its session."""
    try:
        fresh = retries.retry_run(find_own_run(request, pk), user=request.user)
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:run", pk=pk)
    return redirect("page:run", pk=fresh.pk)


def find_own_run(request: HttpRequest, pk: UUID) -> Run:
    """The run, if it is this person's own: only its principal may act, because that uses their budget and devices."""
    run = Run.objects.visible_to(request.user).select_related(*JOINS).filter(pk=pk).first()
    if run is None:
        raise Http404("You have no such run.")
    return run
