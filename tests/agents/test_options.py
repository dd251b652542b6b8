"""An option that is declared once appears at every door, and no door lists options by hand."""

import ast
import itertools
from pathlib import Path

import pytest
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from drf_spectacular.generators import SchemaGenerator

from agents.definitions import files
from agents.hook_api import HookSerializer
from agents.models import Agent, AgentSpec, Chain, Hook, Provider, Tool
from agents.models.options import find_control, find_options, plain_options, stored_name, versioned_options
from agents.serializers.agents import AgentSerializer, HookEntrySerializer, ToolSerializer
from agents.serializers.providers import ProviderSerializer
from agents.spec import FORMAT, ChainSpec
from functions.models import StoredFunction
from functions.serializers import FunctionSerializer
from functions.spec import FunctionSpec
from runs.models import Schedule, Trigger
from runs.serializers.chains import ChainSerializer
from runs.serializers.schedules import ScheduleSerializer, TriggerSerializer
from studio.authoring.agent_fields import fields_by_tab
from tests.docs import reference

KINDS = {"agent": (Agent, AgentSerializer, AgentSpec), "chain": (Chain, ChainSerializer, ChainSpec),
         "function": (StoredFunction, FunctionSerializer, FunctionSpec),
         "provider": (Provider, ProviderSerializer, None), "tool": (Tool, ToolSerializer, None),
         "hook": (Hook, HookSerializer, None), "schedule": (Schedule, ScheduleSerializer, None),
         "trigger": (Trigger, TriggerSerializer, None)}  # fmt: skip
IN_FILES = ["agent", "chain", "function", "provider", "tool"]
VERSIONED = ["agent", "chain", "function"]
DOORS = [
    "agents/serializers/agents.py", "agents/definitions/agents.py", "agents/definitions/chains.py",
    "agents/admin/authored.py", "agents/admin/chain.py", "agents/models/agent.py", "agents/models/chain.py",
    "runs/serializers/chains.py", "functions/admin/function.py", "functions/serializers.py", "functions/definitions.py",
    "agents/serializers/providers.py", "agents/admin/hook.py", "agents/hook_api.py", "agents/definitions/hooks.py",
    "runs/admin.py", "runs/serializers/schedules.py", "studio/authoring/agent_fields.py", "studio/authoring/agents.py", "studio/authoring/chains.py",
]  # fmt: skip
SHORTEST_LIST = 6  # so many options in one list: somebody keeps a copy of the table
PARAMS = {"model_params": "temperature"}  # the admin asks for each parameter of a model


@pytest.fixture(scope="module")
def document():
    return SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_in_rest_and_in_openapi(kind, document):
    model, serializer, _ = KINDS[kind]
    name = serializer.__name__.removesuffix("Serializer")

    assert find_options(model).keys() <= serializer().fields.keys()
    assert find_options(model).keys() <= document[name]["properties"].keys()
    if kind != "tool":  # the catalogue is only read over REST
        assert find_options(model).keys() <= document[f"{name}Request"]["properties"].keys()


def test_a_hook_in_the_body_of_an_agent_has_every_option():
    assert HookEntrySerializer().fields.keys() == {"when", "function", *find_options(Hook)}


@pytest.mark.parametrize("kind", IN_FILES)
def test_every_option_is_a_field_of_a_definition_file(kind):
    names = plain_options(KINDS[kind][0])
    definition = {"kind": kind, "name": "some", **{name: object() for name in names}}

    assert not files.kinds()[kind].unknown(definition)
    assert {fault["field"] for fault in files.kinds()[kind].faults(definition)} == set(names)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_with_a_heading_is_in_the_form_of_the_admin(kind, rf, admin_user):
    model = KINDS[kind][0]
    request = rf.get("/")
    request.user = admin_user
    form = admin.site.get_model_admin(model).get_form(request)
    fields = {*form.base_fields, *admin.site.get_model_admin(model).get_readonly_fields(request)}
    drawn = flatten_fieldsets(admin.site.get_model_admin(model).get_fieldsets(request))
    expected = {
        PARAMS.get(name, name) for name, column in find_options(model).items() if column.option.group is not None
    }

    assert expected <= set(drawn)
    assert expected <= fields


@pytest.mark.parametrize("model", [Agent, Chain])
def test_every_option_with_a_tab_is_a_field_of_the_studio(model):
    fields = {field.name: field for tab in fields_by_tab(model()).values() for field in tab}
    expected = {name for name, column in find_options(model).items() if column.option.tab}

    assert fields.keys() == expected
    assert all(field.label and field.help for field in fields.values())


@pytest.mark.parametrize("kind", VERSIONED)
def test_a_version_holds_options_and_what_they_refer_to(kind):
    model, _, spec = KINDS[kind]
    stored = {stored_name(column) for column in versioned_options(model, spec).values()}
    others = {"name", "provider", "provider_id", "grants", "steps", "requires", "policy"}

    assert set(spec.model_fields) - stored <= others


@pytest.mark.parametrize("kind", VERSIONED)
def test_a_version_takes_defaults_and_choices_from_the_columns(kind):
    model, _, spec = KINDS[kind]
    for column in versioned_options(model, spec).values():
        field = spec.model_fields[stored_name(column)]
        if find_control(column) in ("number", "choice", "flag"):
            assert field.default == column.get_default(), column.name
        if find_control(column) == "choice":
            assert set(field.annotation.__args__) == set(dict(column.choices))


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_of_a_newer_format_raises_the_format(kind):
    assert max(column.option.since for column in find_options(KINDS[kind][0]).values()) <= FORMAT


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_in_the_reference(kind):
    page = reference.pages()["options.md"]

    assert all(f"| `{kind}.{name}` |" in page for name in find_options(KINDS[kind][0]))


@pytest.mark.parametrize("path", DOORS)
def test_no_door_lists_the_options_by_hand(path):
    tree = ast.parse((Path(__file__).resolve().parents[2] / path).read_text())
    lists = [node for node in ast.walk(tree) if isinstance(node, ast.List | ast.Tuple | ast.Set)]

    for node, (model, *_) in itertools.product(lists, KINDS.values()):
        listed = {part.value for part in node.elts if isinstance(part, ast.Constant)} & find_options(model).keys()
        assert len(listed) < SHORTEST_LIST, f"line {node.lineno}: {sorted(listed)}"
