"""Devices, calls and offers as JSON. Credentials are shown once, in the answer to `pair`."""

from rest_framework import serializers

from agents.http.strict import Flag, StrictModelSerializer, StrictSerializer, Text
from devices.models import Device, DeviceCall, OfferedTool
from plumbing import clock


class DeviceSerializer(StrictModelSerializer):
    id = serializers.CharField(read_only=True)
    name = Text(max_length=100)
    is_online = serializers.SerializerMethodField()
    tools = serializers.SerializerMethodField(help_text="Names of the catalogue tools it can run.")
    folders = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Names of the folders that it shares for reading."
    )
    pending_offers = serializers.SerializerMethodField(help_text="Tools it offers that wait for approval.")

    class Meta:
        model = Device
        fields = [
            "id", "name", "platform", "client_version", "is_online", "last_seen", "connected_at", "tools", "folders",
            "pending_offers", "created_at", "revoked_at",
        ]  # fmt: skip
        read_only_fields = [field for field in fields if field != "name"]

    def get_is_online(self, device: Device) -> bool:
        return device.is_online(clock.near())

    def get_tools(self, device: Device) -> list[str]:
        return sorted(device.tools)

    def get_pending_offers(self, device: Device) -> int:
        return sum(offer.is_offered and offer.status == "pending" for offer in device.offers.all())


class PairingSerializer(serializers.Serializer):
    code = serializers.CharField(help_text="Enter it at the device; shown once.")
    expires_at = serializers.DateTimeField()


class PairSerializer(StrictSerializer):
    code = Text(max_length=40)
    name = Text(max_length=100, required=False, default="device")
    platform = Text(max_length=100, required=False, allow_blank=True, default="")
    preview = Flag(
        required=False, default=False, help_text="Only return the account of the code; the code stays valid."
    )


class PairedSerializer(serializers.Serializer):
    """With `preview`, device and credential are null."""

    device = serializers.CharField(allow_null=True)
    credential = serializers.CharField(
        allow_null=True, help_text="Shown once. Send it as Authorization: Bearer when connecting the socket."
    )
    account = serializers.CharField()
    server = serializers.CharField()


class DeviceCallSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    device = serializers.CharField(source="device_id", allow_null=True, read_only=True)
    run = serializers.CharField(source="run_id", allow_null=True, read_only=True)

    class Meta:
        model = DeviceCall
        fields = [
            "id", "device", "run", "tool", "arguments", "run_context", "state", "attempt", "deadline", "result",
            "error", "late", "progress", "created_at", "sent_at", "acked_at", "finished_at",
        ]  # fmt: skip
        read_only_fields = fields


class OfferSerializer(serializers.ModelSerializer):
    tool = serializers.CharField(
        source="tool.name", read_only=True, allow_null=True, help_text="The catalogue tool created by the approval."
    )

    class Meta:
        model = OfferedTool
        fields = [
            "name", "description", "input_schema", "hash", "status", "is_offered", "tool", "first_offered_at",
            "decided_at",
        ]  # fmt: skip
        read_only_fields = fields
