"""Asks the devices of a person about the folders that they added to a collection (knowledge/collections/folders.py).

The devices search and answer with excerpts. A run that serves a visitor of an embed reaches no device, although it
runs in the owner's name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext_lazy as later
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, Invalid
from agents.tools import ToolFailed
from devices import asking
from devices.asking import Answer, Question
from devices.models import Device
from knowledge.collections import storage
from knowledge.collections.search import SMOOTH
from knowledge.models import Collection, CollectionFolder
from knowledge.models.folder import PATH
from plumbing import clock

PREFIX = "device:"
DEVICE_S = 1.5  # in which a device must answer a search; after that, the rest is answered without it
MAX_FOLDERS = 10  # of one person in a collection
SEARCH, READ = "search_files", "read_file_content"
BEFORE = 1500  # bytes that are read before an excerpt
TEXT = 1000  # characters of an excerpt that are believed
REASONS = {
    "removed": later("the device was removed"),
    "offline": later("the device is not connected"),
    "old_client": later("the device's client cannot search: update it"),
    "not_shared": later("the device no longer shares this folder"),
    "no_answer": later("the device did not answer in time"),
    "cut": later("there was not enough time to read all files"),
}


@dataclass(frozen=True, slots=True)
class Asker:
    """Who searches, and whether a visitor of an embed is served in that person's name."""

    user_id: Any
    is_for_visitor: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a file on a device. `path` begins with the name of the shared folder."""

    folder: UUID
    device: str
    path: str
    text: str
    offset: int = 0
    line: int | None = None
    page: int | None = None
    score: float = 0.0

    @property
    def place(self) -> str:
        return f"page {self.page}" if self.page else f"line {self.line}" if self.line else ""

    @property
    def id(self) -> str:
        return f"{PREFIX}{self.folder}:{self.offset}:{self.path}"

    @property
    def title(self) -> str:
        return ", ".join(filter(None, [f"{self.path} on {self.device}", self.place]))


@dataclass(frozen=True, slots=True)
class Absent:
    """A folder that was not searched, or not to its end, and why."""

    device: str
    path: str
    reason: str


# -- searching ---------------------------------------------------------------------------------------------------------


def search_device_folders(
    folders: Sequence[CollectionFolder], text: str, asker: Asker, limit: int
) -> tuple[list[Excerpt], list[Absent]]:
    """The excerpts that the devices find in time, and the folders that were not searched, or not to their end."""
    if asker.is_for_visitor:
        return [], []
    devices = load_folder_devices(folders)
    reasons = {folder.pk: find_device_problem(devices.get(folder.device_id), folder, SEARCH) for folder in folders}
    open_folders = [folder for folder in folders if not reasons[folder.pk]]
    questions = {
        folder.pk: Question(
            folder.device_id, SEARCH, {"query": text, "path": path_there(folder, devices), "limit": min(limit, 20)}
        )
        for folder in open_folders
    }
    answers = asking.ask_devices(asker.user_id, questions, DEVICE_S) if questions else {}
    excerpts = [one for folder in open_folders for one in build_excerpts(folder, devices, answers[folder.pk])]
    reasons |= {folder.pk: describe_device_failure(answers[folder.pk]) for folder in open_folders}
    absent = [Absent(get_device_name(devices, one), one.path, reasons[one.pk]) for one in folders if reasons[one.pk]]
    return excerpts, absent


def load_folder_devices(folders: Sequence[CollectionFolder]) -> dict[UUID, Device]:
    """Those that still belong to the folder's owner."""
    owners = {folder.owner_id for folder in folders}
    devices = Device.objects.live().filter(pk__in={folder.device_id for folder in folders}, owner__in=owners)
    return {device.pk: device for device in devices}


def find_device_problem(device: Device | None, folder: CollectionFolder, tool: str) -> str:
    """Why this device cannot be asked now; empty if it can."""
    if device is None or device.owner_id != folder.owner_id:
        return str(REASONS["removed"])
    if not device.is_online(clock.near()):
        return str(REASONS["offline"])
    if tool not in device.tools:
        return str(REASONS["old_client"])
    return "" if get_top_folder(folder.path) in device.folders else str(REASONS["not_shared"])


def describe_device_failure(answer: Answer) -> str:
    if answer.error is not None:
        return str(answer.error.get("message") or REASONS["no_answer"])[:200]
    if not isinstance(answer.result, dict):
        return str(REASONS["no_answer"])
    return str(REASONS["cut"]) if answer.result.get("truncated") else ""


