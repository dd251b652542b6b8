"""The user's devices over HTTP: pair, list, revoke, read calls, decide about offered tools."""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http import viewsets
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, read_body
from agents.models import AuditEvent
from devices import offers, pairing, presence
from devices.models import Device, DeviceCall, OfferedTool, Pairing
from devices.serializers import (
    DeviceCallSerializer,
    DeviceSerializer,
    OfferSerializer,
    PairedSerializer,
    PairingSerializer,
    PairSerializer,
)


class PairingView(APIView):
    scope = "devices"
    bodiless = ("post",)
    secret_answers = ("post",)

    @extend_schema(request=None, responses={201: PairingSerializer})
    def post(self, request: Any) -> Response:
        """Ask for a one-time code, to be entered at the device within ten minutes."""
        row, code = Pairing.make(request.user)
        AuditEvent.record("pairing.created", row, actor=request.user, source=client_address(request))
        serializer = PairingSerializer({"code": code, "expires_at": row.expires_at})
        return Response(serializer.data, status=201)


class PairView(APIView):
    """The code is the only credential that is needed."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    @extend_schema(
        request=PairSerializer,
        responses={200: PairedSerializer, 201: PairedSerializer},
        auth=[],
        examples=[
            OpenApiExample(
                "A laptop",
                request_only=True,
                value={"code": "7KQW-MX3D-PA9T", "name": "Alice's laptop", "platform": "Linux"},
            )
        ],
    )
    def post(self, request: Any) -> Response:
        """Exchange a code for a device credential, which is shown once."""
        body = read_body(PairSerializer, request)
        code = body["code"]
        device = None
        credential = None
        headers = {}
        status = 200
        if body["preview"]:
            account = pairing.find_pairing_account(code)
        else:
            address = client_address(request)
            paired = pairing.pair_with_code(code, name=body["name"], platform=body["platform"], source=address)
            account = paired.device.owner
            device = str(paired.device.pk)
            credential = paired.credential
            headers["Location"] = reverse("device", args=[device])
            status = 201
        answer = {
            "device": device,
            "credential": credential,
            "account": account.get_username(),
            "server": settings.PUBLIC_URL,
        }
        return Response(PairedSerializer(answer).data, status=status, headers=headers)


HASH = OpenApiParameter("hash", str, OpenApiParameter.PATH, description="sha256 of the offered definition.")


class DeviceViewSet(
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.UpdateModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet,
):
    """The user's own devices; other users cannot see them."""

    scope = "devices"
    queryset = Device.objects.none()
    serializer_class = DeviceSerializer
    filterset_fields = ["name", "platform"]
    search_fields = ("name", "platform")
    orderings = ("name", "created_at")
    parameters = {"calls": ("state", "run")}
    bodiless = ("revoke", "approve", "reject")
    page_ordering: Any = ("-created_at", "-pk")
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]

    def get_queryset(self) -> QuerySet:
        return Device.objects.visible_to(self.request.user).prefetch_related("offers")

    def perform_destroy(self, instance: Device) -> None:
        """Remove a revoked device; 409 before it is revoked, or while a call to it has not ended."""
        instance.remove(actor=self.request.user, source=client_address(self.request))

    @extend_schema(request=None, responses=DeviceSerializer)
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def revoke(self, request: Any, pk: Any) -> Response:
        """Revoke the device's credentials and close its socket at once. Its history is kept."""
        device = self.get_object()
        device.revoke(reason="by its owner", actor=request.user, source=client_address(request))
        presence.tell_revoked(device)
        return Response(DeviceSerializer(device).data)

    @extend_schema(
        responses=DeviceCallSerializer(many=True),
        parameters=[OpenApiParameter("state", str, enum=DeviceCall.State.values), OpenApiParameter("run", str)],
    )
    @action(detail=True, filterset_fields=None)
    def calls(self, request: Any, pk: Any) -> Response:
        """Tool calls sent to this device, newest first; filter by `state` and `run`."""
        calls = DeviceCall.objects.filter(device=self.get_object())
        rows = filter_device_calls(calls, request.query_params)
        self.page_ordering = ("-id",)
        page = self.paginate_queryset(rows)
        serializer = DeviceCallSerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(responses=OfferSerializer(many=True))
    @action(detail=True, filterset_fields=None)
    def offers(self, request: Any, pk: Any) -> Response:
        """Tools that this device offers, and its owner's decision about each definition."""
        device = self.get_object()
        self.page_ordering = ("-id",)
        page = self.paginate_queryset(device.offers.select_related("tool"))
        serializer = OfferSerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(request=None, responses=OfferSerializer, parameters=[HASH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def approve(self, request: Any, pk: Any, hash: str) -> Response:
        """Let agents use this tool as long as its name, description and schema do not change."""
        offer = self.offer(hash)
        offers.approve_offer(offer, by=request.user, source=client_address(request))
        return Response(OfferSerializer(offer).data)

    @extend_schema(request=None, responses=OfferSerializer, parameters=[HASH])
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def reject(self, request: Any, pk: Any, hash: str) -> Response:
        """Refuse this tool, or withdraw its approval."""
        offer = self.offer(hash)
        offers.reject_offer(offer, by=request.user, source=client_address(request))
        return Response(OfferSerializer(offer).data)

    def offer(self, hash: str) -> OfferedTool:
        offer = self.get_object().offers.select_related("device", "tool").filter(hash=hash).first()
        if offer is None:
            raise NotFound("This device has not offered such a tool.")
        return offer


def filter_device_calls(rows: QuerySet, query: Any) -> QuerySet:
    if state := query.get("state"):
        if state not in DeviceCall.State.values:
            raise Invalid(f"“state” must be one of {', '.join(DeviceCall.State.values)}.", code="invalid_filter")
        rows = rows.filter(state=state)
    if run := query.get("run"):
        if presence.parse_device_call_id(run) is None:
            raise Invalid("“run” must be the id of a run.", code="invalid_filter")
        rows = rows.filter(run_id=run)
    return rows
