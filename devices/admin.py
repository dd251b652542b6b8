"""Devices, their calls, the tools they offer, and the records kept on the server."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as later

from agents.admin import ReadOnlyAdmin
from agents.admin.base import pill
from agents.exceptions import MusterError
from devices import offers, presence
from devices.models import Device, DeviceCall, OfferedTool, Record
from plumbing.texts import translate


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["name", "owner", "state", "platform", "client_version", "last_seen"]
    list_filter = [("owner", admin.RelatedOnlyFieldListFilter)]
    search_fields = ["name"]
    actions = ["revoke_selected"]

    @admin.display(description=later("State"))
    def state(self, device: Device) -> str:
        if device.revoked_at:
            return pill("revoked", "rejected")
        if device.is_online():
            return pill("online")
        return pill("offline", "waiting")

    @admin.action(description=later("Revoke"), permissions=["view"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        address = request.META.get("REMOTE_ADDR", "")
        for device in queryset:
            device.revoke(reason="in the admin", actor=request.user, source=address)
            presence.tell_revoked(device)


@admin.register(DeviceCall)
class DeviceCallAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["tool", "device", "state_word", "attempt", "late", "created_at", "finished_at"]
    list_filter = ["state", "late"]
    list_select_related = ["device"]
    search_fields = ["tool", "run_id"]

    @admin.display(description=later("State"))
    def state_word(self, call: DeviceCall) -> str:
        return pill(call.state)


@admin.register(OfferedTool)
class OfferedToolAdmin(ReadOnlyAdmin):
    list_display = ["name", "device", "status", "is_offered", "short_hash", "decided_at"]
    list_filter = ["status", "is_offered"]
    list_select_related = ["device"]
    actions = ["approve_selected", "reject_selected"]

    @admin.display(description=later("Definition"))
    def short_hash(self, offer: OfferedTool) -> str:
        return offer.hash[:12]

    @admin.action(description=later("Approve this definition"), permissions=["view"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        address = request.META.get("REMOTE_ADDR", "")
        for offer in queryset.select_related("device", "tool"):
            try:
                offers.approve_offer(offer, by=request.user, source=address)
            except MusterError as error:
                messages.error(request, f"{offer}: {translate(str(error))} {translate(error.hint)}")

    @admin.action(description=later("Reject"), permissions=["view"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        address = request.META.get("REMOTE_ADDR", "")
        for offer in queryset.select_related("device", "tool"):
            offers.reject_offer(offer, by=request.user, source=address)


@admin.register(Record)
class RecordAdmin(ReadOnlyAdmin):
    owner_field = "owner"
    list_display = ["__str__", "kind", "owner", "is_ai_suggested", "review", "updated_at"]
    list_filter = ["kind", "review"]
    search_fields = ["words"]
