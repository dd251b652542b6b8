"""The client's search over the files of shared folders."""

import os
import time
import unicodedata

import docx
import pytest

from devices.client.exceptions import ToolRefused
from devices.client.tools import filesystem, searching
from devices.client.tools.searching import search_files
from devices.client.workspace import Workspace
from tests.knowledge.indexing.test_work import pdf
from tests.spellings import TEXTS


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rules.md").write_text(
        "# Rules\n\n" + "Nothing here. " * 60 + "\n\nBicycles are repaired on Mondays.\n"
    )
    (tmp_path / "other.txt").write_text("Helmets are sold, not repaired.\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG repaired bicycles")
    return tmp_path


@pytest.fixture
def workspace(folder):
    return Workspace({"docs": folder})


def test_it_finds_the_best_place_with_its_line(workspace):
    found = search_files(workspace, "Which bicycle is repaired?")
    first, second = found["results"]
    assert (first["path"], first["line"], first["page"]) == ("sub/rules.md", 5, None)
    assert "repaired on Mondays" in first["text"] and second["path"] == "other.txt"
    assert (found["searched"], found["truncated"]) == (2, False)
    read = filesystem.read_file_content(workspace, "sub/rules.md", offset=first["offset"])
    assert "Bicycles are repaired" in read["text"] and "# Rules" not in read["text"]


def test_pdf_and_word_files_are_searched_with_their_pages(workspace, folder):
    (folder / "prices.pdf").write_bytes(pdf("Nothing", "Tyres cost twenty"))
    document = docx.Document()
    document.add_paragraph("Saddles cost ten.")
    document.save(folder / "saddles.docx")
    [tyres] = search_files(workspace, "tyres")["results"]
    assert (tyres["path"], tyres["page"], tyres["text"]) == ("prices.pdf", 2, "Tyres cost twenty")
    assert filesystem.read_file_content(workspace, "prices.pdf", offset=tyres["offset"])["text"] == "Tyres cost twenty"
    assert [one["path"] for one in search_files(workspace, "saddles")["results"]] == ["saddles.docx"]


