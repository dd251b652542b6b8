"""Binary content of MCP servers' answers: a model gets the name of a file, in whichever place the Base64 stood."""

import base64
import hashlib
import json

import pytest

from agents.tools import ToolContext, ToolFailed, ToolSpec
from connectors.attachments import FILES, with_files_stored
from connectors.toolsets.mcp_results import build_mcp_result
from tests.costs import measure_cpu

NOISE = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(200))
PICTURE = b"\x89PNG\r\n\x1a\n" + NOISE
TEXT = base64.b64encode(PICTURE).decode()
WRAPPED = base64.encodebytes(PICTURE).decode()
SAFE = base64.urlsafe_b64encode(PICTURE).decode().rstrip("=")
NAMED = "[file draw-1.png, image/png, stored as file:1]"


class Saved(list):
    """Stands for the run's files."""

    def save(self, name, content, declared):
        self.append((name, content, declared))
        return {"file": str(len(self)), "name": name, "media_type": declared or "image/png", "size": len(content)}


@pytest.fixture
def saved():
    return Saved()


def shown(saved, answer, schema=None, save=True):
    """The value that a model gets."""
    tool = ToolSpec(1, "draw", "mcp", "", {}, schema, "read", {}, "")
    context = ToolContext(1, save_file=saved.save if save else None)
    result = build_mcp_result(answer, tool, "", with_files_stored(answer, tool, context))
    assert result.ok, result.error
    return result.value


PLACES = [
    {"image": {"type": "image", "data": TEXT, "mimeType": "image/png"}},
    {"deep": [{"list": [{"media_type": "image/png", "content": TEXT}]}]},
    {"url": f"data:image/png;base64,{TEXT}"},
    {"url": f"data:image/png;charset=utf-8;base64,{TEXT}"},
    {"page": f"# Chart\n\n![chart](data:image/png;base64,{TEXT})\n\nAs you see."},
    {"bare": TEXT},
    {"wrapped": WRAPPED},
    {"safe": SAFE},
    {"nested": json.dumps({"data": TEXT})},
    {"nested": json.dumps({"data": WRAPPED})},
    {"sentence": f"The picture is {TEXT} and shows a cat."},
    TEXT,
    [TEXT, TEXT],
]


@pytest.mark.parametrize("structured", PLACES)
def test_no_base64_of_structured_content_reaches_the_model(saved, structured):
    value = shown(saved, {"content": [], "structuredContent": structured})
    assert len(json.dumps(value)) < 300 and "stored as file:1" in json.dumps(value)
    assert [content for _, content, _ in saved] == [PICTURE]


@pytest.mark.parametrize("structured", PLACES)
def test_a_picture_in_both_places_is_one_file(saved, structured):
    content = [{"type": "image", "data": TEXT, "mimeType": "image/png"}]
    value = shown(saved, {"content": content, "structuredContent": structured})
    if SAFE not in json.dumps(structured):  # another spelling is another text
        assert len(saved) == 1 and NAMED in json.dumps(value)
    assert len(json.dumps(value)) < 400


@pytest.mark.parametrize("field", ["data", "imageData", "png", "contents"])
def test_a_short_picture_is_one_in_any_field_beside_its_media_type(saved, field):
    value = shown(saved, {"content": [], "structuredContent": {field: TEXT[:800], "mime_type": "image/png"}})
    assert value == {field: NAMED, "mime_type": "image/png"}


def test_a_picture_beside_structured_content_is_not_lost(saved):
    content = [{"type": "image", "data": TEXT, "mimeType": "image/png"}]
    assert shown(saved, {"content": content, "structuredContent": {"width": 3}}) == {"width": 3, "files": [NAMED]}
    assert shown(Saved(), {"content": content, "structuredContent": [3]}) == {"result": [3], "files": [NAMED]}


@pytest.mark.parametrize("text", [TEXT, f"data:image/png;base64,{TEXT}", f"See:\n{WRAPPED}", json.dumps({"a": TEXT})])
def test_nor_does_base64_in_a_text(saved, text):
    value = shown(saved, {"content": [{"type": "text", "text": text}]})
    assert len(value) < 200 and [content for _, content, _ in saved] == [PICTURE]


def test_the_value_that_the_server_sent_is_held_against_the_schema(saved):
    rules = {
        "type": "object",
        "properties": {"data": {"type": "string", "minLength": 1000, "pattern": "^[A-Za-z0-9+/=]*$"}},
    }
    answer = {"content": [], "structuredContent": {"data": TEXT}}
    assert shown(saved, answer, rules) == {"data": NAMED.replace(".png", ".bin")}
    text = {"content": [{"type": "text", "text": json.dumps({"data": TEXT})}]}
    assert shown(Saved(), text, rules) == {"data": NAMED.replace(".png", ".bin")}


KEPT = [
    "x" * 50_000,
    "ACGT" * 3000,
    NOISE.hex(),
    " ".join(["word"] * 5000),
    "\n".join(["A line of a text that is rather long and has 3 words or more"] * 500),
    "/".join(["some-folder-1/Other"] * 20),
    TEXT[:400],
    "data:text/plain;base64,QQ==",
    "https://example.org/?token=" + TEXT[:600],
]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_binary_stays_as_it_is(saved, text):
    answer = {"content": [], "structuredContent": {"text": text, "number": 3, "none": None, "yes": True}}
    assert shown(saved, answer) == answer["structuredContent"] and not saved


def test_without_a_run_its_size_is_said(saved):
    answer = {"content": [], "structuredContent": {"data": TEXT, "mimeType": "image/png"}}
    value = shown(saved, answer, save=False)
    assert value == {"data": f"[left out: image/png, {len(TEXT) * 3 // 4} bytes]", "mimeType": "image/png"}


def test_what_cannot_be_stored_says_so(saved):
    def refuse(name, content, declared):
        raise ToolFailed("no room", code="quota")

    saved.save = refuse
    answer = {"content": [], "structuredContent": {"data": TEXT, "mimeType": "image/png"}}
    assert shown(saved, answer)["data"] == "[left out: image/png: no room]"


def test_only_so_many_files_are_stored(saved):
    pictures = [base64.b64encode(PICTURE + bytes([n])).decode() for n in range(FILES + 5)]
    value = shown(saved, {"content": [], "structuredContent": pictures})
    assert len(saved) == FILES and "left out" in value[-1] and len(json.dumps(value)) < 4000


@pytest.mark.parametrize(
    "text",
    [
        "A" * 2_000_000,
        ("A" * 39 + "=") * 50_000,
        ("Ab1" * 20 + "=x") * 30_000,
        "data:" * 300_000,
        ("Ab1" * 20 + "\n") * 30_000,
    ],
)
def test_no_text_takes_long(saved, text):
    value = {"content": [], "structuredContent": {"text": text}}
    assert measure_cpu(lambda: shown(saved, value), below=5) < 5


def test_content_that_is_no_list_and_parts_that_are_none(saved):
    for content in (None, 3, "text", {}, [None, 3, {"type": ["image"]}, {"type": "image"}, {"type": "resource"}]):
        shown(saved, {"content": content})
        shown(saved, {"content": content, "structuredContent": {"a": 1}})
