"""The addresses where A2A clients find agents: cards, and the key that signs them."""

from typing import Any

from django.conf import settings
from django.utils.cache import get_conditional_response
from django.utils.http import http_date
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.exceptions import Forbidden, NotFound
from agents.http.authentication import HasScope
from gateway.turns import ROUTER

from . import cards, legacy
from .views import A2AView

MAX_AGE_S = 300


class OptionalKey(HasScope):
    """Without a key the view decides; a key that is given needs the scope."""

    def has_permission(self, request: Any, view: Any) -> bool:
        if not request.user.is_authenticated:
            return True
        return super().has_permission(request, view)


@extend_schema(exclude=True)
class CardView(A2AView):
    """GET an agent's card; without a name that of the router. Without a key only public cards."""

    scope = "messages"
    permission_classes = (OptionalKey,)
    is_older = False  # at the address of version 0.3's predecessors

    def get(self, request: Any, agent: str = ROUTER) -> Any:
        card, changed_at = self.card(request, agent)
        reach = "private" if request.user.is_authenticated else "public"
        # The tag is that of the unsigned card: each signature is another.
        etag = cards.build_card_etag(card)
        headers = {
            "ETag": etag,
            "Cache-Control": f"{reach}, max-age={MAX_AGE_S}",
            "Vary": "Authorization, Cookie, A2A-Version",
        }
        if changed_at:
            headers["Last-Modified"] = http_date(changed_at.timestamp())
        card = cards.sign_agent_card(card)
        version = request.headers.get("A2A-Version", "")
        if self.is_older or version.startswith(legacy.VERSION):
            card = cards.with_older_fields(card)
        response = Response(card, headers=headers)
        return get_conditional_response(request._request, etag=etag, response=response)

    def card(self, request: Any, agent: str) -> cards.Described:
        """Raises NotAuthenticated, and what `cards.build_user_card` raises."""
        if not request.user.is_authenticated:
            return cards.public(agent) or self.permission_denied(request)
        try:
            return cards.build_user_card(request.user, agent)
        except (NotFound, Forbidden):
            # What everybody may read, a person without a right to use the agent may read as well.
            card = cards.public(agent)
            if card:
                return card
            raise


@extend_schema(exclude=True)
class KeysView(A2AView):
    """GET /a2a/jwks.json: the public key of the cards' signatures. It is no secret."""

    authentication_classes = ()
    permission_classes = ()

    def get(self, request: Any) -> Response:
        keys = [cards.public_key()] if settings.A2A_SIGNING_KEY else []
        return Response({"keys": keys}, headers={"Cache-Control": f"public, max-age={MAX_AGE_S}"})
