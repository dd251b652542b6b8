"""Chains over HTTP: the working rows, their versions, their picture, their runs."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Conflict
from agents.http import viewsets
from agents.http.authentication import find_key
from agents.http.deferred_response import answer_later
from agents.http.idempotency import read_key
from agents.http.versioned import WITHOUT_LISTS, GrantedViewSet, serve_versions
from agents.http.viewsets import read_body, refusals
from agents.models import Chain, ChainVersion, Tool
from agents.sharing import remove_unshared_uses
from runs.api import chain_graph, chain_pictures
from runs.events import waiting
from runs.intake import messages as intake
from runs.intake import retry as retries
from runs.models import Run, StepRun
from runs.serializers.chains import (
    ChainSerializer,
    ChainVersionSerializer,
    GraphSerializer,
    RetrySerializer,
    StartSerializer,
    StepRunSerializer,
    WholeChainVersionSerializer,
)
from runs.serializers.runs import RunSerializer, build_run_urls

from .messages import IDEMPOTENCY, WAITS, with_headers
from .prefer import PREFER, choose_wait

NEW_CHAIN = OpenApiExample(
    "Look something up, then report it",
    request_only=True,
    value={
        "name": "look-and-tell",
        "description": "Finds a book and writes a sentence about it.",
        "strategy": "sequential",
        "steps": [
            {"key": "look", "tool": "lookup", "input": {"title": "input.title"}},
            {"key": "tell", "agent": "librarian", "input": {"message": "steps.look.output"}},
        ],
    },
)
JOINS = ("agent", "version", "chain_version__chain")


@extend_schema(examples=[NEW_CHAIN])
@serve_versions("chains", ChainVersionSerializer, WholeChainVersionSerializer)
class ChainViewSet(GrantedViewSet):
    """The working rows of chains, their versions, grants, picture and runs."""

    model = Chain
    scope = "chains"
    scopes = {"start": "runs:write"}
    # The intake itself finds the run of an earlier request with the same Idempotency-Key.
    keeps_keys = ("start",)
    queryset = Chain.objects.none()
    serializer_class = ChainSerializer
    filterset_fields = ["name", "enabled", "strategy"]
    search_fields = ("name", "description")

    def get_queryset(self) -> QuerySet:
        return super().get_queryset().select_related("published").prefetch_related("grants__tool", "steps")

    def get_object(self) -> Any:
        """Starting a chain only requires the right to see it."""
        if self.action != "start":
            return super().get_object()
        chains = Chain.objects.select_related("published")
        return self.named(chains)

    def perform_destroy(self, chain: Chain) -> None:
        """Delete a chain without runs, with its versions; one with runs answers 409."""
        if Run.objects.filter(chain_version__chain=chain).exists():
            raise Conflict("This chain has runs.", code="in_use", hint='Switch it off instead: {"enabled": false}.')
        with refusals("chain", self.request.user, is_deletion=True):
            self.audit("deleted", chain)
            remove_unshared_uses(chain)
            # The tool by which agents call it.
            Tool.objects.filter(**chain.listed_as()).delete()
            # A version that is published cannot be deleted.
            Chain.objects.filter(pk=chain.pk).update(published=None)
            ChainVersion.everything.filter(chain=chain).delete()
            chain.delete()

    @extend_schema(responses=GraphSerializer)
    @action(detail=True, **WITHOUT_LISTS)
    def graph(self, request: Any, name: str) -> Response:
        """Nodes and edges of the draft, and the problems that prevent publishing."""
        chain = self.get_object()
        problems = [problem.as_detail() for problem in chain.problems()]
        graph = chain_graph.serialize_graph(chain.draft_spec())
        return Response({**graph, "problems": problems})

    @extend_schema(responses={(200, "image/svg+xml"): OpenApiTypes.STR})
    @action(detail=True, **WITHOUT_LISTS)
    def picture(self, request: Any, name: str) -> HttpResponse:
        """The draft as a picture (SVG)."""
        spec = self.get_object().draft_spec()
        return as_image(chain_pictures.of_draft(spec))

    @extend_schema(responses=RunSerializer(many=True), operation_id="chains_runs_list")
    @action(detail=True, filterset_fields=None)
    def runs(self, request: Any, name: str) -> Response:
        """Your own runs of this chain, newest first."""
        chain = self.get_object()
        self.page_ordering = ("-id",)
        runs = Run.objects.visible_to(request.user).filter(chain_version__chain=chain)
        page = self.paginate_queryset(runs.select_related(*JOINS))
        return self.get_paginated_response(RunSerializer(page, many=True).data)

    @extend_schema(
        request=StartSerializer,
        parameters=[IDEMPOTENCY, PREFER],
        responses={200: RunSerializer, 202: RunSerializer},
        operation_id="chains_runs_create",
    )
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def start(self, request: Any, name: str) -> HttpResponseBase:
        """Start a run: 202 with the run at once, or 200 when it ended within `wait` seconds."""
        chain = self.get_object()
        body = read_body(StartSerializer, request)
        wait, applied = choose_wait(request, body.get("wait"), 0)
        if not wait:
            run = self.begin(request, chain, body)
            return with_headers(as_run(run, 202), applied)
        with WAITS.take(request.user.pk) as place:
            # Listen before the run exists, so that its end cannot be missed.
            waiting.ENDS.listen()
            run = self.begin(request, chain, body)
            end = waiting.End(run.pk, wait, place)

            def answer(ended: dict[str, Any] | None) -> Response:
                status = 200 if ended else 202
                return with_headers(as_run(run, status), applied)

            return answer_later(self, end, answer)

    def begin(self, request: Any, chain: Chain, body: dict[str, Any]) -> Run:
        number = body.get("version")
        version = self.find_version(chain, number) if number else None
        return intake.start_chain(
            user=request.user,
            chain=chain,
            input=body.get("input"),
            version=version,
            idempotency_key=read_key(request),
            key=find_key(request),
            metadata=body.get("metadata"),
            priority=body.get("priority"),
            timeout=body.get("timeout"),
            draft=body["draft"],
            until=body["until"],
            pinned=body["pinned"],
        )


class ChainRunViewSet(viewsets.GenericViewSet):
    """What only chain runs have: steps and a picture; and retry, which for them continues from the
    failed step.
    """

    scope = "runs"
    keeps_keys = ("retry",)
    serializer_class = StepRunSerializer
    queryset = Run.objects.none()
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[Run]:
        rows = Run.objects.visible_to(self.request.user).select_related(*JOINS, "session")
        # A run of an agent can be retried as well, but has no steps.
        if self.action == "retry":
            return rows
        return rows.filter(chain_version__isnull=False)

    @extend_schema(responses=StepRunSerializer(many=True))
    @action(detail=True, filterset_fields=None)
    def steps(self, request: Any, pk: Any = None) -> Response:
        """Each step, and each item of a for_each, with its state, input and output."""
        self.page_ordering = ("id",)
        steps = StepRun.objects.filter(run=self.get_object())
        page = self.paginate_queryset(steps)
        return self.get_paginated_response(StepRunSerializer(page, many=True).data)

    @extend_schema(responses={(200, "image/svg+xml"): OpenApiTypes.STR})
    @action(detail=True, **WITHOUT_LISTS)
    def picture(self, request: Any, pk: Any = None) -> HttpResponse:
        """The chain run's current state as a picture (SVG)."""
        run = self.get_object()
        return as_image(chain_pictures.draw_run_chain(run))

    @extend_schema(request=RetrySerializer, parameters=[IDEMPOTENCY], responses={202: RunSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def retry(self, request: Any, pk: Any = None) -> Response:
        """Start a new run in place of one that has ended.

        A chain continues from the failed step, with its input replaced if given; finished steps
        keep their outputs. An agent answers the same message again, in the same session unless that
        has continued (then in a fork of it).
        """
        run = self.get_object()
        body = read_body(RetrySerializer, request)
        again = retries.retry_run(
            run, user=request.user, key=find_key(request), idempotency_key=read_key(request), **body
        )
        return as_run(again, 202)


def as_image(picture: str) -> HttpResponse:
    return HttpResponse(picture, content_type="image/svg+xml", headers={"Cache-Control": "no-store"})


def as_run(run: Run, status: int) -> Response:
    # The run may have changed since it was started.
    fresh = Run.objects.select_related(*JOINS).get(pk=run.pk)
    location = build_run_urls(run)["self"]
    return Response(RunSerializer(fresh).data, status=status, headers={"Location": location})
