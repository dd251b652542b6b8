"""Messages of mail and chat accounts as documents of collections (docs/adr/0108).

A worker searches each account with its query, by the connector that agents use, and reads the messages that are new or
have changed. A message that cannot be read has an error of its own; one of the whole account stands at the account.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_noop as _

from agents import storage as files
from agents.exceptions import Conflict, Invalid, MusterError
from agents.models import SiteHold
from agents.tools import ToolError
from connectors.accounts.base import ACCOUNT_ERRORS, MOST_SILENT, OF_THE_ACCOUNT, Connector
from connectors.accounts.catalog import CONNECTORS
from connectors.content import MAX_CHARS
from connectors.models import ACCOUNTS, Connection
from connectors.tools import open_api
from knowledge.collections import storage
from knowledge.collections.pieces import clean_database_text
from knowledge.models import AccountItem, Collection, CollectionAccount, Document
from plumbing import clock
from plumbing.fair import FairQueue, of_others
from plumbing.http import outbound

log = logging.getLogger(__name__)
# Longer than a turn.
LEASE_S = 300.0
TURN_S = 120.0
# Whose mail server hangs delays nobody else.
QUEUE = FairQueue("account", at_once=8, each=1)
# Between two readings of an account.
READ_EVERY_S = 900.0
# Of one person in a collection.
MAX_ACCOUNTS = 10
# Messages of one search, and searches of one turn.
PAGE, PAGES = 50, 4
# Fields of a message that begin its document.
HEADS = (("Subject", "subject"), ("From", "from"), ("Date", "date"))


def start_due() -> int:
    """Begin to read the accounts that are due, at most one of each person. Returns how many."""
    return QUEUE.fill(claim_due_account, lambda account: account.owner_id, read_claimed)


def read_next_account() -> int:
    """Read one account on this thread. Returns how many messages became documents."""
    account = claim_due_account()
    if account is None:
        return 0
    return read_claimed(account)


def read_claimed(account: CollectionAccount) -> int:
    """Read the new messages of an account, and store when to look again. Returns how many were read."""
    error = ""
    done = 0
    try:
        done = read_account_messages(account)
    except ToolError as problem:
        log.warning("The account %s of a collection waits: %s", account.pk, problem)
        error = str(problem)
    except Exception:
        # A worker reads the accounts of all people: the others are read.
        log.exception("The account %s of a collection cannot be read", account.pk)
        error = "The account cannot be read; the server's log says why."
    rows = CollectionAccount.objects.filter(pk=account.pk)
    rows.update(error=clean_database_text(error)[:300], read_after=clock.Now(READ_EVERY_S))
    return done


def claim_due_account(without: Sequence[int] = ()) -> CollectionAccount | None:
    """An account whose turn has come, of a person who is not in `without`."""
    due = CollectionAccount.objects.filter(SiteHold.absent(), read_after__lte=clock.Now())
    others = of_others(due, "owner", without)
    row = others.select_related("collection", "owner").order_by("read_after").first()
    if row is None:
        return None
    # Only one worker finds the row as it was.
    unclaimed = due.filter(pk=row.pk, read_after=row.read_after)
    if not unclaimed.update(read_after=clock.Now(LEASE_S)):
        return None
    return row


def read_account_messages(account: CollectionAccount) -> int:
    """Raises ToolError."""
    connection = get_account_connection(account)
    marks = dict(account.items.values_list("external_id", "mark"))
    done = silent = 0
    with outbound.until(TURN_S), open_api(connection) as api:
        connector = CONNECTORS[connection.provider](connection, api)
        connector.require("read")
        for head in iterate_found_messages(connector, account.query):
            mark = build_item_mark(head)
            if marks.get(build_item_key(head)) == mark:
                continue
            check_account_usable(account)
            try:
                done += store_account_message(account, connector, head, mark)
            except ToolError as problem:
                if problem.code in ACCOUNT_ERRORS:
                    raise
                silent += 1
                if silent >= MOST_SILENT and not connector.is_reachable():
                    raise
                save_item_error(account, head, str(problem))
    return done


def check_account_usable(account: CollectionAccount) -> None:
    """A turn takes minutes; meanwhile the person may have been deactivated. Raises ToolError."""
    rows = CollectionAccount.objects.select_related("collection", "owner")
    now = rows.filter(pk=account.pk).first()
    # If it was removed, nothing is kept anyway.
    if now is not None:
        get_account_connection(now)


def get_account_connection(account: CollectionAccount) -> Connection:
    """Only while it belongs to the person who added it. Raises ToolError."""
    rows = Connection.objects.filter(pk=account.connection_id, owner_id=account.owner_id, enabled=True)
    connection = rows.filter(provider__in=ACCOUNTS).first()
    if connection is None or not connection.is_linked or not account.owner.is_active:
        raise ToolError("The account is not connected any more.", code="connection_missing")
    if not account.collection.may_edit(account.owner):
        raise ToolError("The owner of the account may not change this collection any more.", code="forbidden")
    return connection


def iterate_found_messages(connector: Any, query: str) -> Iterator[dict[str, Any]]:
    """What a search shows of each message, the newest first."""
    # Teams gives 25 results at most, and only Gmail has further pages.
    arguments: dict[str, Any] = {"limit": PAGE if connector.provider == "gmail" else 25}
    for _page in range(PAGES):
        answer = connector.search(query=query, **arguments)
        for head in answer["messages"]:
            if head.get("id"):
                yield head
        if not answer.get("next"):
            return
        arguments = {"limit": PAGE, "page": answer["next"]}


def build_item_key(head: dict[str, Any]) -> str:
    key = f"{head.get('place', '')}/{head['id']}"
    return clean_database_text(key)[:512]


def build_item_mark(head: dict[str, Any]) -> str:
    """Equal as long as the message is the same. Labels change without the text."""
    content = {name: value for name, value in head.items() if name != "labels"}
    text = json.dumps(content, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()


def store_account_message(account: CollectionAccount, connector: Connector, head: dict[str, Any], mark: str) -> int:
    """Read one message into a document. Raises ToolError for what is not the message's fault."""
    arguments = {"id": head["id"], "max_chars": MAX_CHARS}
    # Only messages of Teams have a place.
    if head.get("place"):
        arguments["place"] = head["place"]
    try:
        message = connector.read(**arguments)  # type: ignore[attr-defined]
        save_message_document(account, head, message, mark)
        return 1
    except ToolError as problem:
        if problem.code in OF_THE_ACCOUNT:
            raise
        error = str(problem)
    except MusterError as problem:
        # Such as a quota of the person.
        error = " ".join(filter(None, [str(problem), problem.hint]))
    except Exception:
        # One message never stops the others.
        log.exception("A message of the account %s cannot be read", account.pk)
        error = "This message cannot be read; the server's log says why."
    save_item_error(account, head, error)
    return 0


