"""Sends new calls: the row first, then the notification, for many threads in one transaction.

The first thread writes for all that arrived in the meantime. A single call needs no other thread;
many calls at once do not queue for the database's single writer.
"""

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import DatabaseError, IntegrityError, connection

from devices import statements
from devices.models import DeviceCall
from devices.nudges import channel_of
from devices.statements import NewCall
from plumbing.broker import broadcast

State = DeviceCall.State
MAX_BATCH = 64


@dataclass(slots=True)
class Letter:
    """One call and its frame. `is_new`: False if its row existed already, None while unchecked."""

    call: NewCall
    text: str
    is_new: bool | None = None
    error: DatabaseError | None = None


class Outbox:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pending: deque[Letter] = deque()

    def post(self, call: NewCall, text: str) -> bool:
        """Write the row and notify its device. False if this call was made before. Raises
        DatabaseError.
        """
        letter = Letter(call, text)
        if connection.in_atomic_block:  # other users' calls must not be part of this transaction
            deliver([letter])
        else:
            self.pending.append(letter)
            with self.lock:
                while letter.is_new is None and letter.error is None:
                    deliver(self.take())
        if letter.error is not None:
            raise letter.error
        return bool(letter.is_new)

    def take(self) -> list[Letter]:
        letters: list[Letter] = []
        while self.pending and len(letters) < MAX_BATCH:
            letters.append(self.pending.popleft())
        return letters


OUTBOX = Outbox()


def deliver(letters: list[Letter]) -> None:
    write(letters)
    send([letter for letter in letters if letter.is_new and letter.call.state == State.SENT])


def write(letters: list[Letter]) -> None:
    try:
        statements.insert([letter.call for letter in letters])
    except IntegrityError:
        write_singly(letters)
    except DatabaseError as error:
        for letter in letters:
            letter.error = error
    else:
        for letter in letters:
            letter.is_new = True


def write_singly(letters: list[Letter]) -> None:
    """One of them exists already; the others must not fail because of it."""
    for letter in letters:
        try:
            statements.insert([letter.call])
            letter.is_new = True
        except IntegrityError as error:
            letter.is_new = False
            letter.error = None if DeviceCall.objects.filter(pk=letter.call.id).exists() else error
        except DatabaseError as error:
            letter.error = error


def send(letters: Iterable[Letter]) -> None:
    """If the broker is down nothing is sent: the server with the socket finds the rows in its next
    sweep.
    """
    nudges: list[tuple[bytes, broadcast.Message]] = [
        (channel_of(letter.call.device_id), {"type": "device_call", "id": str(letter.call.id), "text": letter.text})
        for letter in letters
    ]
    if nudges and not broadcast.publish_many(nudges):
        ids = [letter.call.id for letter in letters]
        DeviceCall.objects.filter(pk__in=ids, state=State.SENT).update(state=State.QUEUED, sent_at=None)
