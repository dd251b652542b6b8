from typing import Any

from django.urls import path

from agents.http.viewsets import make_view
from devices import api
from devices.records.api import AllRecords, RecordViewSet


def device(**verbs: Any) -> Any:
    return api.DeviceViewSet.as_view(verbs)


def make_record_view(**verbs: str) -> Any:
    return make_view(RecordViewSet, **verbs)


RECORD = "records/<str:collection>/<uuid:pk>"
urlpatterns = [
    path("devices/", device(get="list"), name="devices"),
    path("devices/pairings", api.PairingView.as_view(), name="device-pairings"),
    path("devices/pair", api.PairView.as_view(), name="device-pair"),
    path("devices/<uuid:pk>", device(get="retrieve", patch="partial_update", delete="destroy"), name="device"),
    path("devices/<uuid:pk>/revoke", device(post="revoke"), name="device-revoke"),
    path("devices/<uuid:pk>/calls/", device(get="calls"), name="device-calls"),
    path("devices/<uuid:pk>/offers/", device(get="offers"), name="device-offers"),
    path("devices/<uuid:pk>/offers/<str:hash>/approve", device(post="approve"), name="device-offer-approve"),
    path("devices/<uuid:pk>/offers/<str:hash>/reject", device(post="reject"), name="device-offer-reject"),
    path("records/", make_view(AllRecords, get="list"), name="all-records"),
    path("records/<str:collection>/", make_record_view(get="list", post="create"), name="records"),
    path(RECORD, make_record_view(get="retrieve", patch="partial_update", delete="destroy"), name="record"),
    path(f"{RECORD}/approve", make_record_view(post="approve"), name="record-approve"),
    path(f"{RECORD}/reject", make_record_view(post="reject"), name="record-reject"),
    path(f"{RECORD}/comments/", make_record_view(get="comments", post="add_comment"), name="record-comments"),
    path(f"{RECORD}/changes/", make_record_view(get="changes"), name="record-changes"),
]
