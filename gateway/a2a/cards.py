"""Agent cards: what an agent does, where it is, and how a client authenticates."""

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Any

import jwt
from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.conf import settings
from django.db.models import Q
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt.algorithms import ECAlgorithm

from agents.models import Agent
from gateway.turns import ROUTER
from plumbing import json_values
from runs.intake import checks

from .requests import INPUT_MODES

JSON = Any
BINDINGS = (("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"))
# Agents in the card of the router.
MOST_SKILLS = 100
# The name of the security scheme.
KEY = "muster_key"


# A card, and when it last changed.
Described = tuple[dict[str, JSON], datetime | None]


def build_user_card(user: Any, name: str) -> Described:
    """The card as this user sees it. Raises NotFound, NotPublished."""
    usable = Agent.objects.usable_by(user).published()
    is_router = name == ROUTER and not usable.filter(name=ROUTER).exists()
    if is_router:
        agents = list_nearest_agents(usable, user)
        return router_card(agents), last_change(agents)
    agent = Agent.objects.select_related("published").for_use(user, name)
    checks.find_requested_version(agent, None)
    return build_agent_card(agent), last_change([agent])


def public(name: str) -> Described | None:
    """The card that anybody may read, if the agent's owner has made it public and is active. The router's names
    these agents.
    """
    kept = Q(owner=None) | Q(owner__is_active=True)
    rows = Agent.objects.published().filter(kept, public_card=True).select_related("published")
    agent = rows.filter(name=name).first()
    if agent:
        return build_agent_card(agent), last_change([agent])
    if name != ROUTER:
        return None
    agents = list(rows.order_by("name")[:MOST_SKILLS])
    if not agents:
        return None
    return router_card(agents), last_change(agents)


def last_change(agents: list[Agent]) -> datetime | None:
    times = [agent.published.created_at for agent in agents if agent.published]
    return max(times, default=None)


def list_nearest_agents(usable: Any, user: Any) -> list[Agent]:
    """The agents that the names mean to this user."""
    rows = usable.select_related("owner", "published").order_by("name")
    by_name: dict[str, Agent] = {}
    for agent in rows.nearest_first(user):
        by_name.setdefault(agent.name, agent)
    names = sorted(by_name)
    return [by_name[name] for name in names[:MOST_SKILLS]]


def build_agent_card(agent: Agent) -> dict[str, JSON]:
    """The card of an agent that has a published version."""
    published: Any = agent.published
    skill = build_agent_skill(agent)
    examples = published.spec.get("examples")
    if examples:
        skill["examples"] = examples
    return card(agent.name, skill["description"], str(published.number), [skill])


def router_card(agents: list[Agent]) -> dict[str, JSON]:
    """The card of this server: the router chooses one of the agents, which are its skills."""
    description = "Chooses the agent that fits a message."
    skills = [build_agent_skill(agent, f" Its own card: {card_url(agent.name)}") for agent in agents]
    # A card must have a skill.
    if not skills:
        skills.append({"id": ROUTER, "name": ROUTER, "description": description, "tags": ["router"]})
    return card(ROUTER, description, "1", skills)


def build_agent_skill(agent: Agent, more: str = "") -> dict[str, JSON]:
    """From the published version, since a draft is nobody else's business."""
    published: Any = agent.published
    spec = published.spec
    description = spec["description"] or agent.name
    return {
        "id": agent.name,
        "name": agent.name,
        "description": description + more,
        "tags": spec.get("capabilities") or ["agent"],
    }


def card(name: str, description: str, version: str, skills: list[JSON]) -> dict[str, JSON]:
    """The card of an agent by the specification of A2A 1.0, without a signature."""
    url = build_a2a_url(name)
    interfaces = []
    for binding, number in BINDINGS:
        interfaces.append({"url": url, "protocolBinding": binding, "protocolVersion": number})
    scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "An API key."}}
    return {
        "name": name,
        "description": description,
        "supportedInterfaces": interfaces,
        "version": version,
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "securitySchemes": {KEY: scheme},
        "securityRequirements": [{"schemes": {KEY: {"list": []}}}],
        "defaultInputModes": list(INPUT_MODES),
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": skills,
    }


def with_older_fields(card: dict[str, JSON]) -> dict[str, JSON]:
    """The card with the fields of version 0.3 as well; they are not signed, and newer clients ignore them."""
    scheme = {**card["securitySchemes"][KEY], "type": "http", "scheme": "bearer"}
    return {
        **card,
        "protocolVersion": "0.3",
        "url": build_a2a_url(card["name"]),
        "preferredTransport": "JSONRPC",
        "supportsAuthenticatedExtendedCard": True,
        "security": [{KEY: []}],
        "securitySchemes": {KEY: scheme},
    }


def build_a2a_url(name: str) -> str:
    return f"{settings.PUBLIC_URL}/a2a/{name}"


def card_url(name: str) -> str:
    return f"{build_a2a_url(name)}/.well-known/agent-card.json"


def build_card_etag(card: dict[str, JSON]) -> str:
    # Without the signatures, which differ each time.
    plain = json_values.dump_json({**card, "signatures": None}, sort_keys=True)
    digest = hashlib.sha256(plain).hexdigest()
    return f'"{digest[:32]}"'


# -- signatures ------------------------------------------------------------------------------------------------------


def sign_agent_card(card: dict[str, JSON]) -> dict[str, JSON]:
    """The card with a signature (JWS, ES256), if the site has a key for it."""
    if not settings.A2A_SIGNING_KEY:
        return card
    header: Any = {"alg": "ES256", "typ": "JOSE", "kid": public_key()["kid"], "jku": keys_url()}
    sign = create_agent_card_signer(settings.A2A_SIGNING_KEY, header)
    signed = sign(ParseDict(card, AgentCard()))
    signatures = [MessageToDict(one) for one in signed.signatures]
    return {**card, "signatures": signatures}


def keys_url() -> str:
    return f"{settings.PUBLIC_URL}/a2a/jwks.json"


def public_key() -> dict[str, JSON]:
    """The public part of the site's key as a JWK; its id is its thumbprint (RFC 7638)."""
    return as_jwk(settings.A2A_SIGNING_KEY)


@lru_cache(maxsize=1)
def as_jwk(pem: str) -> dict[str, JSON]:
    private: Any = load_pem_private_key(pem.encode(), password=None)
    jwk = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    required = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    digest = hashlib.sha256(json_values.dump_json(required, sort_keys=True)).digest()
    thumbprint = jwt.utils.base64url_encode(digest).decode()
    return {**jwk, "kid": thumbprint, "use": "sig", "alg": "ES256"}
