"""PowerPoint presentations: slides in their order, with tables, charts, diagrams, notes and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .office import Package, attribute, chart_lines, child, local, texts_in
from .report import HIDDEN_SLIDE, PICTURE, LeftOut, Part, Refused

SLIDES = 2000
SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")
NUMBERS = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # fields that each page of notes repeats


def read_slides(package: Package, main: str, left_out: LeftOut) -> Iterator[Part]:
    names = slides_of(package, main, left_out)
    if len(names) > SLIDES:
        raise Refused("too_many_pages", f"The file has more than {SLIDES:,} slides.")
    for number, name in enumerate(names, 1):
        slide = Slide(package, name, f"slide {number}", left_out)
        yield {"text": "\n".join(slide.lines()), "page": number}


def slides_of(package: Package, main: str, left_out: LeftOut) -> list[str]:
    """In the order of the presentation; where it lists none, by their numbers."""
    relations = package.relations(main)
    listed = child(package.tree(main), "sldIdLst")
    names = []
    for number, one in enumerate(listed if listed is not None else (), 1):
        relation = relations.get(relation_id(one))
        if relation is None or relation.target not in package.members:
            left_out.add(f"slide {number}", "The slide is missing in the file.")
        else:
            names.append(relation.target)
    if names:
        return names
    by_number = {int(match[1]): name for name in package.members if (match := SLIDE.fullmatch(name))}
    return [name for _, name in sorted(by_number.items())]


def relation_id(element: Any) -> str:
    """The id in the namespace of relationships: the element also has an id of its own."""
    for key, value in element.attrib.items():
        if key.startswith("{") and local(key) == "id":
            return str(value)
    return ""


class Slide:
    def __init__(self, package: Package, name: str, place: str, left_out: LeftOut) -> None:
        self.package, self.name, self.place, self.left_out = package, name, place, left_out
        self.relations = package.relations(name)

    def lines(self) -> Iterator[str]:
        root = self.package.tree(self.name)
        if attribute(root, "show") in ("0", "false"):
            self.left_out.note(self.place, HIDDEN_SLIDE)
        tree = next((one for one in root.iter() if local(one.tag) == "spTree"), None)
        yield from self.shapes(tree) if tree is not None else texts_in(root)
        for part in self.package.related(self.name, "notesSlide"):
            if lines := list(self.notes(part)):
                yield "Notes: " + "\n".join(lines)
        for part in self.package.related(self.name, "comments"):
            for comment in self.package.tree(part):
                text = " ".join(texts_in(comment)) or plain_comment(comment)
                if text:
                    yield f"[comment: {text}]"

    def shapes(self, tree: Any) -> Iterator[str]:
        for shape in tree:
            tag = local(shape.tag)
            if tag in ("sp", "cxnSp"):
                self.note_filling(shape)
                yield from texts_in(shape)
            elif tag == "grpSp":
                yield from self.shapes(shape)
            elif tag == "graphicFrame":
                yield from self.frame(shape)
            elif tag == "pic":
                yield from self.picture(shape)
            elif tag == "AlternateContent":
                branches = [list(self.shapes(branch)) for branch in shape]
                yield from next(filter(None, branches), [])
            elif tag == "contentPart":
                self.left_out.add(self.place, "Ink that was written by hand is not read.")

    def note_filling(self, shape: Any) -> None:
        """A shape may be filled with a picture."""
        if any(local(one.tag) == "blipFill" for one in shape.iter()):
            self.left_out.add(self.place, PICTURE)

    def frame(self, frame: Any) -> Iterator[str]:
        """A table, a chart, a diagram or an embedded file."""
        for one in frame.iter():
            tag = local(one.tag)
            if tag == "tr":
                cells = [" ".join(texts_in(cell)) for cell in one if local(cell.tag) == "tc"]
                yield " | ".join(cells)
            elif tag == "chart" and relation_id(one) in self.relations:
                yield from chart_lines(self.package, self.relations[relation_id(one)].target)
            elif tag == "relIds":
                yield from self.diagram(one)
            elif tag == "oleObj":
                self.left_out.add(self.place, "Files inside a presentation are not read.")

    def diagram(self, references: Any) -> Iterator[str]:
        relation = self.relations.get(attribute(references, "dm"))
        if relation is not None:
            yield from texts_in(self.package.tree(relation.target))

    def picture(self, picture: Any) -> Iterator[str]:
        self.left_out.add(self.place, PICTURE)
        properties = next((one for one in picture.iter() if local(one.tag) == "cNvPr"), None)
        if description := attribute(properties, "descr").strip():
            yield f"[picture: {description}]"

    def notes(self, part: str) -> Iterator[str]:
        for shape in self.package.tree(part).iter():
            if local(shape.tag) == "sp":
                kind = next((attribute(one, "type") for one in shape.iter() if local(one.tag) == "ph"), "")
                if kind not in NUMBERS:
                    yield from texts_in(shape)


def plain_comment(comment: Any) -> str:
    return " ".join(one.text or "" for one in comment.iter() if local(one.tag) == "text").strip()