def save_message_document(account: CollectionAccount, head: dict[str, Any], message: dict[str, Any], mark: str) -> None:
    """The document and what is known of the message together. Raises MusterError."""
    name = build_mail_document_name(head)
    content = clean_database_text(render_mail_text(message)).encode()
    checksum = sha256(content).hexdigest()
    file = None
    if storage.find_same_document(account.collection, name, checksum) is None:
        file = files.store_bytes(account.owner_id, name, content, declared="text/plain")
    with transaction.atomic():
        # Somebody may have removed the account meanwhile.
        if not CollectionAccount.objects.select_for_update().filter(pk=account.pk).exists():
            return
        if file is not None:
            source = Document.Source.CONNECTOR
            storage.add_prepared(account.collection, file, name=name, source=source, untrusted=True)
        save_account_item(account, head, mark=mark, error="")


def save_item_error(account: CollectionAccount, head: dict[str, Any], error: str) -> None:
    """Why a message has no document. Without a mark, the next turn tries it again."""
    save_account_item(account, head, mark="", error=clean_database_text(error)[:300])


def save_account_item(account: CollectionAccount, head: dict[str, Any], *, mark: str, error: str) -> None:
    fields = {"mark": mark, "name": build_mail_document_name(head), "error": error}
    AccountItem.objects.update_or_create(account=account, external_id=build_item_key(head), defaults=fields)


def build_mail_document_name(head: dict[str, Any]) -> str:
    """Its subject, and letters that tell messages of one subject apart."""
    subject = str(head.get("subject") or head.get("snippet") or head.get("from") or "")
    title = files.clean_name(subject[:120])
    digest = sha256(build_item_key(head).encode()).hexdigest()
    return f"{title} [{digest[:10]}]"


def render_mail_text(message: dict[str, Any]) -> str:
    """The headers, the text, the replies, and what is left out, with empty lines between them."""
    lines = [f"{title}: {message[name]}" for title, name in HEADS if message.get(name)]
    # Only a message that cannot be read has its headers as they were sent.
    if headers := message.get("headers"):
        lines.append(str(message["note"]))
        lines += [f"{name}: {value}" for name, value in headers.items()]
    parts = ["\n".join(lines), str(message.get("text", ""))]
    for reply in message.get("replies", []):
        parts.append(render_mail_text(reply))
    losses = []
    for one in message.get("left_out", []):
        if one["is_lost"]:
            losses.append(f"[left out: {one['place']}: {one['reason']}]")
    if losses:
        parts.append("\n".join(losses))
    return "\n\n".join(parts)


# -- adding and removing -----------------------------------------------------------------------------------------------


@transaction.atomic
def add_collection_account(collection: Collection, user: Any, name: str, query: str) -> tuple[CollectionAccount, bool]:
    """An account of this person, and whether it is new. Raises Invalid, Conflict."""
    connection = Connection.objects.filter(owner=user, name=name, provider__in=ACCOUNTS).first()
    if connection is None:
        raise Invalid(_("You have no connected mail or chat account of this name."), code="unknown_account")
    storage.lock_collection(collection)
    mine = CollectionAccount.objects.filter(collection=collection, owner=user)
    if account := mine.filter(connection_id=connection.pk, query=query).first():
        return account, False
    if mine.count() >= MAX_ACCOUNTS:
        raise Conflict(
            _("You can add %(number)s accounts to a collection.") % {"number": MAX_ACCOUNTS},
            code="too_many_accounts",
            hint=_("Remove one first."),
        )
    row = CollectionAccount.objects.create(collection=collection, owner=user, connection_id=connection.pk, query=query)
    return row, True


@transaction.atomic
def remove_collection_account(account: CollectionAccount) -> int:
    """With all documents that were made of it, in every version: how many."""
    collection = storage.lock_collection(account.collection)
    row = CollectionAccount.objects.select_for_update().get(pk=account.pk)
    names = set(row.items.values_list("name", flat=True))
    # What another account found as well stays.
    others = AccountItem.objects.filter(account__collection=collection).exclude(account=row)
    names -= set(others.values_list("name", flat=True))
    documents = Document.objects.filter(collection=collection, source=Document.Source.CONNECTOR)
    erased = storage.erase_named(documents, names)
    row.delete()
    return erased
