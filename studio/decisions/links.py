"""The page of a signed link. The link belongs to one approval and one person."""

from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from agents.exceptions import Forbidden
from runs.events import links
from runs.exceptions import LinkExpired
from runs.models import Approval

from ..base import page, signed_in
from .approvals import attempt, prepared


@signed_in
def approval(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows the approval; a POST decides it."""
    row = find(request, token)
    complaint, status = None, 200
    if request.method == "POST":
        complaint = attempt(request, row)
        if complaint is None:
            return redirect("page:approval-link", token=token)
        status = 422
    decidable = Approval.objects.open().decidable_by(request.user).filter(pk=row.pk).exists()
    failed = (row.pk, *complaint) if complaint else None
    shown = prepared(row, request.user, decidable, failed)
    answer = page(request, "approval_link.html", _("Approval"), approval=shown)
    answer.status_code = status
    return answer


def find(request: HttpRequest, token: str) -> Approval:
    """Raises LinkExpired, Forbidden, Http404."""
    try:
        link = links.read(token)
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
