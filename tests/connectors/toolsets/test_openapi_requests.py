"""What is sent, byte for byte, for each way in which OpenAPI describes a value: through the reader, to an echo server."""

import json
import re

import httpx2
import pytest

from agents.tools import RetryTool
from connectors.toolsets.openapi_requests import build_request
from plumbing.untrusted import openapi
from tests.connectors.loopback import Loopback


class Echo(Loopback):
    def __init__(self):
        super().__init__()
        for method in ("GET", "POST", "DELETE"):
            self.routes.append((method, re.compile(".*"), lambda asked: {}))


@pytest.fixture(scope="module")
def echo():
    with Echo() as made:
        yield made


def details_of(operation, path="/x", method="get", version="3.0.3", **more):
    document = {
        "openapi": version,
        "servers": [{"url": "http://a.example"}],
        "paths": {path: {method: operation}},
        **more,
    }
    [described] = map(json.loads, openapi.read_here(json.dumps(document), None, "", "")["operations"])
    assert described["problem"] == ""
    return described["details"]


def send(echo, details, arguments):
    request = build_request(echo.url, details, arguments)
    with httpx2.Client() as client:
        assert client.request(details["method"], **request).status_code == 200
    return echo.asked[-1]


STRING, LIST, OBJECT = "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}
# The table “Style Examples” of OpenAPI 3.0.4, 3.1.1 and 3.2.0: style, explode, then what is sent for
# an empty string, a string, an array and an object; None where the specification has no example.
PATHS = [
    ("matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
    ("matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ("label", False, None, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("label", True, None, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("simple", False, None, "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("simple", True, None, "blue", "blue,black,brown", "R=100,G=200,B=150"),
]
QUERIES = [
    ("form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("spaceDelimited", False, None, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
    ("pipeDelimited", False, None, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("deepObject", True, None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
]
COOKIES = [
    ("form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("cookie", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("cookie", True, "color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"),
]


def examples(rows):
    cases = []
    for style, explode, *expected in rows:
        for value, text in zip(("", STRING, LIST, OBJECT), expected, strict=True):
            if text is not None:
                cases.append(pytest.param(style, explode, value, text, id=f"{style}-{explode}-{text}"))
    return cases


def parameter(where, style, explode, **more):
    return {"name": "color", "in": where, "style": style, "explode": explode, "schema": {}, **more}


@pytest.mark.parametrize(("style", "explode", "value", "text"), examples(PATHS))
def test_a_path_is_written_as_the_specification_shows(echo, style, explode, value, text):
    operation = {"parameters": [parameter("path", style, explode, required=True)]}
    asked = send(echo, details_of(operation, "/a/{color}/b"), {"color": value})
    assert asked.target == f"/a/{text}/b"


@pytest.mark.parametrize(("style", "explode", "value", "text"), examples(QUERIES))
def test_a_query_is_written_as_the_specification_shows(echo, style, explode, value, text):
    asked = send(echo, details_of({"parameters": [parameter("query", style, explode)]}), {"color": value})
    assert asked.target == f"/x?{text}"


@pytest.mark.parametrize(("style", "explode", "value", "text"), examples(PATHS[-2:]))
def test_a_header_is_written_as_the_specification_shows(echo, style, explode, value, text):
    asked = send(echo, details_of({"parameters": [parameter("header", style, explode)]}), {"color": value})
    assert asked.headers["color"] == text


@pytest.mark.parametrize(("style", "explode", "value", "text"), examples(COOKIES))
def test_a_cookie_is_written_as_the_specification_shows(echo, style, explode, value, text):
    asked = send(echo, details_of({"parameters": [parameter("cookie", style, explode)]}), {"color": value})
    assert asked.headers["cookie"] == text


@pytest.mark.parametrize(("style", "explode", "value", "text"), examples(QUERIES))
def test_a_form_is_written_as_the_specification_shows(echo, style, explode, value, text):
    schema = {"type": "object", "properties": {"color": {}}}
    content = {"schema": schema, "encoding": {"color": {"style": style, "explode": explode}}}
    operation = {"requestBody": {"content": {"application/x-www-form-urlencoded": content}}}
    asked = send(echo, details_of(operation, method="post"), {"body": {"color": value}})
    assert asked.body.decode() == text
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("where", "value", "sent"),
    [
        ("query", LIST, "/x?color=blue&color=black&color=brown"),
        ("query", OBJECT, "/x?R=100&G=200&B=150"),
        ("path", LIST, "/a/blue,black,brown"),
        ("path", OBJECT, "/a/R,100,G,200,B,150"),
    ],
)
def test_styles_that_are_not_given_are_those_of_the_specification(echo, where, value, sent):
    operation = {"parameters": [{"name": "color", "in": where, "schema": {}}]}
    details = details_of(operation, "/a/{color}" if where == "path" else "/x")
    assert send(echo, details, {"color": value}).target == sent


@pytest.mark.parametrize("style", ["spaceDelimited", "pipeDelimited"])
def test_a_delimited_list_is_not_exploded_unless_the_document_says_so(echo, style):
    details = details_of({"parameters": [{"name": "color", "in": "query", "style": style, "schema": {}}]})
    assert send(echo, details, {"color": ["a", "b"]}).target in ("/x?color=a%20b", "/x?color=a%7Cb")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (True, "v=true"),
        (1.5, "v=1.5"),
        (10**20, "v=100000000000000000000"),
        ("a b&c=d+e", "v=a%20b%26c%3Dd%2Be"),
        ("é", "v=%C3%A9"),
        (["a,b", None, "c"], "v=a%2Cb,c"),
        ({"k": None, "l": [1]}, "v=l,%5B1%5D"),
        (None, ""),
        ([], ""),
        ({}, ""),
    ],
)
def test_values_of_every_kind_are_escaped_and_null_is_left_out(echo, value, sent):
    details = details_of({"parameters": [{"name": "v", "in": "query", "explode": False, "schema": {}}]})
    assert send(echo, details, {"v": value}).target == ("/x?" + sent if sent else "/x")


def test_null_is_left_out_of_headers_and_cookies(echo):
    details = details_of({"parameters": [parameter("header", "simple", False), {"name": "c", "in": "cookie"}]})
    asked = send(echo, details, {"color": None, "c": None})
    assert "color" not in asked.headers and "cookie" not in asked.headers


def test_reserved_characters_are_kept_where_the_document_allows_them(echo):
    details = details_of({"parameters": [{"name": "v", "in": "query", "allowReserved": True, "schema": {}}]})
    assert send(echo, details, {"v": "a/b:c?d&e"}).target == "/x?v=a/b:c?d%26e"


def test_deep_objects_inside_deep_objects(echo):
    details = details_of({"parameters": [parameter("query", "deepObject", True)]})
    value = {"a": {"b": 1}, "c": ["x", "y"], "d": [{"e": 2}]}
    sent = send(echo, details, {"color": value}).target.replace("%5B", "[").replace("%5D", "]")
    assert sent == "/x?color[a][b]=1&color[c][]=x&color[c][]=y&color[d][0][e]=2"


def test_a_parameter_with_a_content_type_is_sent_as_json(echo):
    one = {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    asked = send(echo, details_of({"parameters": [one]}), {"filter": {"a": [1]}})
    assert asked.query == {"filter": ['{"a": [1]}']}


@pytest.mark.parametrize("value", ["", ".", "..", None, [], {}])
@pytest.mark.parametrize("style", ["simple", "label"])
def test_a_path_parameter_is_never_empty_and_never_climbs(style, value):
    details = details_of({"parameters": [parameter("path", style, False)]}, "/a/{color}")
    if (style, value) == ("label", ".."):
        assert build_request("http://a.example", details, {"color": value})["url"].endswith("/a/...")
        return
    with pytest.raises(RetryTool):
        build_request("http://a.example", details, {"color": value})


def test_two_parameters_of_one_segment_do_not_climb_together():
    details = details_of({}, "/a/{x}{y}/b")
    with pytest.raises(RetryTool, match="dots"):
        build_request("http://a.example", details, {"x": ".", "y": "."})


# -- bodies ------------------------------------------------------------------------------------------------------------


def body_of(media, schema=None, **more):
    return {"requestBody": {"content": {media: {"schema": {"type": "object"} if schema is None else schema, **more}}}}


@pytest.mark.parametrize(
    ("media", "kind"),
    [
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        ("application/vnd.api+json", "application/vnd.api+json"),
        ("application/merge-patch+json", "application/merge-patch+json"),
        ("application/json-patch+json", "application/json-patch+json"),
        ("text/json", "text/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
    ],
)
def test_json_is_sent_under_the_type_that_the_document_names(echo, media, kind):
    asked = send(echo, details_of(body_of(media), method="post"), {"body": {"a": "é", "b": None}})
    assert asked.json == {"a": "é", "b": None} and asked.headers["content-type"] == kind


@pytest.mark.parametrize(
    ("media", "schema", "value", "sent", "kind"),
    [
        ("text/plain", {"type": "string"}, "héllo", "héllo".encode(), "text/plain; charset=utf-8"),
        ("text/csv", {}, "a,b", b"a,b", "text/csv; charset=utf-8"),
        ("application/xml", {"type": "string"}, "<a/>", b"<a/>", "application/xml"),
        ("application/graphql", {"type": "string"}, "{ me }", b"{ me }", "application/graphql"),
        ("*/*", {"type": "string"}, "x", b"x", "text/plain; charset=utf-8"),
        ("application/octet-stream", {"type": "string", "format": "binary"}, "AAH/", b"\0\x01\xff", None),
        ("image/png", {}, "iVBORw==", b"\x89PNG", "image/png"),
    ],
)
def test_text_and_bytes_are_sent_as_they_are(echo, media, schema, value, sent, kind):
    asked = send(echo, details_of(body_of(media, schema), method="post"), {"body": value})
    assert asked.body == sent and asked.headers["content-type"] == (kind or media)


def test_a_file_that_is_no_base64_is_asked_for_again():
    details = details_of(body_of("image/png", {}), method="post")
    with pytest.raises(RetryTool, match="base64"):
        build_request("http://a.example", details, {"body": "no base64!"})


def test_a_form_repeats_lists_and_sends_objects_as_json(echo):
    details = details_of(body_of("application/x-www-form-urlencoded"), method="post")
    asked = send(echo, details, {"body": {"l": ["1", "2"], "o": {"a": 1}, "n": None, "t": "a b"}})
    assert asked.body.decode() == "l=1&l=2&o=%7B%22a%22%3A%201%7D&t=a%20b"


def test_a_multipart_form_has_a_part_for_each_value(echo):
    schema = {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "meta": {"type": "object"},
            "photo": {"type": "string", "format": "binary"},
            "title": {"type": "string"},
        },
    }
    details = details_of(
        body_of("multipart/form-data", schema, encoding={"photo": {"contentType": "image/png"}}), method="post"
    )
    value = {
        "file": "AAE=",
        "more": ["AA==", "AQ=="],
        "tags": ["a", "b"],
        "meta": {"k": 1},
        "photo": "/w==",
        "title": "é",
    }
    asked = send(echo, details, {"body": value})
    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    parts = [part.strip(b"\r\n").partition(b"\r\n\r\n") for part in asked.body.split(b"--" + boundary)[1:-1]]
    sent = [(re.search(rb'name="(\w+)"', head)[1].decode(), content) for head, _, content in parts]
    assert sent == [
        ("file", b"\0\x01"), ("more", b"\0"), ("more", b"\x01"), ("tags", b"a"), ("tags", b"b"), ("meta", b'{"k": 1}'),
        ("photo", b"\xff"), ("title", "é".encode()),
    ]  # fmt: skip
    heads = {name: head for (name, _), (head, _, _) in zip(sent, parts, strict=True)}
    assert b"application/json" in heads["meta"] and b"image/png" in heads["photo"] and b"filename=" in heads["file"]


@pytest.mark.parametrize(
    ("form", "sent"), [("csv", "a,b"), ("ssv", "a%20b"), ("pipes", "a%7Cb"), ("tsv", "a%09b"), (None, "a,b")]
)
def test_lists_of_swagger_2_are_written_in_their_form(echo, form, sent):
    one = {"name": "v", "in": "query", "type": "array", "items": {"type": "string"}}
    details = swagger({"get": {"parameters": [{**one, **({"collectionFormat": form} if form else {})}]}})
    assert send(echo, details, {"v": ["a", "b"]}).target == f"/x?v={sent}"
    details = swagger({"get": {"parameters": [{**one, "collectionFormat": "multi"}]}})
    assert send(echo, details, {"v": ["a", "b"]}).target == "/x?v=a&v=b"


def test_forms_and_bodies_of_swagger_2_are_sent(echo):
    fields = [{"name": "a", "in": "formData", "type": "string"}, {"name": "l", "in": "formData", "type": "array"}]
    details = swagger({"post": {"parameters": fields, "consumes": ["application/x-www-form-urlencoded"]}})
    assert send(echo, details, {"body": {"a": "1", "l": ["x", "y"]}}).body == b"a=1&l=x,y"
    file = {"name": "f", "in": "formData", "type": "file"}
    assert b"\xff\xff" in send(echo, swagger({"post": {"parameters": [file]}}), {"body": {"f": "//8="}}).body
    body = {"name": "pet", "in": "body", "schema": {"type": "object"}}
    assert send(echo, swagger({"post": {"parameters": [body]}}), {"body": {"a": 1}}).json == {"a": 1}


def swagger(item):
    document = {"swagger": "2.0", "host": "a.example", "paths": {"/x": item}}
    [described] = map(json.loads, openapi.read_here(json.dumps(document), None, "", "")["operations"])
    assert described["problem"] == ""
    return described["details"]
