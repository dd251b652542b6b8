"""The approvals page: open ones of this user, and decided ones; and the page of a signed link to one of them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.views.decorators.http import require_POST

from agents import roles
from agents.exceptions import Forbidden, MusterError
from agents.http import parsers
from agents.http.pagination import read_page
from agents.models import Tool, ToolGrant
from agents.models.key import DECIDE
from runs.calls import approvals, inputs
from runs.events import links
from runs.exceptions import LinkExpired
from runs.models import Approval, InputRequest, Run
from studio.templatetags.muster import who_ran

from ..base import (
    add_refusal_message,
    open_count,
    pretty,
    read_uuid,
    redirect_unless_posted,
    render_shell_page,
    require_login,
    translate_refusal,
)
from ..display_names import find_display_names
from ..labels import render_label

OPEN_SHOWN, DECIDED_SHOWN = 100, 30
EFFECTS = dict(Tool.Effect.choices)
WHOSE = {
    "person": later("your own words"),
    "trusted": later("a trusted record"),
    "stranger": later("strangers’ text"),
    "unknown": later("unknown"),
    "neutral": later("the model’s"),
}


@require_login
def inbox(request: HttpRequest, failed: tuple[UUID, str, str] | None = None, status: int = 200) -> HttpResponse:
    """Open ones first. `failed` is an input that was refused: (approval, text, complaint)."""
    mine = Approval.objects.visible_to(request.user).select_related(
        "run__agent", "run__chain_version__chain", "run__principal", "decider", "decider_team"
    )
    waiting, _more = read_page(mine.open().order_by("expires_at"), OPEN_SHOWN)
    decidable_ids = set(mine.open().decidable_by(request.user).values_list("pk", flat=True))
    for approval in waiting:
        prepare_card(approval, request.user, approval.pk in decidable_ids, failed)
    ended = mine.exclude(status=Approval.Status.OPEN).select_related("decided_by").order_by("-pk")
    decided, _more = read_page(ended, DECIDED_SHOWN)
    decidable_count = sum(approval.may_decide for approval in waiting)
    labels = find_display_names(request.user)
    for approval in waiting:
        approval.label = labels.get(approval.tool, "")
    answer = render_shell_page(
        request,
        "approvals.html",
        _("Approvals"),
        waiting=waiting,
        decided=decided,
        several=decidable_count > 1,
        questions=open_questions(request.user),
    )
    answer.status_code = status
    return answer


def open_questions(user: Any) -> list[dict[str, Any]]:
    """What runs of this user ask, for the script that draws the cards."""
    rows = InputRequest.objects.visible_to(user).open().filter(kind=InputRequest.Kind.FORM)
    # A question may stay open for a moment after its run has ended or its time is over.
    rows = rows.filter(run__status__in=Run.LIVE, expires_at__gt=timezone.now())
    rows = rows.select_related("run__agent", "run__chain_version__chain").order_by("expires_at")
    questions = []
    for row in rows[:OPEN_SHOWN]:
        questions.append({**inputs.requested_data(row), "run": str(row.run_id), "agent": who_ran(row.run)})
    return questions


def prepare_card(
    approval: Approval, user: Any, may_decide: bool, failed: tuple[UUID, str, str] | None = None
) -> Approval:
    """Adds what the card of an approval shows."""
    approval.typed = pretty(approval.arguments)
    approval.complaint = ""
    approval.is_mine = approval.run.principal_id == user.pk
    approval.may_decide = may_decide and roles.allows(user, DECIDE)
    approval.is_kept_by_role = may_decide and not approval.may_decide
    approval.who_decides = who_decides(approval)
    approval.does = EFFECTS.get(approval.effect, "")
    approval.whose = [{**finding, "who": WHOSE.get(finding["source"], "")} for finding in approval.findings]
    if failed is not None:
        failed_id, typed, complaint = failed
        if failed_id == approval.pk:
            approval.typed = typed
            approval.complaint = complaint
    return approval


def who_decides(approval: Approval) -> str:
    """Who may decide, in words."""
    starter = approval.run.principal.get_username()
    team = approval.decider_team.name if approval.decider_team else _("a team that no longer exists")
    match ToolGrant.Decider(approval.decides):
        case ToolGrant.Decider.STARTER:
            words = starter
        case ToolGrant.Decider.OWNER if approval.decider:
            words = approval.decider.get_username()
        case ToolGrant.Decider.OWNER:
            words = _("nobody: its owner is gone")
        case ToolGrant.Decider.TEAM:
            words = _("members of %(team)s") % {"team": team}
        case ToolGrant.Decider.ROLE:
            words = _("%(role)s of %(team)s") % {"role": approval.decider_role, "team": team}
    if approval.not_starter:
        return _("%(who)s, but not %(person)s") % {"who": words, "person": starter}
    return words


@require_login
def answer_open_count(request: HttpRequest) -> JsonResponse:
    """How many are open, for the menu of a page that stays open."""
    return JsonResponse({"open": open_count(request.user)})


@require_POST
@require_login
def decide_several(request: HttpRequest) -> HttpResponse:
    """The same decision, with the same note, for each that was chosen; what is refused does not stop the others."""
    ids = [read_uuid(text) for text in request.POST.getlist("chosen")[:OPEN_SHOWN]]
    chosen = [pk for pk in ids if pk]
    decision = request.POST.get("decision", "")
    note = request.POST.get("note", "")
    source = request.META.get("REMOTE_ADDR", "")
    decided_count = 0
    for approval in Approval.objects.visible_to(request.user).select_related("run").filter(pk__in=chosen):
        try:
            approvals.decide_approval(approval, decision, by=request.user, note=note, source=source)
            decided_count += 1
        except MusterError as error:
            add_refusal_message(request, error)
    if decided_count:
        messages.success(request, _("%(done)s decided. Their runs continue.") % {"done": decided_count})
    elif not chosen:
        messages.error(request, _("Choose at least one."))
    return redirect("page:approvals")


@redirect_unless_posted("page:approvals")
@require_login
def decide_shown_approval(request: HttpRequest, pk: UUID) -> HttpResponse:
    approval = Approval.objects.visible_to(request.user).select_related("run").filter(pk=pk).first()
    if approval is None:
        raise Http404("You have no such approval.")
    complaint = try_to_decide(request, approval)
    if complaint is not None:
        return inbox(request, failed=(pk, *complaint), status=422)
    return redirect("page:approvals")


def try_to_decide(request: HttpRequest, approval: Approval) -> tuple[str, str] | None:
    """Decide as the form says, with a message; (text, complaint) if its arguments were refused."""
    typed = request.POST.get("arguments", "")
    try:
        arguments = read_arguments(typed, approval)
    except ValueError as error:
        return typed, _("This is not a JSON object: %(error)s") % {"error": error}
    try:
        approvals.decide_approval(
            approval, request.POST.get("decision", ""), by=request.user, arguments=arguments,
            note=request.POST.get("note", ""), source=request.META.get("REMOTE_ADDR", ""),
        )  # fmt: skip
    except MusterError as error:
        # The arguments do not fit the tool: the card shows them again, to be mended.
        if error.status == 422:
            return typed, translate_refusal(error)
        add_refusal_message(request, error)
        return None
    status = render_label(approval.status)
    message = _("%(tool)s: %(status)s. The run continues.")
    messages.success(request, message % {"tool": approval.tool, "status": status})
    return None


def read_arguments(typed: str, approval: Approval) -> dict[str, Any] | None:
    """The edited arguments, or None if they are unchanged. Raises ValueError."""
    if not typed.strip():
        return None
    arguments = parsers.parse_json_body(typed.encode())
    if not isinstance(arguments, dict):
        raise ValueError(_("write {…}"))
    if arguments == approval.arguments:
        return None
    return arguments


@require_login
def linked_approval(request: HttpRequest, token: str) -> HttpResponse:
    """The page of a signed link, which belongs to one approval and one person. POST decides it."""
    row = find_by_link(request, token)
    failed = None
    if request.method == "POST":
        complaint = try_to_decide(request, row)
        if complaint is None:
            return redirect("page:approval-link", token=token)
        failed = (row.pk, *complaint)
    may_decide = Approval.objects.open().decidable_by(request.user).filter(pk=row.pk).exists()
    card = prepare_card(row, request.user, may_decide, failed)
    answer = render_shell_page(request, "approval_link.html", _("Approval"), approval=card)
    answer.status_code = 200 if failed is None else 422
    return answer


def find_by_link(request: HttpRequest, token: str) -> Approval:
    """Raises LinkExpired, Forbidden, Http404."""
    try:
        link = links.read_approval_link(token)
    except signing.SignatureExpired:
        raise LinkExpired(_("This link has expired."), hint=_("Open the page Approvals. It lists what still waits."))
    except (signing.BadSignature, ValueError, TypeError):
        raise Http404(_("This link is not complete, or was changed."))
    if link.person != request.user.pk:
        raise Forbidden(_("This link is for somebody else."), hint=_("Sign in as the person who received it."))
    rows = Approval.objects.visible_to(request.user).select_related(
        "run__agent", "run__chain_version__chain", "run__principal", "decider", "decider_team", "decided_by"
    )
    row = rows.filter(pk=link.approval).first()
    if row is None:
        raise Http404(_("You have no such approval any more."))
    return row
