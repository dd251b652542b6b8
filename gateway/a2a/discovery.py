"""The addresses where A2A clients find agents: cards, and the key that signs them."""

from typing import Any

from django.conf import settings
from django.utils.cache import get_conditional_response
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from gateway.turns import ROUTER

from . import cards, legacy
from .views import A2AView

MAX_AGE_S = 300


@extend_schema(exclude=True)
class CardView(A2AView):
    """GET an agent's card; without a name that of the router."""

    scope = "messages"
    is_older = False  # at the address of version 0.3's predecessors

    def get(self, request: Any, agent: str = ROUTER) -> Any:
        card = cards.described(request.user, agent)
        headers = {
            "ETag": cards.etag_of(card),
            "Cache-Control": f"private, max-age={MAX_AGE_S}",
            "Vary": "Authorization, A2A-Version",
        }
        is_older = self.is_older or request.headers.get("A2A-Version", "").startswith(legacy.VERSION)
        shown = cards.signed(card)
        response = Response(cards.with_older_fields(shown) if is_older else shown, headers=headers)
        return get_conditional_response(request._request, etag=headers["ETag"], response=response)


@extend_schema(exclude=True)
class KeysView(A2AView):
    """GET /a2a/jwks.json: the public key of the cards' signatures. It is no secret."""

    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Any) -> Response:
        keys = [cards.public_key()] if settings.A2A_SIGNING_KEY else []
        return Response({"keys": keys}, headers={"Cache-Control": f"public, max-age={MAX_AGE_S}"})
