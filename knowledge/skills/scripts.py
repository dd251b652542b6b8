"""A stored function of a script of a skill: a draft that its author reviews and publishes."""

import re
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http.authentication import require_scope
from agents.http.strict import StrictSerializer, Text
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, ByName, read_body
from functions import store
from functions.models import StoredFunction
from functions.serializers import FunctionSerializer
from knowledge.models import Skill
from knowledge.skills import files
from plumbing.site_paths import add_site_prefix


class ScriptSerializer(StrictSerializer):
    path = Text(max_length=240, help_text="A Python file of the skill, such as scripts/total.py.")
    name = Text(max_length=64, required=False, help_text="Name of the function; default: that of the file.")


class ScriptView(ByName, APIView):
    """Make the draft of a stored function of a script."""

    scope = "skills"

    @extend_schema(
        request=ScriptSerializer, responses={201: FunctionSerializer}, operation_id="skills_functions_create"
    )
    def post(self, request: Request, name: str) -> Response:
        """The draft, unpublished. 422 with each line that functions may not contain; 409 if the name is taken."""
        require_scope(request, "functions:write")
        body = read_body(ScriptSerializer, request)
        skill = self.named(Skill.objects.select_related("bundle"))
        skill.require_use(request.user)
        function = create_script_draft(
            skill, body["path"], body.get("name", ""), user=request.user, source=client_address(request)
        )
        shown = FunctionSerializer(function, context={"request": request}).data
        return Response(shown, status=201, headers={"Location": add_site_prefix(f"/api/v1/functions/{function.name}")})


def create_script_draft(skill: Skill, path: str, name: str, *, user: Any, source: str) -> StoredFunction:
    """Store a script as the draft of a function of this person. Raises NotFound, Invalid, Conflict."""
    content = None
    if path.endswith(".py"):
        content = files.read_one(skill, path)
    if content is None:
        raise NotFound(f"“{skill}” has no Python file “{path[:100]}”.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"“{path[:100]}” is not UTF-8.", code="unreadable")
    name = name or build_function_name(path)
    note = f"from the skill {skill}, {path}"
    return create_function_draft(name, text, note, user=user, source=source)


def create_function_draft(name: str, text: str, note: str, *, user: Any, source: str) -> StoredFunction:
    """Store a text as the draft of a function of this person. Raises ValidationError, Invalid, Conflict."""
    function = StoredFunction(owner=user, name=name, source=text)
    function.clean_fields(exclude=["owner", "team", "published"])
    return store.save_function(function, user=user, source=source, note=note[:500])


def build_function_name(path: str) -> str:
    _, _, file_name = path.rpartition("/")
    stem = file_name.removesuffix(".py").lower()
    slug = re.sub(r"[^a-z0-9_-]+", "_", stem).strip("_-")
    return slug[:64] or "script"
