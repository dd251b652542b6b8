"""PowerPoint presentations: slides in their order, with tables, charts, diagrams, notes and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .office import (
    Package,
    child_or_empty,
    find_descendant,
    read_attribute,
    read_chart,
    read_description,
    read_paragraphs,
    strip_namespace,
)
from .report import HIDDEN_SLIDE, PICTURE, LeftOut, Part, Refused

MAX_SLIDES = 2000
SLIDE_NAME = re.compile(r"ppt/slides/slide(\d+)\.xml")
# Fields that each page of notes repeats: number, date, footer, header and picture of the slide.
REPEATED_FIELDS = ("sldNum", "dt", "ftr", "hdr", "sldImg")


def read_slides(package: Package, main: str, left_out: LeftOut) -> Iterator[Part]:
    names = list_slides(package, main, left_out)
    if len(names) > MAX_SLIDES:
        raise Refused("too_many_pages", f"The file has more than {MAX_SLIDES:,} slides.")
    for number, name in enumerate(names, 1):
        slide = Slide(package, name, f"slide {number}", left_out)
        yield {"text": "\n".join(slide.read_lines()), "page": number}


def list_slides(package: Package, main: str, left_out: LeftOut) -> list[str]:
    """The names of the slides' files in the order of the presentation; where it lists none, by their numbers."""
    relations = package.read_relations(main)
    names = []
    references = child_or_empty(package.parse_part(main), "sldIdLst")
    for number, reference in enumerate(references, 1):
        relation = relations.get(read_relation_id(reference))
        if relation is None or relation.target not in package.members:
            left_out.add(f"slide {number}", "The slide is missing in the file.")
        else:
            names.append(relation.target)
    if names:
        return names
    names_by_number = {}
    for name in package.members:
        match = SLIDE_NAME.fullmatch(name)
        if match:
            names_by_number[int(match[1])] = name
    return [names_by_number[number] for number in sorted(names_by_number)]


def read_relation_id(element: Any) -> str:
    """The id in the namespace of relationships: the element also has an id of its own."""
    for key, value in element.attrib.items():
        if key.startswith("{") and strip_namespace(key) == "id":
            return str(value)
    return ""


class Slide:
    """Reads one slide with its notes and comments; notes in `left_out` what it cannot read."""

    def __init__(self, package: Package, name: str, place: str, left_out: LeftOut) -> None:
        self.package = package
        self.name = name
        self.place = place
        self.left_out = left_out
        self.relations = package.read_relations(name)

    def read_lines(self) -> Iterator[str]:
        root = self.package.parse_part(self.name)
        if read_attribute(root, "show") in ("0", "false"):
            self.left_out.note(self.place, HIDDEN_SLIDE)
        tree = find_descendant(root, "spTree")
        if tree is not None:
            yield from self.read_shapes(tree)
        else:
            yield from read_paragraphs(root)
        for part in self.package.find_related(self.name, "notesSlide"):
            lines = list(self.read_notes(part))
            if lines:
                yield "Notes: " + "\n".join(lines)
        for part in self.package.find_related(self.name, "comments"):
            for comment in self.package.parse_part(part):
                text = " ".join(read_paragraphs(comment)) or read_plain_comment(comment)
                if text:
                    yield f"[comment: {text}]"

    def read_shapes(self, tree: Any) -> Iterator[str]:
        for shape in tree:
            tag = strip_namespace(shape.tag)
            if tag in ("sp", "cxnSp"):
                self.record_filling(shape)
                yield from read_paragraphs(shape)
            elif tag == "grpSp":
                yield from self.read_shapes(shape)
            elif tag == "graphicFrame":
                yield from self.read_frame(shape)
            elif tag == "pic":
                yield from self.read_picture(shape)
            elif tag == "AlternateContent":
                # Several forms of the same content: the first one with text is read.
                branches = [list(self.read_shapes(branch)) for branch in shape]
                yield from next(filter(None, branches), [])
            elif tag == "contentPart":
                self.left_out.add(self.place, "Ink that was written by hand is not read.")

    def record_filling(self, shape: Any) -> None:
        """Record that a picture is not read if the shape is filled with one."""
        if any(strip_namespace(element.tag) == "blipFill" for element in shape.iter()):
            self.left_out.add(self.place, PICTURE)

    def read_frame(self, frame: Any) -> Iterator[str]:
        """A table, a chart, a diagram or an embedded file."""
        for element in frame.iter():
            tag = strip_namespace(element.tag)
            if tag == "tr":
                cells = [" ".join(read_paragraphs(cell)) for cell in element if strip_namespace(cell.tag) == "tc"]
                yield " | ".join(cells)
            elif tag == "chart" and read_relation_id(element) in self.relations:
                yield from read_chart(self.package, self.relations[read_relation_id(element)].target)
            elif tag == "relIds":
                yield from self.read_diagram(element)
            elif tag == "oleObj":
                self.left_out.add(self.place, "Files inside a presentation are not read.")

    def read_diagram(self, references: Any) -> Iterator[str]:
        relation = self.relations.get(read_attribute(references, "dm"))
        if relation is not None:
            yield from read_paragraphs(self.package.parse_part(relation.target))

    def read_picture(self, picture: Any) -> Iterator[str]:
        self.left_out.add(self.place, PICTURE)
        if description := read_description(picture):
            yield f"[picture: {description}]"

    def read_notes(self, part: str) -> Iterator[str]:
        for shape in self.package.parse_part(part).iter():
            if strip_namespace(shape.tag) == "sp":
                kind = read_attribute(find_descendant(shape, "ph"), "type")
                if kind not in REPEATED_FIELDS:
                    yield from read_paragraphs(shape)


def read_plain_comment(comment: Any) -> str:
    """The text of a comment that has it in one element, without paragraphs."""
    texts = [element.text or "" for element in comment.iter() if strip_namespace(element.tag) == "text"]
    return " ".join(texts).strip()
