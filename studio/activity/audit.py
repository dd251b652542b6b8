"""The audit page: who did what to what, from where."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from agents.http.filters import filter_by_words
from agents.models import AuditEvent

from ..base import PAGE, render_shell_page, require_login


@require_login
def audit(request: HttpRequest) -> HttpResponse:
    """Newest first; filtered by action, kind and words. A superuser sees all entries."""
    visible_rows = AuditEvent.objects.visible_to(request.user)
    chosen = {name: request.GET.get(name, "")[:100].replace("\0", "") for name in ("action", "kind", "search")}
    rows = visible_rows.order_by("-pk")
    if chosen["action"]:
        rows = rows.filter(action=chosen["action"])
    if chosen["kind"]:
        rows = rows.filter(subject_kind=chosen["kind"])
    rows = filter_by_words(rows, chosen["search"], "subject_name")
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit() and len(before) < 18:
        rows = rows.filter(pk__lt=int(before))
    # One more than the page shows tells whether there are older ones.
    lines = list(rows[: PAGE + 1])
    older = str(lines[PAGE - 1].pk) if len(lines) > PAGE else ""
    actions = visible_rows.order_by("action").values_list("action", flat=True).distinct()
    context = {"lines": lines[:PAGE], "older": older, "chosen": chosen, "actions": list(actions[:200])}
    return render_shell_page(request, "audit.html", _("Audit"), **context)
