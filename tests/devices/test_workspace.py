"""A corpus of ways out of a shared folder. Nothing outside may be read, named or stat'ed."""

import os
import socket
import threading
import unicodedata
from pathlib import Path

import pytest

from devices.client.exceptions import ToolRefused
from devices.client.tools.filesystem import get_file_metadata, list_directory, read_file_content
from devices.client.workspace import Workspace

SECRET = "the secret outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    root = tmp_path / "root"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("inside")
    (root / "sub" / "b.txt").write_text("below")
    links = {
        "to_secret": outside / "secret.txt",
        "to_outside": outside,
        "relative_out": Path("../outside/secret.txt"),
        "sub/relative_out": Path("../../outside/secret.txt"),
        "to_parent": Path(".."),
        "to_slash": Path("/"),
        "loop": Path("loop"),
        "ring_a": Path("ring_b"),
        "ring_b": Path("ring_a"),
        "inside": Path("sub/b.txt"),
        "inside_absolute": root / "a.txt",
        "inside_up": Path("sub/deep/../b.txt"),
        "out_and_in": Path("../root/a.txt"),
        "prefix_twin": tmp_path / "root-twin",
        "dangling": Path("nowhere"),
        "chain": Path("to_outside"),
    }
    (tmp_path / "root-twin").mkdir()
    (tmp_path / "root-twin" / "t.txt").write_text(SECRET)
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace({"root": root})


ESCAPES = [
    "..",
    "../outside/secret.txt",
    "sub/../../outside/secret.txt",
    "sub/../a.txt",
    "./../outside",
    "/etc/passwd",
    "//etc/passwd",
    "~/.ssh/id_rsa",
    "~root",
    "C:\\Windows",
    "c:/windows",
    "\\\\server\\share",
    "\x00",
    "a.txt\x00.pdf",
    "x/" * 200,
    "a" * 5000,
    "to_secret",
    "to_outside",
    "to_outside/secret.txt",
    "relative_out",
    "sub/relative_out",
    "to_parent",
    "to_parent/outside/secret.txt",
    "to_slash",
    "to_slash/etc/passwd",
    "loop",
    "ring_a",
    "out_and_in",
    "prefix_twin/t.txt",
    "chain/secret.txt",
    "../root/a.txt",
    "..%2f..%2fetc",
    "sub/deep/to_parent/../../../outside/secret.txt",
]


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("tool", [read_file_content, get_file_metadata, list_directory])
def test_no_path_leads_out(workspace, tool, path):
    with pytest.raises(ToolRefused) as refusal:
        tool(workspace, path=path)
    assert refusal.value.code in ("outside", "not_found")
    assert SECRET not in str(refusal.value)


def test_links_that_stay_inside_are_followed(workspace):
    for path in ("inside", "inside_up"):
        assert read_file_content(workspace, path)["text"] == "below"
    assert read_file_content(workspace, "inside_absolute")["text"] == "inside"


def test_a_link_to_nothing_is_not_found(workspace):
    with pytest.raises(ToolRefused) as refusal:
        read_file_content(workspace, "dangling")
    assert refusal.value.code == "not_found"


def test_pipes_sockets_and_device_files_are_refused_without_waiting(workspace, root):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(root / "s"))
        for name in ("pipe", "s"):
            with pytest.raises(ToolRefused) as refusal:
                read_file_content(workspace, name)
            assert refusal.value.code == "not_a_file"
    (root / "zero").symlink_to("/dev/zero")
    with pytest.raises(ToolRefused):
        read_file_content(workspace, "zero")


def test_a_link_swapped_in_while_we_look_leads_nowhere(workspace, root, tmp_path):
    """One thread swaps a folder for a link to the outside as fast as it can; no read ever shows the secret."""
    (root / "swap").mkdir()
    (root / "swap" / "secret.txt").write_text("harmless")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "swap").rename(root / "real")
            (root / "swap").symlink_to(tmp_path / "outside")
            (root / "swap").unlink()
            (root / "real").rename(root / "swap")

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                seen.add(read_file_content(workspace, "swap/secret.txt")["text"])
            except ToolRefused:
                seen.add("refused")
    finally:
        stop.set()
        swapping.join()
    assert SECRET not in seen
    assert seen <= {"harmless", "refused"}


@pytest.mark.parametrize("path", ["a.txt", "root/a.txt", "./root/./a.txt", "root/inside"])
def test_the_name_of_the_only_root_may_begin_a_path(workspace, path):
    assert read_file_content(workspace, path)["text"] in ("inside", "below")


def test_a_listing_below_the_root_s_name_gives_paths_that_can_be_read(workspace):
    for path in ("root", "root/sub"):
        entries = list_directory(workspace, path)["entries"]
        files = [entry["path"] for entry in entries if entry["type"] == "file"]
        assert files and all(read_file_content(workspace, file)["path"] == file for file in files)
    assert [entry["path"] for entry in list_directory(workspace, "root/sub")["entries"] if entry["type"] == "file"] == [
        "root/sub/b.txt"
    ]


