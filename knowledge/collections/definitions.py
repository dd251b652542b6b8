"""Collections as definition files: settings, documents with their content, and the evaluation set.

Documents and questions that a file leaves out stay as they are. A file that has `documents` has all of them: others are
removed. Messages of accounts, folders of devices and documents whose file was deleted are neither exported nor removed.
"""

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop as _

from agents import storage as stored
from agents.definitions import shapes
from agents.definitions.agents import share_definition
from agents.definitions.contents import read_content, write_content
from agents.definitions.files import Definition
from agents.documents import LONE
from agents.exceptions import Conflict, Invalid, TooLarge
from agents.http.viewsets import refusals
from agents.models import AuditEvent, Provider, StoredFile
from agents.sharing import carry
from agents.unknown import extra
from knowledge.models import Collection, Document
from knowledge.models.collection import NAME, URL

from . import catalog, evaluation, meaning, storage
from .serializers import EMBEDDING

Source = Document.Source
COLUMNS = ("description", "embeddings")
SHAPES: dict[str, Any] = {
    "description": (str,), "embeddings": (str,), "documents": (dict,), "questions": (list,), "team": (str, True),
}  # fmt: skip
CONTENTS = ("text", "base64", "url")
DOCUMENT: dict[str, Any] = {**dict.fromkeys([*CONTENTS, "media_type"], (str,)), "untrusted": (bool,)}
PAGE = ("url",)  # a web page is always untrusted, and its server names the type
QUESTION = {"question": 500, "document": NAME, "place": 200}  # characters
MOST = 500  # documents in a file
MOST_BYTES = 16 << 20  # of the documents of one collection in an export
LARGE = _("Export the other kinds one by one, and leave “documents” out of a file that changes this collection.")


