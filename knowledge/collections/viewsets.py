"""What the views of rows in a collection share: which collection, and who may change it."""

from typing import Any

from rest_framework import mixins

from agents.http import viewsets
from agents.http.viewsets import Audited, ByName
from knowledge.models import Collection


class InCollection(ByName, Audited, viewsets.GenericViewSet):
    """Everyone who sees the collection reads; its editors write."""

    scope = "collections"
    page_ordering: tuple[str, ...] = ("-id",)
    # For these it is enough to see the collection.
    without_edit: tuple[str, ...] = ("GET", "HEAD", "OPTIONS")

    def collection(self) -> Collection:
        if getattr(self, "swagger_fake_view", False):
            return Collection()
        row: Collection = self.named(Collection.objects.all())
        if self.request.method not in self.without_edit:
            row.require_edit(self.request.user)
        return row


class MineInCollection(mixins.ListModelMixin, InCollection):
    """Rows of the person in a collection. They may be removed also where the person may not change the collection."""

    queryset: Any
    without_edit = (*InCollection.without_edit, "DELETE")

    def get_queryset(self) -> Any:
        visible = self.queryset.model.objects.visible_to(self.request.user)
        return visible.filter(collection=self.collection())
