import pytest
from django.core.management import CommandError, call_command

from functions.importing import list_offered_functions
from functions.models import StoredFunction


def run(path, **options):
    call_command("import_functions", str(path), **options)


def test_a_folder_becomes_functions(alice, tmp_path, capsys):
    (tmp_path / "area.py").write_text(
        'import math\n\ndef _square(x):\n    return x * x\n\ndef circle(r: float) -> float:\n    """Area."""\n'
        "    return math.pi * _square(r)\n"
    )
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "words.py").write_text(
        "def clean(t):\n    return t.strip()\n\ndef shout(t: str):\n    return clean(t).upper()\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_area.py").write_text("def test(): ...\n")
    run(tmp_path, user="alice", publish=True)

    circle, shout = StoredFunction.objects.order_by("name")
    assert (circle.name, circle.allowed_imports, circle.description) == ("circle", ["math"], "Area.")
    assert (shout.name, shout.entry, shout.owner, shout.published.number) == ("shout", "shout", alice, 1)
    assert capsys.readouterr().out == "created circle v1\ncreated shout v1\n"


def test_importing_again_changes_what_changed(alice, tmp_path):
    file = tmp_path / "f.py"
    file.write_text("def f(a: int):\n    return a\n")
    run(file, user="alice")
    file.write_text("def f(b: int):\n    return b\n")
    run(file, user="alice")
    assert list(StoredFunction.objects.get().input_schema["properties"]) == ["b"]


def test_what_is_refused_is_told_with_its_line_and_the_others_are_stored(alice, tmp_path, capsys):
    (tmp_path / "bad.py").write_text("def bad():\n    import os\n    return os.name\n")
    (tmp_path / "broken.py").write_text("def broken(:\n")
    (tmp_path / "good.py").write_text("def good():\n    return 1\n")
    with pytest.raises(CommandError, match="2 refused"):
        run(tmp_path, user="alice")
    assert [row.name for row in StoredFunction.objects.all()] == ["good"]
    told = capsys.readouterr().err
    assert "bad.py:2: bad:" in told and "broken.py:1:" in told


def test_a_missing_path_says_so(db, tmp_path):
    with pytest.raises(CommandError, match="does not exist"):
        run(tmp_path / "nowhere")


def test_all_names_what_is_offered():
    source = "__all__ = ['b']\ndef a(): ...\ndef b(): ...\n"
    assert list_offered_functions(source) == ["b"]
    assert list_offered_functions("def a(): ...\ndef b(): return a()\ndef c(): ...\n") == ["b", "c"]
    assert list_offered_functions("def a(): return b()\ndef b(): return a()\n") == ["b"]
