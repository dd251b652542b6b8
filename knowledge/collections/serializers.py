from typing import Any

from rest_framework import serializers

from agents.http.strict import Choice, Flag, StrictSerializer, Text, Whole
from agents.models import Provider
from agents.serializers.owned import OWNED, OwnedSerializer, find_by_name
from knowledge.models import Collection, Document, Evaluation, EvaluationQuestion
from knowledge.models.collection import MODEL, NAME, URL

from . import meaning
from .search import MOST

TEXTS = ["text/plain", "text/markdown", "text/html", "text/csv", "application/json"]
EMBEDDING = (Provider.Kind.OPENAI, Provider.Kind.COMPATIBLE, Provider.Kind.OLLAMA, Provider.Kind.OFFLINE)
SOURCES = ("text", "url", "file")


class CollectionSerializer(OwnedSerializer):
    name = Text(max_length=56)
    description = Text(max_length=500, required=False, allow_blank=True)
    version = serializers.IntegerField(read_only=True, help_text="Counts the changes of what can be found; 0: nothing.")

    embeddings = Text(
        max_length=MODEL, required=False, allow_blank=True,
        help_text="provider:model of an embedding model that compares by meaning; empty: only words are compared.",
    )  # fmt: skip
    embeddings_error = serializers.CharField(read_only=True, help_text="Why vectors are lacking; empty: no error.")

    class Meta:
        model = Collection
        fields = ["name", "description", "version", "embeddings", "embeddings_error", *OWNED]

    def validate_embeddings(self, text: str) -> str:
        """A provider that the person can use."""
        name, _, model = text.partition(":")
        if text and not model:
            raise serializers.ValidationError("Send “provider:model”.")
        if text and find_by_name(Provider, self.context["request"].user, name).kind not in EMBEDDING:
            raise serializers.ValidationError("Providers of this kind have no embeddings here.", code="no_embeddings")
        return text

    def create(self, validated: dict[str, Any]) -> Collection:
        return super().create(choose_model(Collection(), validated))

    def update(self, row: Collection, validated: dict[str, Any]) -> Collection:
        return super().update(row, choose_model(row, validated))


def choose_model(row: Collection, validated: dict[str, Any]) -> dict[str, Any]:
    """The columns to save; with another embedding model also those that belong to it."""
    if "embeddings" not in validated:
        return validated
    before = row.embeddings
    meaning.choose_embedding_model(row, validated["embeddings"])
    if row.embeddings == before:
        return validated
    # What changes with the model is saved with it.
    changes = {name: getattr(row, name) for name in meaning.CHOSEN}
    return {**validated, **changes}


class LeftOutSerializer(serializers.Serializer):
    place = serializers.CharField(help_text="Where it is in the document, such as “page 3”.")
    reason = serializers.CharField(help_text="Why it is not in the text.")
    is_lost = serializers.BooleanField(
        help_text="False: the text is there, and the reason is a note on it, such as a guessed encoding."
    )


