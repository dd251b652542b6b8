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
# A web page has no other fields: it is always untrusted, and its server names the type.
PAGE = ("url",)
# Fields of a question, and the characters that each can have.
QUESTION = {"question": 500, "document": NAME, "place": 200}
# Documents in a file.
MOST = 500
# Bytes of the documents of one collection in an export.
MOST_BYTES = 16 << 20
LARGE = _("Export the other kinds one by one, and leave “documents” out of a file that changes this collection.")


class CollectionKind:
    """The fields of a definition. `documents` maps names to texts, or to {text | base64, media_type, untrusted} or
    {url}; `questions` lists {question, document, place}.
    """

    name = "collection"

    def __init__(self) -> None:
        # Bytes that are stored and whose rows are not, by the names of collection and document.
        self.files: dict[tuple[str, str], StoredFile] = {}
        # Their names in the storage.
        self.names: list[str] = []

    def unknown(self, definition: Definition) -> dict[str, str]:
        fields = extra(definition, {"kind", "name", *SHAPES})
        documents = get_defined_documents(definition)
        for name, one in islice(documents.items(), MOST):
            field_names = PAGE if is_page(one) else DOCUMENT
            fields |= extra(one, field_names, f"documents.{str(name)[:100]}.")
        questions = get_defined_questions(definition)
        for number, one in enumerate(questions[: evaluation.QUESTIONS]):
            fields |= extra(one, QUESTION, f"questions.{number}.")
        return fields

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        faults = shapes.faults(definition, SHAPES)
        documents = get_defined_documents(definition)
        if len(documents) > MOST:
            return [*faults, build_fault("documents", f"A file has at most {MOST} documents of a collection.")]
        for name, one in documents.items():
            faults += find_document_faults(name, one)
        return faults + find_question_faults(get_defined_questions(definition))

    def rows(self, owner: Any) -> Iterable[Collection]:
        return Collection.objects.filter(owner=owner).select_related("team").order_by("name")

    def find(self, owner: Any, name: str) -> Collection | None:
        rows = Collection.objects.filter(owner=owner, name=name)
        return rows.select_related("owner", "team").first()

    def read(self, row: Collection) -> Definition:
        """Raises TooLarge, Invalid (file_gone)."""
        rows = load_portable_documents(row)
        size = sum(one.file.size for one in rows.values() if one.file)
        if size > MOST_BYTES:
            raise TooLarge(f"The documents of “{row.name}” have more than {MOST_BYTES >> 20} MB.", hint=LARGE)
        definition = build_collection_definition(row)
        if rows:
            definition["documents"] = {name: build_document_definition(one) for name, one in sorted(rows.items())}
        if questions := read_questions(row):
            definition["questions"] = list(questions.values())
        return definition

    def state(self, row: Collection, definition: Definition) -> Definition:
        """What an apply compares: checksums in place of contents."""
        rows: dict[str, Document] = {}
        if "documents" in definition:
            rows = load_portable_documents(row)
        state = build_collection_definition(row)
        state["documents"] = {name: get_stored_state(one) for name, one in rows.items()}
        state["questions"] = read_questions(row)
        return state

    def normal(self, definition: Definition, owner: Any) -> Definition:
        columns = ("kind", "name", "team", *COLUMNS)
        normal = {name: definition[name] for name in columns if definition.get(name)}
        rows = self.load_documents(definition, owner)
        documents = get_defined_documents(definition)
        normal["documents"] = {name: build_wanted_state(one, rows.get(name)) for name, one in documents.items()}
        normal["questions"] = build_question_definitions(get_defined_questions(definition))
        return normal

    def load_documents(self, definition: Definition, owner: Any) -> dict[str, Document]:
        """The documents that the definition changes; none if it has no list of them, or the collection is new."""
        row = self.find(owner, definition["name"])
        if row is None or "documents" not in definition:
            return {}
        return load_portable_documents(row)

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
        rows = self.load_documents(definition, owner)
        documents = get_defined_documents(definition)
        new = {name: one for name, one in documents.items() if is_content_new(one, rows.get(name))}
        if len(self.files) + len(new) > MOST:
            raise TooLarge(f"These are more than {MOST} new documents.", hint="Apply one collection at a time.")
        for name, one in new.items():
            content = read_defined_content(name, one)
            declared = get_declared_type(one)
            untrusted = build_wanted_state(one, rows.get(name))["untrusted"]
            file = stored.store_bytes(owner.pk, name, content, declared=declared, untrusted=untrusted)
            self.files[definition["name"], name] = file
            self.names.append(file.stored)

    def abandon(self) -> None:
        """Delete the stored bytes that no row refers to."""
        rows = StoredFile.objects.filter(stored__in=self.names)
        used = set(rows.values_list("stored", flat=True))
        stored.remove_stored_bytes(set(self.names) - used)

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Collection | None) -> Collection:
        if row is None:
            row = Collection(owner=owner, name=definition["name"])
        else:
            row = storage.lock_collection(row)
        share_definition(row, definition.get("team"))
        row.description = definition.get("description", "")
        model = check_model(definition.get("embeddings", ""), owner)
        meaning.choose_embedding_model(row, model)
        row.full_clean(exclude=["owner", "team", "version", *meaning.CHOSEN])
        with refusals(self.name, actor):
            row.save()
            carry(row)
            catalog.save_collection_tools(row)
        counts: dict[str, int] = {}
        if "documents" in definition:
            counts = self.write_documents(row, definition)
        if "questions" in definition:
            write_questions(row, definition["questions"])
        row.refresh_from_db()
        AuditEvent.record("collection.applied", row, actor=actor, source="definitions", **counts)
        return row

    def write_documents(self, row: Collection, definition: Definition) -> dict[str, int]:
        """Add, mark and remove documents; a worker reads the new ones. Returns how many were added and removed."""
        documents = definition["documents"]
        rows = load_portable_documents(row)
        added = 0
        for name, one in documents.items():
            old = rows.get(name)
            state = build_wanted_state(one, old)
            if old and get_stored_state(old) == state:
                continue
            # Only the mark differs: the content need not be read again.
            if old and not is_content_new(one, old) and not is_page(one):
                revisions = Document.objects.filter(collection=row, name=name, checksum=old.checksum)
                revisions.update(untrusted=True)
                continue
            storage.create_document_row(self.document(row, name, one, state))
            added += 1
        gone = [one for name, one in rows.items() if name not in documents]
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
        is_text = isinstance(one, str) or "text" in one
        return Document(
            collection=row,
            name=name,
            source=Source.TEXT if is_text else Source.UPLOAD,
            file=file,
            media_type=file.media_type,
            checksum=file.sha256,
            untrusted=new["untrusted"],
        )


