"""SKILL.md by the rules of the specification."""

import pytest

from agents.exceptions import Invalid
from knowledge.skills import document
from tests.knowledge.skills.samples import skill_md


def problems(text, folder=""):
    with pytest.raises(Invalid) as caught:
        document.parse_skill_document(text, folder)
    return {detail["field"] for detail in caught.value.details}


def test_all_fields_of_the_specification_are_read():
    more = 'license: MIT\ncompatibility: Needs Python\nmetadata: {version: 1.0, by: "us"}\nallowed-tools: Read Bash(git:*)\n'
    read = document.parse_skill_document(skill_md(more=more), "invoices")
    assert (read.name, read.front["license"], read.front["allowed-tools"]) == ("invoices", "MIT", "Read Bash(git:*)")
    assert read.front["metadata"] == {"version": "1.0", "by": "us"} and read.body.startswith("# Invoices")


def test_windows_line_ends_and_a_byte_order_mark_are_read():
    assert document.parse_skill_document("\ufeff" + skill_md().replace("\n", "\r\n")).name == "invoices"


def test_a_description_may_have_several_lines():
    text = "---\nname: a\ndescription: |-\n  One.\n  Use: always.\n---\n"
    assert document.parse_skill_document(text).description == "One.\nUse: always."


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (skill_md(name="Invoices"), "name"), (skill_md(name="a--b"), "name"), (skill_md(name="-a"), "name"),
        (skill_md(name="a" * 65), "name"), (skill_md(name="12"), "name"), (skill_md(description='""'), "description"),
        (skill_md(description="d" * 1025), "description"), (skill_md(more="license: [MIT]\n"), "license"),
        (skill_md(more=f"compatibility: {'c' * 501}\n"), "compatibility"), (skill_md(more="metadata: {a: {b: 1}}\n"), "metadata"),
        (skill_md(more="allowed-tools: [Read]\n"), "allowed-tools"), (skill_md(more="hooks: x\n"), "hooks"),
    ],
)  # fmt: skip
def test_each_rule_is_checked(text, field):
    assert field in problems(text)


def test_the_name_is_that_of_the_folder():
    assert problems(skill_md(), "other") == {"name"}


@pytest.mark.parametrize(
    "text",
    ["", "# No front matter", "---\nname: a\n", "---\n- a\n---\n", "---\na: &x 1\nb: *x\n---\n", "---\na: b: c\n---\n",
     f"---\na: {'x' * 20_000}\n---\n", "---\nname: a\ndescription: \0\n---\n"],
)  # fmt: skip
def test_what_is_no_front_matter_is_refused(text):
    with pytest.raises(Invalid):
        document.parse_skill_document(text)
