"""Suggestions that are decided together on their list: memories and records."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from agents.exceptions import MusterError

from .base import tell

MOST = 100


def decide_several(request: HttpRequest, decide: Callable[[str, str], object]) -> HttpResponse:
    """Call `decide(id, version)` for each that was chosen: each on its own, in the version that was shown."""
    done = 0
    for one in request.POST.getlist("chosen")[:MOST]:
        id, _colon, version = one.partition(":")
        try:
            decide(id, version)
        except MusterError as error:
            tell(request, error)
        else:
            done += 1
    is_approval = request.POST.get("decision") == "approve"
    message = _("%(number)s approved.") if is_approval else _("%(number)s rejected.")
    messages.success(request, message % {"number": done}) if done else messages.warning(
        request, _("Nothing was chosen.")
    )
    return redirect(request.get_full_path())
