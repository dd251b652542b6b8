"""The pages of devices: pair one with a code, see its calls and offered tools, revoke it."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from agents.exceptions import MusterError
from agents.models import AuditEvent
from devices import offers, package, presence
from devices.models import Device, DeviceCall, OfferedTool, Pairing
from plumbing import clock
from plumbing.site_paths import reverse_without_prefix

from ..base import add_refusal_message, redirect_unless_posted, render_shell_page, require_login

CALLS = 50


@require_login
def device_list(request: HttpRequest, code: str = "", expires_at: Any = None) -> HttpResponse:
    """The person's devices; `code` is a new one for pairing."""
    now = clock.near()
    devices = list(Device.objects.visible_to(request.user).order_by("revoked_at", "name"))
    for device in devices:
        if device.revoked_at:
            device.state = "revoked"
        else:
            device.state = "online" if device.is_online(now) else "offline"
    server = settings.PUBLIC_URL
    wheel = reverse_without_prefix("page:device-client", package.filename())
    return render_shell_page(
        request,
        "devices.html",
        _("Devices"),
        devices=devices,
        code=code,
        expires_at=expires_at,
        install=f"pipx install {server}{wheel}",
        command=f"muster-device pair --server {server} --code {code}",
    )


@require_safe
def client(request: HttpRequest, filename: str) -> HttpResponse:
    """The device client as a wheel. Open to everybody: pip signs in nowhere, and the source is public."""
    if filename != package.filename():
        raise Http404("There is no such file. The page Devices names the current one.")
    answer = HttpResponse(package.wheel(), content_type="application/zip")
    answer["Cache-Control"] = "public, max-age=3600"
    return answer


@redirect_unless_posted("page:devices")
@require_login
def create_pairing_code(request: HttpRequest) -> HttpResponse:
    """A new code, shown only in this answer."""
    row, code = Pairing.make(request.user)
    AuditEvent.record("pairing.created", row, actor=request.user, source=request.META.get("REMOTE_ADDR", ""))
    return device_list(request, code, row.expires_at)


@require_login
def device_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    device = load_own_device(request, pk)
    calls = DeviceCall.objects.filter(device=device).order_by("-id")
    offered = device.offers.select_related("tool").order_by("name", "-id")
    return render_shell_page(
        request,
        "device.html",
        device.name,
        device=device,
        is_online=device.is_online(),
        shares_folders="list_directory" in device.tools,
        calls=calls[:CALLS],
        offers=offered[:200],
    )


@require_POST
@require_login
def revoke(request: HttpRequest, pk: UUID) -> HttpResponse:
    device = load_own_device(request, pk)
    device.revoke(reason="by its owner", actor=request.user, source=request.META.get("REMOTE_ADDR", ""))
    presence.tell_revoked(device)
    messages.success(request, _("“%(device)s” can no longer connect. Its history is kept.") % {"device": device})
    return redirect("page:devices")


@require_POST
@require_login
def remove(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Delete a revoked device from the list."""
    device = load_own_device(request, pk)
    try:
        device.remove(actor=request.user, source=request.META.get("REMOTE_ADDR", ""))
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect("page:device", pk=pk)
    messages.success(request, _("“%(device)s” is removed.") % {"device": device})
    return redirect("page:devices")


@require_POST
@require_login
def decide_offered_tool(request: HttpRequest, pk: UUID, offer: int) -> HttpResponse:
    """Approve or reject exactly this definition of an offered tool."""
    rows = OfferedTool.objects.select_related("device", "tool").filter(device=load_own_device(request, pk))
    offered_tool = rows.filter(pk=offer).first()
    if offered_tool is None:
        raise Http404("This device has not offered such a tool.")
    verb = offers.approve_offer if request.POST.get("decision") == "approve" else offers.reject_offer
    try:
        verb(offered_tool, by=request.user, source=request.META.get("REMOTE_ADDR", ""))
    except MusterError as error:
        add_refusal_message(request, error)
    return redirect("page:device", pk=pk)


def load_own_device(request: HttpRequest, pk: UUID) -> Device:
    device = Device.objects.visible_to(request.user).filter(pk=pk).first()
    if device is None:
        raise Http404("You have no such device.")
    return device
