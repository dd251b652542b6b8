"""Asks the devices of a person about the folders that they added to a collection (knowledge/collections/folders.py).

The devices search and answer with excerpts. A run that serves a visitor of an embed reaches no device, although it
runs in the owner's name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
# In which a device must answer a search; after that, the rest is answered without it.
DEVICE_S = 1.5
# Of one person in a collection.
MAX_FOLDERS = 10
SEARCH, READ = "search_files", "read_file_content"
# Bytes that are read before an excerpt.
BEFORE = 1500
# Characters of an excerpt that are believed.
TEXT = 1000
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
        if self.page:
            return f"page {self.page}"
        if self.line:
            return f"line {self.line}"
        return ""

    @property
    def id(self) -> str:
        return f"{PREFIX}{self.folder}:{self.offset}:{self.path}"

    @property
    def title(self) -> str:
        title = f"{self.path} on {self.device}"
        if self.place:
            title += f", {self.place}"
        return title


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
    reasons: dict[Any, str] = {}
    questions: dict[Any, Question] = {}
    for folder in folders:
        problem = find_device_problem(devices.get(folder.device_id), folder, SEARCH)
        if problem:
            reasons[folder.pk] = problem
            continue
        arguments = {"query": text, "path": convert_path_to_device(folder, devices), "limit": min(limit, 20)}
        questions[folder.pk] = Question(folder.device_id, SEARCH, arguments)
    # All devices are asked at once, so the slowest of them sets the time.
    answers = asking.ask_devices(asker.user_id, questions, DEVICE_S) if questions else {}
    excerpts: list[Excerpt] = []
    absent: list[Absent] = []
    for folder in folders:
        reason = reasons.get(folder.pk, "")
        if not reason:
            answer = answers[folder.pk]
            excerpts += build_excerpts(folder, devices, answer)
            # A device that found something may have searched only a part.
            reason = describe_device_failure(answer)
        if reason:
            absent.append(Absent(get_device_name(devices, folder), folder.path, reason))
    return excerpts, absent


def load_folder_devices(folders: Sequence[CollectionFolder]) -> dict[UUID, Device]:
    """Those that still belong to the folder's owner."""
    device_ids = {folder.device_id for folder in folders}
    owner_ids = {folder.owner_id for folder in folders}
    devices = Device.objects.live().filter(pk__in=device_ids, owner__in=owner_ids)
    return {device.pk: device for device in devices}


def find_device_problem(device: Device | None, folder: CollectionFolder, tool: str) -> str:
    """Why this device cannot be asked now; empty if it can."""
    if device is None or device.owner_id != folder.owner_id:
        return str(REASONS["removed"])
    if not device.is_online(clock.near()):
        return str(REASONS["offline"])
    if tool not in device.tools:
        return str(REASONS["old_client"])
    if get_top_folder(folder.path) not in device.folders:
        return str(REASONS["not_shared"])
    return ""


def describe_device_failure(answer: Answer) -> str:
    """Why a device did not search, or only a part; empty if it searched everything."""
    if answer.error is not None:
        return str(answer.error.get("message") or REASONS["no_answer"])[:200]
    if not isinstance(answer.result, dict):
        return str(REASONS["no_answer"])
    if answer.result.get("truncated"):
        return str(REASONS["cut"])
    return ""


def build_excerpts(folder: CollectionFolder, devices: dict[UUID, Device], answer: Answer) -> list[Excerpt]:
    """What a device answers is not believed: other shapes are passed over."""
    listed = answer.result.get("results") if isinstance(answer.result, dict) else None
    if not isinstance(listed, list):
        return []
    device = get_device_name(devices, folder)
    entries = list(filter(is_excerpt, listed))
    excerpts = []
    for rank, entry in enumerate(entries[:20], 1):
        excerpt = Excerpt(
            folder.pk,
            device,
            convert_path_from_device(folder, devices, entry["path"]),
            entry["text"][:TEXT],
            offset=find_excerpt_number(entry.get("offset")) or 0,
            line=find_excerpt_number(entry.get("line")),
            page=find_excerpt_number(entry.get("page")),
            score=1 / (SMOOTH + rank),
        )
        excerpts.append(excerpt)
    return excerpts


def is_excerpt(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("path"), str) and isinstance(value.get("text"), str)


def find_excerpt_number(value: Any) -> int | None:
    # For isinstance, true and false are numbers, too.
    if type(value) is not int:
        return None
    return value if 0 <= value < 2**40 else None


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
    arguments = {"path": convert_path_to_device(folder, devices, path), "offset": first, "length": size}
    question = Question(folder.device_id, READ, arguments)
    answer = asking.ask_devices(asker.user_id, {0: question}, DEVICE_S)[0]
    text = answer.result.get("text") if isinstance(answer.result, dict) else None
    if not isinstance(text, str):
        raise ToolFailed(f"“{path}” cannot be read: {describe_device_failure(answer)}.", code="device_failed")
    device = get_device_name(devices, folder)
    excerpt = Excerpt(folder.pk, device, path, "", offset=offset)
    next_id = None
    after = find_excerpt_number(answer.result.get("next_offset"))
    if after:
        # Whoever asks for this id gets the text from a little before its place on.
        next_id = replace(excerpt, offset=after + BEFORE).id
    return {
        "id": excerpt.id,
        "title": f"{path} on {device}",
        "url": None,
        "text": text[:size],
        "metadata": {"document": path, "device": device, "source": None, "next": next_id},
    }


# -- paths -------------------------------------------------------------------------------------------------------------


def get_top_folder(path: str) -> str:
    return path.partition("/")[0]


def convert_path_to_device(folder: CollectionFolder, devices: dict[UUID, Device], path: str = "") -> str:
    """As the device counts: where it shares one folder, paths begin inside of it."""
    path = path or folder.path
    if len(devices[folder.device_id].folders) != 1:
        return path
    _, _, inner_path = path.partition("/")
    return inner_path or "."


def convert_path_from_device(folder: CollectionFolder, devices: dict[UUID, Device], path: str) -> str:
    """Begins with the name of the shared folder."""
    path = path[:PATH]
    if len(devices[folder.device_id].folders) != 1:
        return path
    return f"{get_top_folder(folder.path)}/{path}"


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
    parts = [part for part in path.strip().split("/") if part not in ("", ".")]
    path = "/".join(parts)
    if ".." in parts or get_top_folder(path) not in device.folders:
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
    row = CollectionFolder.objects.create(collection=collection, owner=user, device_id=device_id, path=path)
    return row, True