def test_it_searches_one_folder_and_nothing_outside(workspace, folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("bicycles of others")
    os.symlink(outside, folder / "link")
    os.symlink(outside / "secret.txt", folder / "sub" / "secret.txt")
    assert [one["path"] for one in search_files(workspace, "bicycles", path="sub")["results"]] == ["sub/rules.md"]
    assert "others" not in str(search_files(workspace, "bicycles"))
    with pytest.raises(ToolRefused):
        search_files(workspace, "bicycles", path="../outside")
    with pytest.raises(ToolRefused, match="no word"):
        search_files(workspace, "?!")


def test_without_time_it_says_that_it_did_not_read_everything(workspace, monkeypatch):
    monkeypatch.setattr(searching, "READING_S", -1.0)
    assert search_files(workspace, "bicycles") == {"results": [], "searched": 0, "truncated": True}


def test_a_long_pdf_is_read_further_with_each_search(workspace, folder, monkeypatch):
    (folder / "long.pdf").write_bytes(pdf("one", "two", "three"))
    monkeypatch.setattr(searching, "PAGES", searching.KnownPages())
    with workspace.open("long.pdf") as opened:
        read = [searching.PAGES.read("long.pdf", opened, time.monotonic()) for _ in range(4)]
    assert [len(one.texts) for one in read] == [1, 2, 3, 3] and read[-1].is_complete


def test_excerpts_are_bounded(workspace, folder):
    (folder / "long.txt").write_text("bicycle " * 100_000)
    found = search_files(workspace, "bicycle", limit=50)["results"]
    assert len(found) == searching.MAX_RESULTS and all(len(one["text"]) <= searching.BLOCK for one in found)


SPELLINGS = {
    "保留收据": "chinese.md", "客服": "chinese.md", "영수증": "korean.md", "コーヒー": "halfwidth.md", "café": "decomposed.md", "CAFÉ": "decomposed.md",
    unicodedata.normalize("NFD", "café"): "decomposed.md", "STRASSE": "street.md", "strasse": "street.md", "Fußballplatz": "capitals.md",
    "4711": "wide.md", "case": "mixed.md",
}  # fmt: skip


@pytest.mark.parametrize(("query", "wanted"), SPELLINGS.items(), ids=ascii)
def test_words_are_found_in_every_script_and_spelling(query, wanted, tmp_path):
    texts = {**TEXTS, "mixed": "手机case"}
    for name, text in texts.items():
        (tmp_path / f"{name}.md").write_text(f"First line\n\n{text}\n", encoding="utf-8")
    [found] = search_files(Workspace({"docs": tmp_path}), query)["results"]
    assert (found["path"], found["line"]) == (wanted, 3)
    assert texts[wanted.removesuffix(".md")] in found["text"], "an excerpt is not folded"


def test_letters_that_do_not_stand_together_are_not_found(tmp_path):
    (tmp_path / "chinese.md").write_text("请保留收据", encoding="utf-8")
    assert search_files(Workspace({"docs": tmp_path}), "据请")["results"] == []


def test_the_newest_of_many_files_is_searched(tmp_path, monkeypatch):
    """More files than are read, in the order in which the folder has them."""
    monkeypatch.setattr(searching, "MAX_FILES", 50)
    for number in range(300):
        (tmp_path / f"{number}.txt").write_text("old")
        os.utime(tmp_path / f"{number}.txt", (number, number))
    last = [entry.name for entry in os.scandir(tmp_path)][-1]
    (tmp_path / last).write_text("needle")
    found = search_files(Workspace({"docs": tmp_path}), "needle")
    assert [one["path"] for one in found["results"]] == [last]
    assert (found["searched"], found["truncated"]) == (50, True)


def test_the_newest_files_of_all_folders_are_read_first(tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "MAX_BLOCKS", 1)
    for name, at in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text("needle")
        os.utime(tmp_path / name / "file.txt", (at, at))
    found = search_files(Workspace({"a": tmp_path / "a", "b": tmp_path / "b"}), "needle")
    assert [one["path"] for one in found["results"]] == ["b/file.txt"]


def test_the_newest_file_is_found_once_a_folder_was_looked_through_in_the_background(tmp_path, monkeypatch):
    """There is no time to look at a single name, as on a disk that is busy: the first search says so."""
    monkeypatch.setattr(searching, "FOLDERS", searching.KnownFolders())
    monkeypatch.setattr(searching, "LISTED", -1)
    monkeypatch.setattr(searching, "READING_S", 60)
    monkeypatch.setattr(searching, "MAX_FILES", 50)
    (tmp_path / "below").mkdir()
    for number in range(300):
        (tmp_path / f"{number}.txt").write_text("old")
        os.utime(tmp_path / f"{number}.txt", (number, number))
    (tmp_path / "below" / "newest.txt").write_text("needle")
    workspace = Workspace({"docs": tmp_path})

    first = search_files(workspace, "needle")
    searching.FOLDERS.at_work.join(60)
    second = search_files(workspace, "needle")

    assert (first["results"], first["truncated"]) == ([], True)
    assert [one["path"] for one in second["results"]] == ["below/newest.txt"]
    assert (second["searched"], second["truncated"]) == (50, True)


def test_what_was_looked_through_is_opened_and_checked_like_every_file(tmp_path, monkeypatch):
    """Between two searches a file is deleted and another becomes a link out of the folder."""
    monkeypatch.setattr(searching, "FOLDERS", searching.KnownFolders())
    monkeypatch.setattr(searching, "LISTED", -1)
    monkeypatch.setattr(searching, "READING_S", 60)
    shared, private = tmp_path / "shared", tmp_path / "private.txt"
    shared.mkdir()
    private.write_text("needle")
    for name in ("gone.txt", "linked.txt", "kept.txt"):
        (shared / name).write_text("needle")
    workspace = Workspace({"docs": shared})
    search_files(workspace, "needle")
    searching.FOLDERS.at_work.join(60)
    (shared / "gone.txt").unlink()
    (shared / "linked.txt").unlink()
    (shared / "linked.txt").symlink_to(private)

    assert [one["path"] for one in search_files(workspace, "needle")["results"]] == ["kept.txt"]


def test_two_folders_do_not_share_what_was_looked_through(tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "FOLDERS", searching.KnownFolders())
    monkeypatch.setattr(searching, "LISTED", -1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("needle")
    search_files(Workspace({"docs": tmp_path / "a"}), "needle")
    searching.FOLDERS.at_work.join(60)

    assert search_files(Workspace({"docs": tmp_path / "b"}), "needle")["results"] == []
