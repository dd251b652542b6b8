"""Whether the site can do its work now, for the notice on every page: without the broker pages work
and runs start late.
"""

import time

from django.http import HttpRequest, JsonResponse
from django.utils.translation import gettext as _

from runs.models import Worker
from runs.queue import carriers

from .base import require_login

# One look at the broker serves all pages for so long.
HOLDS_S = 5.0
last_look: tuple[float, bool] = (float("-inf"), False)


@require_login
def status(request: HttpRequest) -> JsonResponse:
    """{"notice", "has_worker"}: the notice is empty while all is well. The broker's own words are for administrators
    (`/readyz`).
    """
    words = _("The queue cannot be reached. Pages work, and what you send is stored; runs start when it is back.")
    notice = words if is_broker_away() else ""
    return JsonResponse({"notice": notice, "has_worker": Worker.objects.alive().exists()})


def is_broker_away() -> bool:
    global last_look
    at, is_away = last_look
    if time.monotonic() - at > HOLDS_S:
        is_away = bool(carriers.current().problem())
        last_look = (time.monotonic(), is_away)
    return is_away
