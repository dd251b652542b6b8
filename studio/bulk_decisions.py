"""Suggestions that are decided together on their list: memories and records."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from agents.exceptions import MusterError

from .base import add_refusal_message

MOST = 100


def decide_several(request: HttpRequest, decide: Callable[[str, str], object]) -> HttpResponse:
    """Calls `decide(id, version)` for each chosen suggestion: each on its own, in the version that was shown."""
    decided_count = 0
    for choice in request.POST.getlist("chosen")[:MOST]:
        id, _colon, version = choice.partition(":")
        try:
            decide(id, version)
        except MusterError as error:
            add_refusal_message(request, error)
        else:
            decided_count += 1
    is_approval = request.POST.get("decision") == "approve"
    message = _("%(number)s approved.") if is_approval else _("%(number)s rejected.")
    if decided_count:
        messages.success(request, message % {"number": decided_count})
    else:
        messages.warning(request, _("Nothing was chosen."))
    return redirect(request.get_full_path())
