"""Definitions over HTTP: a person's own rows as YAML, and YAML as rows."""

from typing import Any

from django.db.models import Sum
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents import roles
from agents.definitions import files
from agents.definitions.agents import find_definition_provider
from agents.exceptions import Forbidden, Invalid, TooLarge
from agents.http.strict import StrictSerializer, Text
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, read_body
from agents.models import ApiKey, Provider
from agents.serializers.agents import AgentSerializer
from agents.serializers.providers import ProviderSerializer
from functions.serializers import FunctionSerializer
from knowledge.collections.definitions import build_portable_query
from knowledge.collections.serializers import CollectionSerializer
from knowledge.models import Skill
from runs.serializers.chains import ChainSerializer

MOST_ROWS = 1000
# Of files of skills and documents of collections.
MOST_BYTES = 16 << 20
KINDS = ("provider", "function", "skill", "collection", "tool", "agent", "chain")
# The scopes of keys are named by the resources: agents:read.
RESOURCES = {kind: f"{kind}s" for kind in KINDS}
SERIALIZERS: dict[str, Any] = {
    "provider": ProviderSerializer,
    "function": FunctionSerializer,
    "collection": CollectionSerializer,
    "agent": AgentSerializer,
    "chain": ChainSerializer,
}
# What a definition has and the body of the endpoint of its kind has not.
NOT_IN_BODIES = frozenset(["kind", "llm", "draft", "live", "tests", "documents", "questions"])
# Their server has to be asked which models it has.
WITHOUT_DEFAULT_MODEL = (Provider.Kind.COMPATIBLE, Provider.Kind.OLLAMA)


class DefinitionsSerializer(StrictSerializer):
    yaml = Text(trim_whitespace=False, max_length=1_000_000, help_text="YAML documents, as in a definition file.")


class PlannedChangeSerializer(serializers.Serializer):
    verb = serializers.ChoiceField(choices=["create", "change", "same"])
    kind = serializers.ChoiceField(choices=KINDS)
    name = serializers.CharField()
    fields = serializers.ListField(child=serializers.CharField(), help_text="Fields that differ.")  # type: ignore[assignment]


class PlannedChangesSerializer(serializers.Serializer):
    changes = PlannedChangeSerializer(many=True)


class ExportedSerializer(serializers.Serializer):
    yaml = serializers.CharField()


class DefinitionsView(APIView):
    """Your own providers, functions, skills, collections, tools, agents and chains as YAML. Secrets are never
    included.
    """

    parameters = {"get": ("kind",)}

    @extend_schema(
        operation_id="definitions_export",
        parameters=[OpenApiParameter("kind", str, enum=KINDS, description="One kind alone.")],
        responses={200: ExportedSerializer},
    )
    def get(self, request: Request) -> Response:
        kind = request.query_params.get("kind")
        if kind is not None and kind not in KINDS:
            raise Invalid(f"“{kind[:40]}” is not a kind.", code="unknown_kind", hint=f"Kinds are {', '.join(KINDS)}.")
        chosen = [kind] if kind else list(KINDS)
        require(request, chosen, "read")
        if count_rows(request.user, chosen) > MOST_ROWS:
            raise TooLarge(f"These are more than {MOST_ROWS} rows.", hint="Export one kind at a time.")
        if "skill" in chosen and bytes_of_skills(request.user) > MOST_BYTES:
            hint = "Export the other kinds one by one, and each skill as an archive."
            raise TooLarge(f"The files of your skills have more than {MOST_BYTES >> 20} MB.", hint=hint)
        if "collection" in chosen and bytes_of_documents(request.user) > MOST_BYTES:
            hint = "Export the other kinds one by one."
            raise TooLarge(f"The documents of your collections have more than {MOST_BYTES >> 20} MB.", hint=hint)
        definitions = files.export_definitions(request.user, only=kind)
        return Response({"yaml": files.dump_definitions(definitions)})


def count_rows(owner: Any, chosen: list[str]) -> int:
    """How many rows an export has. The documents of collections are exported with them."""
    kinds: Any = files.kinds()
    count = 0
    for kind in chosen:
        count += kinds[kind].rows(owner).count()
    if "collection" in chosen:
        count += build_portable_query(collection__owner=owner).count()
    return count