class CollectionKind:
    """The fields of a definition. `documents` maps names to texts, or to {text | base64, media_type, untrusted} or
    {url}; `questions` lists {question, document, place}.
    """

    name = "collection"

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], StoredFile] = {}  # bytes that are stored and whose rows are not
        self.names: list[str] = []  # of these bytes in the storage

    def unknown(self, definition: Definition) -> dict[str, str]:
        fields = extra(definition, {"kind", "name", *SHAPES})
        for name, one in islice(get_defined_documents(definition).items(), MOST):
            fields |= extra(one, PAGE if is_page(one) else DOCUMENT, f"documents.{str(name)[:100]}.")
        for number, one in enumerate(get_defined_questions(definition)[: evaluation.QUESTIONS]):
            fields |= extra(one, QUESTION, f"questions.{number}.")
        return fields

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        faults = shapes.faults(definition, SHAPES)
        if len(get_defined_documents(definition)) > MOST:
            return [*faults, fault("documents", f"A file has at most {MOST} documents of a collection.")]
        for name, one in get_defined_documents(definition).items():
            faults += faults_in_document(name, one)
        return faults + faults_in_questions(get_defined_questions(definition))

    def rows(self, owner: Any) -> Iterable[Collection]:
        return Collection.objects.filter(owner=owner).select_related("team").order_by("name")

    def find(self, owner: Any, name: str) -> Collection | None:
        return Collection.objects.filter(owner=owner, name=name).select_related("owner", "team").first()

    def read(self, row: Collection) -> Definition:
        """Raises TooLarge, Invalid (file_gone)."""
        rows = load_portable_documents(row)
        if sum(one.file.size for one in rows.values() if one.file) > MOST_BYTES:
            raise TooLarge(f"The documents of “{row.name}” have more than {MOST_BYTES >> 20} MB.", hint=LARGE)
        documents = {name: build_document_definition(one) for name, one in sorted(rows.items())}
        questions = list(read_questions(row).values())
        lists = {"documents": documents, "questions": questions}
        return {**build_collection_definition(row), **{name: value for name, value in lists.items() if value}}

    def state(self, row: Collection, definition: Definition) -> Definition:
        """What an apply compares: checksums in place of contents."""
        now = load_portable_documents(row) if "documents" in definition else {}
        documents = {name: get_stored_state(one) for name, one in now.items()}
        return {**build_collection_definition(row), "documents": documents, "questions": read_questions(row)}

    def normal(self, definition: Definition, owner: Any) -> Definition:
        kept = {name: definition[name] for name in ("kind", "name", "team", *COLUMNS) if definition.get(name)}
        row = self.find(owner, definition["name"])
        now = load_portable_documents(row) if row and "documents" in definition else {}
        documents = {
            name: build_wanted_state(one, now.get(name)) for name, one in get_defined_documents(definition).items()
        }
        return {**kept, "documents": documents, "questions": written_questions(get_defined_questions(definition))}

    def left_open(self, definition: Definition) -> set[str]:
        return {"documents", "questions"} - definition.keys()

    def prepare(self, definition: Definition, *, owner: Any, actor: Any) -> None:
        """Store the bytes of new contents, while no transaction is open. Raises Invalid, Conflict, TooLarge."""
        if get_defined_documents(definition) and owner is None:
            raise Invalid(
                "A collection of the site has no documents in a file.",
                code="needs_owner",
                hint="Apply it for a person.",
            )
        row = self.find(owner, definition["name"])
        now = load_portable_documents(row) if row and "documents" in definition else {}
        new = {
            name: one for name, one in get_defined_documents(definition).items() if is_content_new(one, now.get(name))
        }
        if len(self.files) + len(new) > MOST:
            raise TooLarge(f"These are more than {MOST} new documents.", hint="Apply one collection at a time.")
        for name, one in new.items():
            untrusted = build_wanted_state(one, now.get(name))["untrusted"]
            file = stored.store_bytes(
                owner.pk, name, read_defined_content(name, one), declared=get_declared_type(one), untrusted=untrusted
            )
            self.files[definition["name"], name] = file
            self.names.append(file.stored)

    def abandon(self) -> None:
        """Delete the stored bytes that no row refers to."""
        kept = set(StoredFile.objects.filter(stored__in=self.names).values_list("stored", flat=True))
        stored.remove_stored_bytes(set(self.names) - kept)

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Collection | None) -> Collection:
        row = storage.lock_collection(row) if row else Collection(owner=owner, name=definition["name"])
        share_definition(row, definition.get("team"))
        row.description = definition.get("description", "")
        meaning.choose_embedding_model(row, checked_model(definition.get("embeddings", ""), owner))
        row.full_clean(exclude=["owner", "team", "version", *meaning.CHOSEN])
        with refusals(self.name, actor):
            row.save()
            carry(row)
            catalog.save_collection_tools(row)
        counts = self.write_documents(row, definition) if "documents" in definition else {}
        if "questions" in definition:
            write_questions(row, definition["questions"])
        row.refresh_from_db()
        AuditEvent.record("collection.applied", row, actor=actor, source="definitions", **counts)
        return row

    def write_documents(self, row: Collection, definition: Definition) -> dict[str, int]:
        """Add, mark and remove documents; a worker reads the new ones. Returns how many were added and removed."""
        now, added = load_portable_documents(row), 0
        for name, one in definition["documents"].items():
            old, new = now.get(name), build_wanted_state(one, now.get(name))
            if old and get_stored_state(old) == new:
                continue
            if old and not is_content_new(one, old) and not is_page(one):
                revisions = Document.objects.filter(collection=row, name=name, checksum=old.checksum)
                revisions.update(untrusted=True)
                continue
            storage.create_document_row(self.document(row, name, one, new))
            added += 1
        gone = [one for name, one in now.items() if name not in definition["documents"]]
        for document in gone:
            storage.remove_document(document)
        return {"documents_added": added, "documents_removed": len(gone)}

    def document(self, row: Collection, name: str, one: Any, new: Definition) -> Document:
        """A new revision, which waits for a worker. Raises Conflict."""
        if is_page(one):
            return Document(collection=row, name=name, source=Source.URL, url=one["url"], untrusted=True)
        file = self.files.pop((row.name, name), None)
        if file is None:
            raise Conflict(
                f"The document “{name[:100]}” was changed meanwhile.", code="changed", hint="Apply it again."
            )
        stored.insert_file_row(file)
        source = Source.TEXT if isinstance(one, str) or "text" in one else Source.UPLOAD
        return Document(
            collection=row, name=name, source=source, file=file, media_type=file.media_type, checksum=file.sha256,
            untrusted=new["untrusted"],
        )  # fmt: skip