def test_a_folder_inside_the_root_with_its_name_comes_first(workspace, root):
    (root / "root").mkdir()
    (root / "root" / "a.txt").write_text("the inner one")
    assert read_file_content(workspace, "root/a.txt")["text"] == "the inner one"
    assert read_file_content(workspace, "root/sub/b.txt")["text"] == "below", "not inside: the root itself is meant"


@pytest.mark.parametrize("path", [f"root/{path}" for path in ("to_secret", "to_outside", "relative_out", "ring_a")])
def test_the_root_s_name_leads_out_as_little(workspace, path):
    for tool in (read_file_content, get_file_metadata, list_directory):
        with pytest.raises(ToolRefused) as refused:
            tool(workspace, path)
        assert refused.value.code == "outside"


def test_with_several_roots_a_path_begins_with_the_name_of_one(root, tmp_path):
    workspace = Workspace({"docs": root, "other": tmp_path / "root-twin"})
    assert [entry["path"] for entry in list_directory(workspace)["entries"]] == ["docs", "other"]
    assert read_file_content(workspace, "docs/a.txt")["text"] == "inside"
    for path in ("a.txt", "outside/secret.txt", "docs/../other/t.txt", "docs/prefix_twin/t.txt"):
        with pytest.raises(ToolRefused):
            read_file_content(workspace, path)


def test_a_listing_does_not_follow_links(workspace):
    entries = list_directory(workspace, recursive=True)["entries"]
    assert all("secret" not in entry["path"] or entry["path"] == "to_secret" for entry in entries)
    assert {entry["type"] for entry in entries if entry["path"] == "to_outside"} == {"link"}


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_a_name_is_found_with_composed_and_decomposed_letters(stored, asked, tmp_path):
    folder = tmp_path / unicodedata.normalize(stored, "Entwürfe")
    folder.mkdir()
    (folder / unicodedata.normalize(stored, "Café.txt")).write_text("espresso")
    with Workspace({"docs": tmp_path}).open(unicodedata.normalize(asked, "Entwürfe/Café.txt")) as opened:
        assert os.pread(opened.fd, 100, 0) == b"espresso"


def test_a_missing_name_is_refused_as_it_was_asked_for(tmp_path):
    with pytest.raises(ToolRefused, match="there is no “Café.txt”"), Workspace({"docs": tmp_path}).open("Café.txt"):
        pass


ODD_NAMES = [
    "~notes.txt",
    "~",
    "a:b.txt",
    "C:",
    "\\share.txt",
    "a\\b.txt",
    "...",
    " ",
    "-rf",
    "%2e%2e",
    "new\nline",
    "“”",
]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("folder", ["", "sub/"])
def test_a_name_that_is_listed_can_be_read(name, folder, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / folder / name).write_text("odd")
    workspace = Workspace({"docs": tmp_path})
    paths = [entry["path"] for entry in list_directory(workspace, recursive=True)["entries"]]
    assert folder + name in paths
    assert read_file_content(workspace, folder + name)["text"] == "odd"
    assert get_file_metadata(workspace, folder + name)["size"] == 3


@pytest.mark.parametrize(
    "path", ["~/report.txt", "~someone", "C:\\Users\\report.txt", "d:/report.txt", "\\\\host\\share"]
)
def test_a_path_of_a_shell_or_of_windows_is_told_that_paths_are_relative(path, tmp_path):
    with pytest.raises(ToolRefused, match="relative to the shared folder") as refusal:
        read_file_content(Workspace({"docs": tmp_path}), path)
    assert refusal.value.code == "outside"


def test_a_path_with_backslashes_is_told_about_slashes(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").touch()
    with pytest.raises(ToolRefused, match="separated by “/”"):
        read_file_content(Workspace({"docs": tmp_path}), "sub\\a.txt")


@pytest.mark.parametrize("path", ["\ud800.txt", "\udcff.txt", "sub/\ud83d", "a" * 256, "ü" * 200])
def test_a_name_that_no_file_can_have_is_refused(path, tmp_path):
    with pytest.raises(ToolRefused) as refusal:
        read_file_content(Workspace({"docs": tmp_path}), path)
    assert refusal.value.code in ("not_found", "unreadable")


def test_a_name_of_some_composed_and_some_decomposed_letters_is_found(tmp_path):
    mixed = "Café " + unicodedata.normalize("NFD", "Übersicht") + " é.txt"
    (tmp_path / mixed).write_text("espresso")
    for form in ("NFC", "NFD"):
        assert (
            read_file_content(Workspace({"docs": tmp_path}), unicodedata.normalize(form, mixed))["text"] == "espresso"
        )


def test_names_that_differ_in_case_alone_are_two_files(tmp_path):
    (tmp_path / "a.txt").write_text("small")
    (tmp_path / "A.txt").write_text("large")
    workspace = Workspace({"docs": tmp_path})
    assert [read_file_content(workspace, name)["text"] for name in ("a.txt", "A.txt")] == ["small", "large"]
