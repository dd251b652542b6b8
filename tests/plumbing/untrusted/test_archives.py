"""Archives from users: read within limits, never outside their folder."""

import base64
import io
import stat
import struct
import tarfile
import zipfile

import pytest

from plumbing.untrusted import archives, parse_in_child
from tests.knowledge.skills.samples import tarred, whole, zipped


def refusal(content, folder=""):
    with pytest.raises(parse_in_child.Refused) as caught:
        archives.unpack_here(base64.b64encode(content).decode(), "SKILL.md", folder)
    return caught.value.code


def files(content, folder=""):
    name, found = archives.unpack_here(base64.b64encode(content).decode(), "SKILL.md", folder)
    return name, {path: base64.b64decode(data) for path, data in found}


@pytest.mark.parametrize(
    "content", [zipped(whole()), tarred((f"invoices/{path}", data) for path, data in whole().items())]
)
def test_the_files_come_out_byte_by_byte(content):
    assert files(content) == ("invoices", whole())


def test_what_machines_add_is_left_out():
    noise = {
        "__MACOSX/invoices/._SKILL.md": b"1",
        "invoices/.DS_Store": b"1",
        "invoices/scripts/__pycache__/a.pyc": b"1",
    }
    assert files(zipped(whole(), **noise)) == ("invoices", whole())


def test_one_of_several_is_chosen_by_its_folder():
    two = zipped(whole(), **{"repo/other/SKILL.md": b"x"})
    assert refusal(two) == "several_found"
    assert files(two, "other") == ("other", {"SKILL.md": b"x"}) and refusal(two, "third") == "nothing_found"


@pytest.mark.parametrize(
    "path", ["../SKILL.md", "/etc/SKILL.md", "a/../../SKILL.md", "C:/SKILL.md", "a\\SKILL.md", "a//SKILL.md", "a/\nb"]
)
def test_paths_that_lead_elsewhere_are_refused(path):
    assert refusal(zipped({"SKILL.md": b"1"}, "", **{path: b"1"})) == "bad_path"
    assert refusal(tarred([("SKILL.md", b"1"), (path, b"1")])) == "bad_path"


def test_links_and_devices_are_refused():
    link = zipfile.ZipInfo("SKILL.md")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert refusal(made.getvalue()) == "link"
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        info = tarfile.TarInfo("a")
        info.type, info.linkname = kind, "/etc/passwd"
        assert refusal(tarred([("SKILL.md", b"1"), (info, b"")])) == "link"


def test_bombs_are_refused_within_the_limits():
    assert refusal(zipped({"SKILL.md": b"1", "zeros": bytes(archives.MOST_BYTES)})) == "too_large"
    assert refusal(tarred([("SKILL.md", b"1"), ("zeros", bytes(archives.INFLATED))])) == "too_large"
    many = {f"{number}": b"" for number in range(archives.MOST_FILES)}
    assert refusal(zipped({"SKILL.md": b"1", **many})) == "too_many_files"


def test_a_size_that_lies_does_not_help():
    content = bytearray(zipped({"SKILL.md": b"1", "zeros": bytes(archives.MOST_BYTES + 10)}))
    for mark, place in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        at = content.rfind(mark)
        content[at + place : at + place + 4] = struct.pack("<I", 10)
    assert refusal(bytes(content)) in ("too_large", "broken_archive")


def test_the_same_path_twice_is_refused():
    assert refusal(tarred([("SKILL.md", b"1"), ("skill.MD", b"2")])) == "bad_path"
    assert refusal(tarred([("SKILL.md", b"1"), ("a", b"2"), ("a/b", b"2")])) == "bad_path"
    assert refusal(tarred([("SKILL.md", b"1"), ("SKILL.md", b"2")])) == "bad_path"


@pytest.mark.parametrize("content", [b"", b"PK\3\4 nothing", b"\x1f\x8b\x08nothing", b"plain", zipped(whole())[:900]])
def test_broken_archives_are_refused(content):
    assert refusal(content) in ("broken_archive", "nothing_found")


def test_an_encrypted_archive_is_refused():
    content = bytearray(zipped({"SKILL.md": b"1"}))
    content[content.rfind(b"PK\1\2") + 8] |= 1
    assert refusal(bytes(content)) == "encrypted"


def test_equal_files_give_equal_archives():
    assert archives.pack(whole()) == archives.pack(dict(reversed(whole().items())))
    assert archives.read_pack(archives.pack(whole())) == whole()
    assert archives.read_archive_file(archives.pack(whole()), "nothing") is None