# -- settings ----------------------------------------------------------------------------------------------------------


def build_collection_definition(row: Collection) -> Definition:
    team = {"team": row.team.name} if row.team else {}
    values = {name: getattr(row, name) for name in COLUMNS if getattr(row, name)}
    return {"kind": CollectionKind.name, "name": row.name, **values, **team}


def checked_model(text: str, owner: Any) -> str:
    """“provider:model” of a provider that the owner can use. Raises Invalid, NotFound, Forbidden."""
    name, __, model = text.partition(":")
    if not text:
        return text
    provider = find_collection_provider(name, owner) if model else None
    if provider is None or provider.kind not in EMBEDDING:
        raise Invalid(
            f"“{text[:100]}” is not an embedding model.", code="no_embeddings", hint="Write “provider:model”."
        )
    return text


def find_collection_provider(name: str, owner: Any) -> Provider | None:
    """Raises NotFound, Forbidden, Conflict. The site uses its own."""
    if owner is None:
        return Provider.objects.filter(owner=None, name=name).first()
    provider: Provider = Provider.objects.for_use(owner, name)
    return provider


# -- documents ---------------------------------------------------------------------------------------------------------


def build_portable_query(**filters: Any) -> QuerySet[Document]:
    """The revisions that a file can carry: web pages, and contents that are stored here."""
    here = Q(source__in=[Source.TEXT, Source.UPLOAD, Source.FILE], file__isnull=False)
    return Document.objects.filter(Q(source=Source.URL) | here, **filters).current()


def load_portable_documents(row: Collection) -> dict[str, Document]:
    """The newest revision of each document that a file can carry, by name. Raises TooLarge.

    A name has at most two rows: the one that is searched, and one that waits or failed. The site's are not carried:
    contents belong to a person.
    """
    if row.owner_id is None:
        return {}
    rows = build_portable_query(collection=row).order_by("id").select_related("file", "collection")[: 2 * MOST + 1]
    documents = {one.name: one for one in rows}
    if len(documents) > MOST:
        raise TooLarge(f"The collection “{row.name}” has more than {MOST} documents.", hint=LARGE)
    return documents


def build_document_definition(row: Document) -> Any:
    if row.source == Source.URL:
        return {"url": row.url}
    content = stored.read_stored_file(row.file) if row.file else None
    if content is None:
        raise Invalid(f"The file of the document “{row.name[:100]}” is not in the storage.", code="file_gone")
    usual = stored.detect_type(content) == row.media_type
    more = {**({} if usual else {"media_type": row.media_type}), **({} if row.untrusted else {"untrusted": False})}
    plain = write_content(content)
    if isinstance(plain, str):
        return {"text": plain, **more} if more else plain
    return {**plain, **more}


def get_stored_state(row: Document) -> Definition:
    if row.source == Source.URL:
        return {"url": row.url}
    return {"sha256": row.checksum, "media_type": row.media_type, "untrusted": row.untrusted}


def build_wanted_state(one: Any, old: Document | None) -> Definition:
    """The state that a file asks for. A mark stays; contents are trusted only if the file says so, or were before."""
    if is_page(one):
        return {"url": one["url"]}
    content = read_defined_content("", one)
    new = {"sha256": sha256(content).hexdigest(), "media_type": stored.detect_type(content, get_declared_type(one))}
    is_same = old is not None and old.checksum == new["sha256"]
    usual = old.untrusted if old is not None and is_same else True
    marked = one.get("untrusted", usual) if isinstance(one, dict) else usual
    return {**new, "untrusted": marked or bool(old and old.untrusted)}


