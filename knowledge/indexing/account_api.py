"""Mail and chat accounts whose messages become documents of a collection, over HTTP."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.http.strict import StrictSerializer, Text
from agents.http.viewsets import read_body
from connectors.models import Connection
from knowledge.collections.viewsets import MineInCollection
from knowledge.indexing import accounts
from knowledge.models import CollectionAccount

CONTRACTS = OpenApiExample("Mails", request_only=True, value={"account": "gmail", "query": "label:contracts"})


class NewCollectionAccountSerializer(StrictSerializer):
    account = Text(max_length=64, help_text="The name of a Gmail, Outlook or Teams connection of yours.")
    query = Text(max_length=500, help_text="As the service searches, such as “label:contracts” in Gmail.")


class CollectionAccountSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    account = serializers.SerializerMethodField(help_text="Empty if the connection was deleted.")
    messages = serializers.SerializerMethodField(help_text="Messages that were read.")
    failed = serializers.SerializerMethodField(help_text="Messages that could not be read, the last 20.")
    error = serializers.CharField(read_only=True, help_text="Why the account could not be read; empty: no error.")

    class Meta:
        model = CollectionAccount
        fields = ["id", "account", "query", "messages", "failed", "error", "created_at"]
        read_only_fields = fields

    def get_account(self, row: CollectionAccount) -> str:
        connection = Connection.objects.filter(pk=row.connection_id, owner_id=row.owner_id).first()
        if connection is None:
            return ""
        return connection.name

    def get_messages(self, row: CollectionAccount) -> int:
        return row.items.filter(error="").count()

    def get_failed(self, row: CollectionAccount) -> list[dict[str, str]]:
        failed = row.items.exclude(error="").order_by("-pk")[:20]
        return [{"name": item.name, "error": item.error} for item in failed]


class CollectionAccountViewSet(MineInCollection):
    """Your accounts in a collection. Everyone who may use the collection reads the messages as its documents."""

    queryset = CollectionAccount.objects.none()
    serializer_class = CollectionAccountSerializer

    @extend_schema(
        request=NewCollectionAccountSerializer,
        responses={200: CollectionAccountSerializer, 201: CollectionAccountSerializer},
        examples=[CONTRACTS],
    )
    def create(self, request: Any, name: str) -> Response:
        """Make documents of the messages that a query finds, now and again. They are shared as the collection is."""
        body = read_body(NewCollectionAccountSerializer, request)
        collection = self.collection()
        row, is_new = accounts.add_collection_account(collection, request.user, body["account"], body["query"])
        if is_new:
            self.audit("added", row, collection=str(collection))
        status = 201 if is_new else 200
        return Response(CollectionAccountSerializer(row).data, status=status)

    def destroy(self, request: Any, name: str, pk: Any) -> Response:
        """Read it no longer, and erase the documents that were made of it from all versions."""
        row = self.get_object()
        erased = accounts.remove_collection_account(row)
        self.audit("removed", row, collection=name, erased=erased)
        return Response(status=204)