def bytes_of_skills(owner: Any) -> int:
    """The size of the files of all skills: of the drafts and of what is published."""
    size = 0
    for draft, published in Skill.objects.filter(owner=owner).values_list("files", "published__files"):
        for file in draft or ():
            size += file["size"]
        for file in published or ():
            size += file["size"]
    return size


def bytes_of_documents(owner: Any) -> int:
    total = build_portable_query(collection__owner=owner).aggregate(size=Sum("file__size"))
    return total["size"] or 0


class PlanView(APIView):
    """What applying these definitions would change. Nothing is stored."""

    @extend_schema(
        operation_id="definitions_plan", request=DefinitionsSerializer, responses={200: PlannedChangesSerializer}
    )
    def post(self, request: Request) -> Response:
        return as_changes(plan_definitions(request, "read"))


class ApplyView(APIView):
    """Create and change your own rows as the definitions say, test and publish them: all of them, or
    none.
    """

    @extend_schema(
        operation_id="definitions_apply", request=DefinitionsSerializer, responses={200: PlannedChangesSerializer}
    )
    def post(self, request: Request) -> Response:
        changes = plan_definitions(request, "write")
        files.apply_changes(changes, owner=request.user, actor=request.user, check=Checker(request))
        return as_changes(changes)


def plan_definitions(request: Request, verb: str) -> list[files.Change]:
    body = read_body(DefinitionsSerializer, request)
    definitions = files.read_definitions(body["yaml"])
    kinds = {definition["kind"] for definition in definitions}
    require(request, sorted(kinds), verb)
    return files.plan_changes(definitions, owner=request.user)


def require(request: Request, kinds: list[str], verb: str) -> None:
    """The key's scopes and the person's role, for each kind. Raises Forbidden."""
    for kind in kinds:
        scope = f"{RESOURCES[kind]}:{verb}"
        if isinstance(request.auth, ApiKey) and not request.auth.allows(scope):
            raise Forbidden(f"This key lacks the scope {scope}.", hint="Use a key with the scopes of every kind.")
        roles.require(request.user, scope)


class Checker:
    """The rules of the other endpoints for one definition, before it is written."""

    def __init__(self, request: Request) -> None:
        self.context = {"request": request, "address": client_address(request)}
        self.user = request.user

    def __call__(self, definition: files.Definition, row: Any) -> None:
        kind = definition["kind"]
        if kind == "tool":
            self.check_tool(definition)
            return
        if kind == "skill":
            # SkillKind.write checks all of a skill.
            return
        for part in (definition, definition.get("live")):
            if part is not None:
                body = {**part, "name": definition["name"]}
                self.check_body(kind, body, row)

    def check_tool(self, definition: files.Definition) -> None:
        if not {"agent", "chain"} & definition.keys():
            raise Forbidden("Built-in tools belong to the site.", hint="An administrator changes them.")

    def check_body(self, kind: str, part: files.Definition, row: Any) -> None:
        body = {name: value for name, value in part.items() if name not in NOT_IN_BODIES}
        # In a definition `kind` says what is defined; that of a provider is named `llm`.
        if kind == "provider":
            body["kind"] = part.get("llm")
        if kind == "agent":
            body["provider"] = self.provider_of(part).name
        if "grants" in body:
            body["grants"] = [grant_body(grant) for grant in body["grants"]]
        serializer = SERIALIZERS[kind](instance=row, data=body, context=self.context)
        serializer.is_valid(raise_exception=True)

    def provider_of(self, part: files.Definition) -> Provider:
        """No server is asked for the name of its model while rows are being written."""
        provider = find_definition_provider(part.get("provider", "default"), self.user)
        if provider.kind in WITHOUT_DEFAULT_MODEL and not part.get("model_name"):
            raise Invalid("“model_name” is missing.", code="no_model", hint=f"Name a model of “{provider.name}”.")
        return provider


def grant_body(grant: Any) -> dict[str, Any]:
    """A grant of a definition file as the endpoints expect it."""
    if isinstance(grant, str):
        return {"tool": grant}
    body = dict(grant)
    if "pinned_version" in body:
        body["version"] = body.pop("pinned_version")
    return body


def as_changes(changes: list[files.Change]) -> Response:
    rows: list[dict[str, Any]] = []
    for change in changes:
        rows.append({"verb": change.verb, "kind": change.kind, "name": change.name, "fields": change.fields})
    return Response({"changes": rows})