def is_content_new(one: Any, old: Document | None) -> bool:
    """Whether bytes must be stored: the content or its type is another. False for web pages."""
    if is_page(one):
        return False
    new = build_wanted_state(one, old)
    is_known = old is not None and old.source != Source.URL
    return not is_known or (old.checksum, old.media_type) != (new["sha256"], new["media_type"])


def is_page(one: Any) -> bool:
    return isinstance(one, dict) and "url" in one


def read_defined_content(name: str, one: Any) -> bytes:
    """Raises Invalid."""
    return read_content(name, one["text"] if isinstance(one, dict) and "text" in one else one)


def get_declared_type(one: Any) -> str:
    return str(one.get("media_type", "")) if isinstance(one, dict) else ""


def get_defined_documents(definition: Definition) -> dict[str, Any]:
    documents = definition.get("documents")
    return documents if isinstance(documents, dict) else {}


def faults_in_document(name: Any, one: Any) -> list[dict[str, str]]:
    place = f"documents.{str(name)[:100]}"
    if not is_line(name, NAME):
        return [fault(place, f"A name has 1 to {NAME} characters.")]
    if isinstance(one, str):
        return []
    if not isinstance(one, dict) or len(one.keys() & set(CONTENTS)) != 1:
        return [fault(place, "Write a text, or a mapping with one of text, base64 and url.")]
    if faults := shapes.faults(one, DOCUMENT, f"{place}."):
        return faults
    if is_page(one):
        is_address = one["url"].startswith(("http://", "https://")) and is_line(one["url"], URL)
        return [] if is_address else [fault(f"{place}.url", "It must begin with http:// or https://.")]
    try:
        read_defined_content(name, one)
    except Invalid as error:
        return [fault(f"{place}.base64", str(error))]
    return []


# -- questions ---------------------------------------------------------------------------------------------------------


def get_defined_questions(definition: Definition) -> list[Any]:
    questions = definition.get("questions")
    return questions if isinstance(questions, list) else []


def faults_in_questions(questions: list[Any]) -> list[dict[str, str]]:
    if len(questions) > evaluation.QUESTIONS:
        return [fault("questions", f"A collection can have {evaluation.QUESTIONS} questions.")]
    faults: list[dict[str, str]] = []
    known_texts: set[str] = set()
    for number, one in enumerate(questions):
        texts = {**one, "place": "-" if one.get("place", "") == "" else one["place"]} if isinstance(one, dict) else {}
        if not all(is_line(texts.get(name), most) for name, most in QUESTION.items()):
            message = "Write {question, document, place}: texts of at most 500, 200 and 200 characters."
            faults.append(fault(f"questions.{number}", message))
        elif texts["question"] in known_texts:
            faults.append(fault(f"questions.{number}", "This question occurs twice."))
        else:
            known_texts.add(texts["question"])
    return faults


def read_questions(row: Collection) -> dict[str, Definition]:
    rows = evaluation.build_questions_query(row)
    return written_questions([{name: getattr(one, name) for name in QUESTION} for one in rows])


def written_questions(questions: list[Any]) -> dict[str, Definition]:
    """Each by its words, as an export writes it."""
    return {one["question"]: {name: one[name] for name in QUESTION if one.get(name)} for one in questions}


def write_questions(row: Collection, questions: list[Definition]) -> None:
    evaluation.build_questions_query(row).exclude(question__in=[one["question"] for one in questions]).delete()
    for one in questions:
        evaluation.add_question(row, one["question"], one["document"], one.get("place", ""))


def is_line(text: Any, most: int) -> bool:
    return isinstance(text, str) and 0 < len(text) <= most and bool(text.strip()) and not LONE.search(text)


def fault(field: str, message: str) -> dict[str, str]:
    return {"field": field, "code": "invalid", "message": message}
