"""The picture of a chain: well-formed, safe, told in words too, and quick."""

from xml.etree import ElementTree

from agents.spec import ChainSpec, StepSpec
from runs.api.chain_graph import StepState, draw, serialize_graph
from tests.costs import measure_cpu

SVG = "{http://www.w3.org/2000/svg}"


def chain(*steps, **fields):
    return ChainSpec(
        name=fields.pop("name", "c"), steps=[StepSpec(**{"target": "t", **step}) for step in steps], **fields
    )


DIAMOND = chain(
    {"key": "a"}, {"key": "b", "needs": ["a"]}, {"key": "c", "needs": ["a"]}, {"key": "d", "needs": ["b", "c"]}
)


def test_steps_stand_in_columns_by_what_they_wait_for():
    nodes = {node["key"]: node for node in serialize_graph(DIAMOND)["nodes"]}
    assert nodes["a"]["x"] < nodes["b"]["x"] == nodes["c"]["x"] < nodes["d"]["x"]
    assert nodes["b"]["y"] != nodes["c"]["y"]
    assert len(serialize_graph(DIAMOND)["edges"]) == 4


def test_each_state_is_a_class_and_a_word():
    states = {
        "a": StepState("succeeded"),
        "b": StepState("running", total=10, done=4, failed=1),
        "c": StepState("failed"),
    }
    root = ElementTree.fromstring(draw(DIAMOND, states))
    nodes = {node.get("data-step"): node for node in root.iter(f"{SVG}g")}
    assert nodes["b"].get("class") == "node tool running"
    assert nodes["b"].get("aria-label") == "b: tool t, running, 4 of 10 items, 1 failed"
    assert "not started" in nodes["d"].get("aria-label")
    assert "a: succeeded; b: running; c: failed; d: not started" in root.find(f"{SVG}desc").text


def test_names_from_people_stay_text():
    spec = chain({"key": "a", "target": "<script>alert(1)</script>"}, name='"><script>')
    picture = draw(spec, links={"a": '/x"onclick="y'})
    assert "<script" not in picture
    ElementTree.fromstring(picture)


def test_a_fallback_stands_beside_what_it_replaces():
    spec = chain(
        {"key": "a", "on_error": "fallback", "fallback": "spare"}, {"key": "spare"}, {"key": "b", "needs": ["a"]}
    )
    assert {"from": "a", "to": "spare", "kind": "instead"} in serialize_graph(spec)["edges"]
    assert "edge instead" in draw(spec)


def test_fifty_steps_are_drawn_well_within_fifty_milliseconds():
    spec = chain(*({"key": f"s{n}", "needs": [f"s{n - 1}", f"s{n // 2}"] if n > 1 else []} for n in range(50)))
    states = {f"s{n}": StepState("succeeded") for n in range(50)}
    most_s = 0.5  # ten times the promise, so that a slow machine does not fail the test
    assert measure_cpu(lambda: draw(spec, states), below=most_s) < most_s


def test_only_a_picture_that_stands_alone_contains_the_style_sheet_of_pages(settings):
    styles = (settings.BASE_DIR / "static/runs/graph.css").read_text()
    assert f"<style>{styles}</style>" in draw(DIAMOND)
    assert "<style" not in draw(DIAMOND, is_alone=False)


def test_the_picture_says_how_long_steps_took_and_what_was_given():
    picture = draw(
        DIAMOND,
        {
            "a": StepState("succeeded", pinned=True, took_s=0.0),
            "b": StepState("running", total=10, done=4, failed=1),
            "c": StepState("succeeded", took_s=1.25),
        },
    )
    assert "succeeded, output given" in picture and ">given</text>" in picture
    assert ">4/10</text>" in picture
    assert "took 1.2 s" in picture and ">1.2 s</text>" in picture