# -- settings ----------------------------------------------------------------------------------------------------------


def build_collection_definition(row: Collection) -> Definition:
    """The collection without its documents; columns that are empty are left out."""
    definition: Definition = {"kind": CollectionKind.name, "name": row.name}
    for name in COLUMNS:
        if value := getattr(row, name):
            definition[name] = value
    if row.team:
        definition["team"] = row.team.name
    return definition


def check_model(text: str, owner: Any) -> str:
    """“provider:model” of a provider that the owner can use. Raises Invalid, NotFound, Forbidden."""
    if not text:
        return text
    name, __, model = text.partition(":")
    provider = None
    if model:
        provider = find_collection_provider(name, owner)
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
    is_web_page = Q(source=Source.URL)
    is_stored = Q(source__in=[Source.TEXT, Source.UPLOAD, Source.FILE], file__isnull=False)
    return Document.objects.filter(is_web_page | is_stored, **filters).current()


def load_portable_documents(row: Collection) -> dict[str, Document]:
    """The newest revision of each document that a file can carry, by name. Raises TooLarge.

    A name has at most two rows: the one that is searched, and one that waits or failed. The site's are not carried:
    contents belong to a person.
    """
    if row.owner_id is None:
        return {}
    rows = build_portable_query(collection=row).order_by("id").select_related("file", "collection")
    # Of two rows with one name the later one stays.
    documents = {one.name: one for one in rows[: 2 * MOST + 1]}
    if len(documents) > MOST:
        raise TooLarge(f"The collection “{row.name}” has more than {MOST} documents.", hint=LARGE)
    return documents


def build_document_definition(row: Document) -> Any:
    """A text, or a mapping where something must be said about the content."""
    if row.source == Source.URL:
        return {"url": row.url}
    content = stored.read_stored_file(row.file) if row.file else None
    if content is None:
        raise Invalid(f"The file of the document “{row.name[:100]}” is not in the storage.", code="file_gone")
    more: dict[str, Any] = {}
    if stored.detect_type(content) != row.media_type:
        more["media_type"] = row.media_type
    if not row.untrusted:
        more["untrusted"] = False
    written = write_content(content)
    if not isinstance(written, str):
        return {**written, **more}
    if more:
        return {"text": written, **more}
    return written


def get_stored_state(row: Document) -> Definition:
    if row.source == Source.URL:
        return {"url": row.url}
    return {"sha256": row.checksum, "media_type": row.media_type, "untrusted": row.untrusted}


