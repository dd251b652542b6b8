from typing import Any

from django.urls import path

from connectors import api

LIST: dict[str, Any] = {"get": "list", "post": "create"}
ROW: dict[str, Any] = {"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}


def connection(**verbs: Any) -> Any:
    return api.ConnectionViewSet.as_view(verbs)


urlpatterns = [
    path("connections/", api.ConnectionViewSet.as_view(LIST), name="connections"),
    path("connections/providers", api.ServicesView.as_view(), name="connection-providers"),
    path("connections/<int:pk>", api.ConnectionViewSet.as_view(ROW), name="connection"),
    path("connections/<int:pk>/health", connection(get="health"), name="connection-health"),
    path("connections/<int:pk>/revoke", connection(post="revoke"), name="connection-revoke"),
    path("connections/<int:pk>/import", connection(post="import_document"), name="connection-import"),
    path("connections/<int:pk>/import/preview", connection(post="preview"), name="connection-import-preview"),
    path("connections/<int:pk>/tools/", connection(get="tools"), name="connection-tools"),
    path("connections/<int:pk>/tools/refresh", connection(post="refresh"), name="connection-refresh"),
    path("connections/<int:pk>/tools/<path:name>/approve", connection(post="approve"), name="connection-approve"),
    path("connections/<slug:provider>/authorize", api.AuthorizeView.as_view(), name="connection-authorize"),
    path("connections/<slug:provider>/callback", api.CallbackView.as_view(), name="connection-callback"),
    path("connections/<slug:provider>/device", api.DeviceView.as_view(), name="connection-device"),
    path("connections/<slug:provider>/device/poll", api.DevicePollView.as_view(), name="connection-device-poll"),
]