class DocumentSerializer(serializers.ModelSerializer):
    """`error` is null unless the status is failed."""

    id = serializers.CharField(read_only=True)
    file = serializers.CharField(source="file_id", read_only=True, allow_null=True)
    size = serializers.IntegerField(source="file.size", read_only=True, allow_null=True, default=None)
    error = serializers.SerializerMethodField()
    left_out = LeftOutSerializer(
        many=True, read_only=True, help_text="What of the document is not in its text; empty: nothing."
    )
    chunks = serializers.IntegerField(source="chunk_count", read_only=True, help_text="Pieces in the index.")

    class Meta:
        model = Document
        fields = [
            "id", "name", "source", "url", "file", "media_type", "size", "checksum", "untrusted", "status", "error",
            "left_out", "chunks", "from_version", "until_version", "created_at", "indexed_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_error(self, row: Document) -> dict[str, str] | None:
        if not row.error_code:
            return None
        return {"code": row.error_code, "message": row.error}


class NewDocumentSerializer(StrictSerializer):
    """Send one of `text`, `url` and `file`. A document of the same name is replaced once this one is read."""

    name = Text(max_length=NAME, required=False, help_text="Needed for a text; else the file's name or the URL.")
    text = Text(required=False, trim_whitespace=False)
    media_type = Choice(choices=TEXTS, default="text/plain", help_text="Of a text.")
    url = Text(max_length=URL, required=False, help_text="A public page; a worker fetches it.")
    file = serializers.UUIDField(required=False, help_text="The id of a file of yours.")
    untrusted = Flag(default=True, help_text="False only for what you wrote yourself or trust like that.")

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        sent = [name for name in SOURCES if fields.get(name)]
        if len(sent) != 1:
            raise serializers.ValidationError("Send one of “text”, “url” and “file”.")
        if "text" in sent and not fields.get("name"):
            raise serializers.ValidationError({"name": "A text needs a name."})
        if "url" in sent and not fields["url"].startswith(("http://", "https://")):
            raise serializers.ValidationError({"url": "It must begin with http:// or https://."})
        return fields


class UploadedDocumentSerializer(StrictSerializer):
    """The content in the part `file` of a form. All values of a form are texts."""

    file = serializers.FileField(allow_empty_file=True)
    name = Text(max_length=NAME, required=False, help_text="By default, that of the part `file`.")
    untrusted = Choice(choices=[("true", "true"), ("false", "false")], default="true")


class SearchSerializer(StrictSerializer):
    query = Text(max_length=500)
    limit = Whole(min_value=1, max_value=MOST, default=10)
    version = Whole(min_value=1, max_value=2**31 - 1, required=False, help_text="Search an earlier version.")


class FoundDocumentSerializer(serializers.Serializer):
    id = serializers.CharField(allow_blank=True, help_text="Empty: a file of a device.")
    name = serializers.CharField(help_text="Of a file of a device: its path there.")
    untrusted = serializers.BooleanField()
    device = serializers.CharField(allow_null=True, help_text="The device of yours that has the file.")


class PlaceSerializer(serializers.Serializer):
    page = serializers.IntegerField(allow_null=True, help_text="From 1.")
    heading = serializers.CharField(allow_blank=True)
    position = serializers.IntegerField(help_text="The number of the piece in the document, from 0.")
    text = serializers.CharField(help_text="The place in words.")


class FoundPlaceSerializer(PlaceSerializer):
    position = serializers.IntegerField(
        allow_null=True, help_text="The number of the piece in the document, from 0; null in a file of a device."
    )
    line = serializers.IntegerField(allow_null=True, help_text="From 1; in a file of a device.")


class FoundPieceSerializer(serializers.Serializer):
    document = FoundDocumentSerializer()
    place = FoundPlaceSerializer()
    text = serializers.CharField()
    score = serializers.FloatField(help_text="Comparable within one answer.")


class NotSearchedSerializer(serializers.Serializer):
    device = serializers.CharField()
    path = serializers.CharField()
    reason = serializers.CharField()


class ResultsSerializer(serializers.Serializer):
    results = FoundPieceSerializer(many=True)
    not_searched = NotSearchedSerializer(
        many=True, help_text="Folders of your devices that were not searched, or not to their end."
    )


class PieceSerializer(serializers.Serializer):
    place = PlaceSerializer()
    text = serializers.CharField()


class ErasedDocumentsSerializer(serializers.Serializer):
    erased = serializers.IntegerField(help_text="Revisions of the document.")


class NewEvaluationQuestionSerializer(StrictSerializer):
    question = Text(max_length=500)
    document = Text(max_length=NAME, help_text="The name of the document that answers it.")
    place = Text(
        max_length=200, default="", allow_blank=True, help_text="A page such as “page 3”, or a heading; empty: any."
    )


class EvaluationQuestionSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)

    class Meta:
        model = EvaluationQuestion
        fields = ["id", "question", "document", "place", "created_at"]
        read_only_fields = fields


class RankSerializer(serializers.Serializer):
    question = serializers.CharField()
    document = serializers.CharField()
    place = serializers.CharField(allow_blank=True)
    rank = serializers.IntegerField(allow_null=True, help_text="From 1; null: not among the best 50.")


class EvaluationSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    ranks = RankSerializer(many=True, read_only=True)
    warning = serializers.CharField(
        read_only=True, help_text="What became worse since the evaluation before; or empty."
    )

    class Meta:
        model = Evaluation
        fields = ["id", "version", "recall_at_5", "mrr", "warning", "ranks", "created_at"]
        read_only_fields = fields
