"""The API of people's accounts, for administrators of the site."""

from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import accounts
from agents.exceptions import NotFound
from agents.http import viewsets
from agents.http.resources import location_header
from agents.http.versioned import WITHOUT_LISTS
from agents.http.viewsets import Audited, read_body
from agents.membership import person_named
from agents.models import User
from agents.serializers.people import (
    BelongingsSerializer,
    HandedOverSerializer,
    InvitationLinkSerializer,
    PersonSerializer,
    ReceiverSerializer,
)


class PersonViewSet(Audited, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Accounts of this site: for administrators, who may change all but superusers and themselves."""

    scope = "people"
    queryset = User.objects.none()
    serializer_class = PersonSerializer
    lookup_field = "username"
    filterset_fields = ["is_active"]
    search_fields = ("username", "email")
    page_ordering: tuple[str, ...] = ("normal_name",)
    secret_answers = ("invitation",)
    bodiless = ("invitation",)

    def get_queryset(self) -> QuerySet:
        # The view takes an administrator, who may see everybody.
        return User.objects.prefetch_related("memberships__team")

    def get_object(self) -> User:
        name = self.kwargs["username"]
        person = None if "\0" in name else User.objects.find(name[:150])
        if person is None:
            raise NotFound(_("There is no user called “%(username)s”.") % {"username": name[:80]})
        return person

    @extend_schema(request=PersonSerializer, responses={201: PersonSerializer})
    def create(self, request: Any) -> Response:
        """Make an account without a password; `invitation` gives the address where its person chooses one."""
        body = read_body(PersonSerializer, request)
        role = body.get("site_role", "operator")
        is_active = body.get("is_active", True)
        person = accounts.create_person(body["username"], email=body.get("email", ""), role=role, is_active=is_active)
        self.audit("created", person, role=role)
        headers = location_header(request, person.username)
        return Response(PersonSerializer(person).data, status=201, headers=headers)

    @extend_schema(request=PersonSerializer, responses=PersonSerializer)
    def partial_update(self, request: Any, username: str) -> Response:
        """Change the e-mail address or the role; `is_active` deactivates the account, or reactivates it."""
        person = self.get_object()
        serializer = PersonSerializer(person, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        for verb, details in accounts.change_person(person, serializer.validated_data, by=request.user):
            self.audit(verb, person, **details)
        return Response(PersonSerializer(person).data)

    @extend_schema(responses=BelongingsSerializer)
    @action(detail=True, **WITHOUT_LISTS)
    def belongings(self, request: Any, username: str) -> Response:
        """What hangs on this person: rows by name, other rows counted, and teams."""
        return Response(BelongingsSerializer(accounts.list_belongings(self.get_object())).data)

    @extend_schema(request=None, responses={201: InvitationLinkSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def invitation(self, request: Any, username: str) -> Response:
        """A link with which the person chooses the first password. Send it only to them."""
        person = self.get_object()
        url, expires_at = accounts.make_invitation(person, by=request.user)
        self.audit("invited", person)
        return Response(InvitationLinkSerializer({"url": url, "expires_at": expires_at}).data, status=201)

    @extend_schema(request=ReceiverSerializer, responses=HandedOverSerializer)
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def hand_over(self, request: Any, username: str) -> Response:
        """Make another person the owner of everything that `belongings` says moves. All or nothing."""
        body = read_body(ReceiverSerializer, request)
        person = self.get_object()
        receiver = person_named(body["to"])
        moved = accounts.hand_over(person, receiver, by=request.user)
        self.audit("handed_over", person, to=receiver.get_username(), rows=moved)
        return Response({"rows": moved})
