"""Folders of devices that are searched with a collection, over HTTP."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.http.strict import StrictSerializer, Text
from agents.http.viewsets import read_body
from devices.models import Device
from knowledge.collections import device_folders
from knowledge.collections.viewsets import MineInCollection
from knowledge.models import CollectionFolder
from knowledge.models.folder import PATH

PAPERS = OpenApiExample(
    "A folder", request_only=True, value={"device": "01900000-0000-7000-8000-000000000000", "path": "docs/contracts"}
)


class NewFolderSerializer(StrictSerializer):
    device = serializers.UUIDField(help_text="One of your devices.")
    path = Text(max_length=PATH, help_text="Begins with the name of a folder that the device shares.")


class FolderSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    device = serializers.CharField(source="device_id", read_only=True)
    device_name = serializers.SerializerMethodField(help_text="Empty if the device was removed.")

    class Meta:
        model = CollectionFolder
        fields = ["id", "device", "device_name", "path", "created_at"]
        read_only_fields = fields

    def get_device_name(self, row: CollectionFolder) -> str:
        device = Device.objects.live().filter(pk=row.device_id, owner_id=row.owner_id).first()
        if device is None:
            return ""
        return device.name


class FolderViewSet(MineInCollection):
    """Your folders in a collection: your devices search them when you search. Nobody else reaches them."""

    queryset = CollectionFolder.objects.none()
    serializer_class = FolderSerializer

    @extend_schema(
        request=NewFolderSerializer, responses={200: FolderSerializer, 201: FolderSerializer}, examples=[PAPERS]
    )
    def create(self, request: Any, name: str) -> Response:
        """Search a folder of a device of yours with this collection. Its files stay on the device."""
        body = read_body(NewFolderSerializer, request)
        collection = self.collection()
        row, is_new = device_folders.add_device_folder(collection, request.user, body["device"], body["path"])
        if is_new:
            self.audit("added", row, collection=str(collection))
        status = 201 if is_new else 200
        return Response(FolderSerializer(row).data, status=status)

    def destroy(self, request: Any, name: str, pk: Any) -> Response:
        """Search it no longer. You may do that also where you may not change the collection."""
        row = self.get_object()
        self.audit("removed", row, collection=name)
        row.delete()
        return Response(status=204)
