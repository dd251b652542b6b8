from typing import Any

from django.urls import path

from devices import api


def device(**verbs: Any) -> Any:
    return api.DeviceViewSet.as_view(verbs)


urlpatterns = [
    path("devices/", device(get="list"), name="devices"),
    path("devices/pairings", api.PairingView.as_view(), name="device-pairings"),
    path("devices/pair", api.PairView.as_view(), name="device-pair"),
    path("devices/<uuid:pk>", device(get="retrieve", patch="partial_update"), name="device"),
    path("devices/<uuid:pk>/revoke", device(post="revoke"), name="device-revoke"),
    path("devices/<uuid:pk>/calls/", device(get="calls"), name="device-calls"),
    path("devices/<uuid:pk>/offers/", device(get="offers"), name="device-offers"),
    path("devices/<uuid:pk>/offers/<str:hash>/approve", device(post="approve"), name="device-offer-approve"),
    path("devices/<uuid:pk>/offers/<str:hash>/reject", device(post="reject"), name="device-offer-reject"),
]