def build_excerpts(folder: CollectionFolder, devices: dict[UUID, Device], answer: Answer) -> list[Excerpt]:
    """What a device answers is not believed: other shapes are passed over."""
    listed = answer.result.get("results") if isinstance(answer.result, dict) else None
    if not isinstance(listed, list):
        return []
    entries = [entry for entry in listed if is_excerpt(entry)]
    excerpts = []
    for rank, entry in enumerate(entries[:20], 1):
        excerpt = Excerpt(
            folder.pk,
            get_device_name(devices, folder),
            path_here(folder, devices, entry["path"]),
            entry["text"][:TEXT],
            offset=find_excerpt_number(entry.get("offset")) or 0,
            line=find_excerpt_number(entry.get("line")),
            page=find_excerpt_number(entry.get("page")),
            score=1 / (SMOOTH + rank),
        )
        excerpts.append(excerpt)
    return excerpts


def is_excerpt(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("path"), str) and isinstance(value.get("text"), str)


def find_excerpt_number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**40 else None


# -- reading -----------------------------------------------------------------------------------------------------------


def read_device_file(
    folder: CollectionFolder, path: str, offset: int, asker: Asker, size: int
) -> dict[str, Any] | None:
    """The text of a file around an offset. Raises ToolFailed."""
    if asker.is_for_visitor:
        return None
    devices = load_folder_devices([folder])
    if problem := find_device_problem(devices.get(folder.device_id), folder, READ):
        raise ToolFailed(f"“{path}” cannot be read: {problem}.", code="device_offline")
    first = max(0, offset - BEFORE)
    there = {"path": path_there(folder, devices, path), "offset": first, "length": size}
    answer = asking.ask_devices(asker.user_id, {0: Question(folder.device_id, READ, there)}, DEVICE_S)[0]
    if not isinstance(answer.result, dict) or not isinstance(answer.result.get("text"), str):
        raise ToolFailed(f"“{path}” cannot be read: {describe_device_failure(answer)}.", code="device_failed")
    after = find_excerpt_number(answer.result.get("next_offset"))
    device = get_device_name(devices, folder)
    next_id = Excerpt(folder.pk, device, path, "", offset=after + BEFORE).id if after else None
    return {
        "id": Excerpt(folder.pk, device, path, "", offset=offset).id, "title": f"{path} on {device}", "url": None,
        "text": answer.result["text"][:size],
        "metadata": {"document": path, "device": device, "source": None, "next": next_id},
    }  # fmt: skip


# -- paths -------------------------------------------------------------------------------------------------------------


def get_top_folder(path: str) -> str:
    return path.partition("/")[0]


def path_there(folder: CollectionFolder, devices: dict[UUID, Device], path: str = "") -> str:
    """As the device counts: where it shares one folder, paths begin inside of it."""
    path = path or folder.path
    return path if len(devices[folder.device_id].folders) != 1 else path.partition("/")[2] or "."


def path_here(folder: CollectionFolder, devices: dict[UUID, Device], path: str) -> str:
    """Begins with the name of the shared folder."""
    path = path[:PATH]
    return path if len(devices[folder.device_id].folders) != 1 else f"{get_top_folder(folder.path)}/{path}"


def get_device_name(devices: dict[UUID, Device], folder: CollectionFolder) -> str:
    device = devices.get(folder.device_id)
    return device.name if device else _("a removed device")


# -- adding ------------------------------------------------------------------------------------------------------------


@transaction.atomic
def add_device_folder(collection: Collection, user: Any, device_id: UUID, path: str) -> tuple[CollectionFolder, bool]:
    """A folder of a device of this person, and whether it is new. Raises Invalid, Conflict."""
    device = Device.objects.visible_to(user).live().filter(pk=device_id).first()
    if device is None:
        raise Invalid(_("You have no device with this id."), code="unknown_device")
    path = "/".join(part for part in path.strip().split("/") if part not in ("", "."))
    if ".." in path.split("/") or get_top_folder(path) not in device.folders:
        raise Invalid(
            _("The device does not share this folder."), code="not_shared",
            hint=_("Shared folders: %(names)s.") % {"names": ", ".join(device.folders) or "–"},
        )  # fmt: skip
    storage.lock_collection(collection)
    mine = CollectionFolder.objects.filter(collection=collection, owner=user)
    if folder := mine.filter(device_id=device_id, path=path).first():
        return folder, False
    if mine.count() >= MAX_FOLDERS:
        raise Conflict(
            _("You can add %(number)s folders to a collection.") % {"number": MAX_FOLDERS},
            code="too_many_folders",
            hint=_("Remove one first."),
        )
    return CollectionFolder.objects.create(collection=collection, owner=user, device_id=device_id, path=path), True
