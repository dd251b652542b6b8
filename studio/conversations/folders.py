"""The folders of a person's own devices on the page of a collection."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import Invalid, MusterError
from devices.models import Device
from knowledge.collections import device_folders
from knowledge.models import Collection, CollectionFolder

from ..base import signed_in, tell
from ..namesakes import address, opened
from .evaluations import editable, note

WRITES = "collections:write"


def context_of(request: HttpRequest, row: Collection) -> dict[str, Any]:
    """The person's folders in this collection, each with its device or None, and what they could add."""
    devices = {device.pk: device for device in Device.objects.visible_to(request.user).live()}
    mine = list(CollectionFolder.objects.visible_to(request.user).filter(collection=row))
    return {
        "folders": [{"row": one, "device": devices.get(one.device_id)} for one in mine],
        "shared_folders": [
            {"value": f"{device.pk}/{name}", "device": device.name, "name": name}
            for device in devices.values()
            for name in device.folders
        ],
    }


@require_POST
@signed_in(writes=WRITES)
def add_folder(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    device, _slash, top = request.POST.get("folder", "").partition("/")
    path = f"{top}/{request.POST.get('path', '').strip()}".replace("\0", "").rstrip("/")
    try:
        folder, is_new = device_folders.add(row, request.user, id_in(device), path)
    except MusterError as error:
        tell(request, error)
    else:
        if is_new:
            note(request, "added", folder, row)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def remove_folder(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """Also where the person may not change the collection."""
    row = opened(request, Collection.objects.all(), name)
    folder = CollectionFolder.objects.visible_to(request.user).filter(collection=row, pk=pk).first()
    if folder is None:
        raise Http404("You have no such folder in this collection.")
    note(request, "removed", folder, row)
    folder.delete()
    return redirect(address("page:collection", row))


def id_in(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(_("Choose a folder."), code="unknown_device")
