"""The fields that every owned row has as JSON: owner, team, times."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from agents.exceptions import Conflict, Forbidden, NotFound
from agents.http.strict import OptionalSchemaField, StrictModelSerializer, Text, Words
from agents.models import Team
from agents.models.display import find_free_name
from agents.models.options import find_control
from agents.models.team import kind_name
from agents.needs import list_warnings
from agents.sharing import carry, check_share
from plumbing.texts import translate


class TeamName(serializers.SlugRelatedField):
    """A team by name, or null; one can only share with a team one belongs to."""

    def __init__(self, **kwargs: Any) -> None:
        options = {"required": False, "allow_null": True, **kwargs}
        super().__init__(slug_field="name", queryset=Team.objects.none(), **options)

    def get_queryset(self) -> models.QuerySet:
        return Team.objects.visible_to(self.context["request"].user)

    def run_validation(self, data: Any = empty) -> Any:
        if data == "":  # DRF would read it as null
            self.fail("does_not_exist", slug_name="name", value="")
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Team:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class OptionSerializer(StrictModelSerializer):
    """The field of an option is made from its column. One that needs more is written in the class, as always."""

    def build_standard_field(self, field_name: str, model_field: models.Field) -> tuple[Any, dict[str, Any]]:
        field, settings = super().build_standard_field(field_name, model_field)
        option = getattr(model_field, "option", None)
        if option is None:
            return field, settings
        kind = find_control(model_field)
        if kind == "lines":
            return Words, {"required": False, **option.rest}
        if kind == "schema":
            return OptionalSchemaField, {**option.rest}
        return field, {**settings, **option.rest}


class NeedSerializer(serializers.Serializer):
    """A row that the members of a team cannot use yet."""

    kind = serializers.CharField()
    name = serializers.CharField()
    owner = serializers.CharField(allow_null=True)
    may_share = serializers.BooleanField(help_text="Whether you may share it with the team.")
    problem = serializers.CharField(help_text="Why you may not; empty if you may.")


class WarningSerializer(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField()
    needs = NeedSerializer(many=True)


# Actions that answer with one row.
SINGLE = ("create", "retrieve", "update", "partial_update")


class OwnedSerializer(OptionSerializer):
    """What every owned row shows, and the rule that a name is free."""

    name = Text(max_length=64)
    owner = serializers.SlugRelatedField(
        slug_field="username", read_only=True, allow_null=True, help_text="Null: the site's."
    )
    team = TeamName(help_text="Share with everyone in this team.")
    warnings = serializers.SerializerMethodField(
        help_text="Of one row: what else its team needs to use it, see `sharing`. Always empty in lists."
    )

    @extend_schema_field(WarningSerializer(many=True))
    def get_warnings(self, row: Any) -> list[dict[str, Any]]:
        view = self.context.get("view")
        if getattr(view, "action", None) not in SINGLE:
            return []
        warnings = list_warnings(row, self.context["request"].user)
        return [{**warning, "message": translate(warning["message"])} for warning in warnings]

    def validate_name(self, name: str) -> str:
        model = self.Meta.model
        for check in model._meta.get_field("name").validators:
            check(name)
        owner = self.instance.owner if self.instance else self.context["request"].user
        namesakes = model.objects.filter(owner=owner, name=name)
        if self.instance:
            namesakes = namesakes.exclude(pk=self.instance.pk)
        if namesakes.exists():
            message = _("Another %(kind)s is already called “%(name)s”.")
            raise Conflict(
                message % {"kind": kind_name(model), "name": name},
                code="name_taken",
                hint=_("Choose another name."),
            )
        return name

    def get_unique_together_validators(self) -> list[Any]:
        """None: `check_share` says more than that a name is taken."""
        return []

    def run_validation(self, data: Any = empty) -> Any:
        """Sharing takes a role in the team, and a name that means nothing else there."""
        fields = super().run_validation(data)
        user = self.context["request"].user
        row = self.instance or self.Meta.model(owner=user)
        check_share(row, user, fields.get("team", row.team), fields.get("name", row.name))
        return fields

    def save(self, **fields: Any) -> Any:
        row = super().save(**fields)
        carry(row)
        return row

    def create(self, validated: dict[str, Any]) -> Any:
        owner = self.context["request"].user
        return super().create({"owner": owner, **validated})


class DisplayedSerializer(OwnedSerializer):
    """A row with a display name, from which its name is made if the body of a new one has none."""

    name = Text(max_length=64, required=False, help_text="Left out, it is made from `display_name`.")
    # Between the words of a name that is made.
    separator = "-"

    def run_validation(self, data: Any = empty) -> Any:
        return super().run_validation(self.add_name(data))

    def add_name(self, data: Any) -> Any:
        if not isinstance(data, dict) or "name" in data or self.partial:
            return data
        display_name = data.get("display_name")
        if self.instance is not None or not isinstance(display_name, str) or not display_name.strip():
            raise serializers.ValidationError({"name": [self.fields["name"].error_messages["required"]]}, "required")
        owner = self.context["request"].user
        name = find_free_name(self.Meta.model, owner, display_name, separator=self.separator)
        return {**data, "name": name}


OWNED = ["owner", "team", "warnings", "created_at", "updated_at"]


def find_by_name(model: Any, user: Any, name: str, current: Any = None) -> Any:
    """The row meant by a name in a body; an unknown name is an invalid body (422), not a missing path.

    `current` is what the changed row has there: it stays if its name is sent again, even if a row of
    this name is nearer to the user, so that a body can be sent back as it was read.
    """
    if current is not None and current.name == name:
        return current
    try:
        return model.objects.for_use(user, name)
    except (NotFound, Forbidden) as error:
        raise serializers.ValidationError(str(error), code="unknown")
