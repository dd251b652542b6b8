import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

from channels.auth import AuthMiddlewareStack  # noqa: E402  (models are ready only now)
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from config import origins  # noqa: E402
from config.handler import ThreadedHandler  # noqa: E402
from config.proxies import RealAddress  # noqa: E402
from config.site_prefix import SitePrefix  # noqa: E402
from devices.consumers import DeviceConsumer  # noqa: E402
from devices.protocol import PATH as DEVICE_PATH  # noqa: E402
from gateway.openai.socket import ResponsesConsumer  # noqa: E402
from runs.api.consumers import NowhereConsumer  # noqa: E402
from runs.api.urls import websocket_urlpatterns  # noqa: E402
from runs.schedules import device_runs  # noqa: E402

places = [
    *websocket_urlpatterns,
    path("v1/responses", ResponsesConsumer.as_asgi()),
    re_path("", NowhereConsumer.as_asgi()),
]
people = AuthMiddlewareStack(URLRouter(places))
# Devices use their own credentials, so no login session is read.
devices = DeviceConsumer.as_asgi(
    on_settled=device_runs.call_settled,
    on_online=device_runs.device_came_online,
    on_request=device_runs.start_for_device,
)


async def sockets(scope: Any, receive: Any, send: Any) -> None:
    await (devices if scope["path"] == DEVICE_PATH else people)(scope, receive, send)


protocols = ProtocolTypeRouter({"http": ThreadedHandler(), "websocket": origins.check_origins(sockets)})
application = RealAddress(SitePrefix(protocols))