def build_wanted_state(one: Any, old: Document | None) -> Definition:
    """The state that a file asks for. A mark stays; contents are trusted only if the file says so, or were before."""
    if is_page(one):
        return {"url": one["url"]}
    content = read_defined_content("", one)
    checksum = sha256(content).hexdigest()
    untrusted = True
    if old is not None and old.checksum == checksum:
        untrusted = old.untrusted
    if isinstance(one, dict):
        untrusted = one.get("untrusted", untrusted)
    if old is not None and old.untrusted:
        untrusted = True
    media_type = stored.detect_type(content, get_declared_type(one))
    return {"sha256": checksum, "media_type": media_type, "untrusted": untrusted}


def is_content_new(one: Any, old: Document | None) -> bool:
    """Whether bytes must be stored: the content or its type is another. False for web pages."""
    if is_page(one):
        return False
    state = build_wanted_state(one, old)
    if old is None or old.source == Source.URL:
        return True
    return old.checksum != state["sha256"] or old.media_type != state["media_type"]


def is_page(one: Any) -> bool:
    return isinstance(one, dict) and "url" in one


def read_defined_content(name: str, one: Any) -> bytes:
    """Raises Invalid."""
    if isinstance(one, dict) and "text" in one:
        one = one["text"]
    return read_content(name, one)


def get_declared_type(one: Any) -> str:
    if not isinstance(one, dict):
        return ""
    return str(one.get("media_type", ""))


def get_defined_documents(definition: Definition) -> dict[str, Any]:
    documents = definition.get("documents")
    return documents if isinstance(documents, dict) else {}


def find_document_faults(name: Any, one: Any) -> list[dict[str, str]]:
    """What is wrong with one entry of `documents`, each with its place; nothing is fetched or stored."""
    place = f"documents.{str(name)[:100]}"
    if not is_line(name, NAME):
        return [build_fault(place, f"A name has 1 to {NAME} characters.")]
    if isinstance(one, str):
        return []
    if not isinstance(one, dict) or len(one.keys() & set(CONTENTS)) != 1:
        return [build_fault(place, "Write a text, or a mapping with one of text, base64 and url.")]
    if faults := shapes.faults(one, DOCUMENT, f"{place}."):
        return faults
    if is_page(one):
        is_address = one["url"].startswith(("http://", "https://")) and is_line(one["url"], URL)
        if is_address:
            return []
        return [build_fault(f"{place}.url", "It must begin with http:// or https://.")]
    try:
        read_defined_content(name, one)
    except Invalid as error:
        return [build_fault(f"{place}.base64", str(error))]
    return []


# -- questions ---------------------------------------------------------------------------------------------------------


def get_defined_questions(definition: Definition) -> list[Any]:
    questions = definition.get("questions")
    return questions if isinstance(questions, list) else []


def find_question_faults(questions: list[Any]) -> list[dict[str, str]]:
    """What is wrong with the questions of an evaluation, each with its place."""
    if len(questions) > evaluation.QUESTIONS:
        return [build_fault("questions", f"A collection can have {evaluation.QUESTIONS} questions.")]
    faults: list[dict[str, str]] = []
    known_texts: set[str] = set()
    for number, one in enumerate(questions):
        place = f"questions.{number}"
        if not is_question(one):
            message = "Write {question, document, place}: texts of at most 500, 200 and 200 characters."
            faults.append(build_fault(place, message))
        elif one["question"] in known_texts:
            faults.append(build_fault(place, "This question occurs twice."))
        else:
            known_texts.add(one["question"])
    return faults


def is_question(one: Any) -> bool:
    if not isinstance(one, dict):
        return False
    for name, most in QUESTION.items():
        # The place may be left out.
        is_empty_place = name == "place" and one.get(name, "") == ""
        if not is_empty_place and not is_line(one.get(name), most):
            return False
    return True


def read_questions(row: Collection) -> dict[str, Definition]:
    questions = []
    for one in evaluation.build_questions_query(row):
        questions.append({name: getattr(one, name) for name in QUESTION})
    return build_question_definitions(questions)


def build_question_definitions(questions: list[Any]) -> dict[str, Definition]:
    """Each by its words, as an export writes it."""
    definitions: dict[str, Definition] = {}
    for one in questions:
        definitions[one["question"]] = {name: one[name] for name in QUESTION if one.get(name)}
    return definitions


def write_questions(row: Collection, questions: list[Definition]) -> None:
    texts = [one["question"] for one in questions]
    others = evaluation.build_questions_query(row).exclude(question__in=texts)
    others.delete()
    for one in questions:
        evaluation.add_question(row, one["question"], one["document"], one.get("place", ""))


def is_line(text: Any, most: int) -> bool:
    if not isinstance(text, str) or len(text) > most or not text.strip():
        return False
    return not LONE.search(text)


def build_fault(field: str, message: str) -> dict[str, str]:
    return {"field": field, "code": "invalid", "message": message}
