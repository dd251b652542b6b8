"""What a model thinks, where its server sends it in the text of the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.llm.thinking import ThinkingSplitter

TABLE = [
    ("Hello.", "Hello.", ""),
    ("", "", ""),
    ("  Hello.\n", "  Hello.\n", ""),
    ("<think>hm</think>Hello.", "Hello.", "hm"),
    ("<think>\nhm\n</think>\n\nHello.", "Hello.", "hm"),
    ("\n <think>hm</think> Hello.", "Hello.", "hm"),
    ("<think></think>Hello.", "Hello.", ""),
    ("<THINK>hm</Think>Hello.", "Hello.", "hm"),
    ("<thinking>hm</thinking>Hello.", "Hello.", "hm"),
    ("<thought>hm</thought>Hello.", "Hello.", "hm"),
    ("[THINK]hm[/THINK]Hello.", "Hello.", "hm"),
    ("<seed:think>hm</seed:think>Hello.", "Hello.", "hm"),
    ("<think>a</think><think>b</think>Hello.", "Hello.", "ab"),
    ("<think>a<think>b</think>c</think>Hello.", "Hello.", "abc"),
    ("<think>one <think> too many</think>Hello.", "Hello.", "one  too many"),
    ("<think>never closed", "", "never closed"),
    ("<think>hm</think>", "", "hm"),
    ("<think>a < b </thin", "", "a < b </thin"),
    ("hm\n</think>\n\nHello.", "Hello.", "hm"),
    ("hm</think>\nHello.", "Hello.", "hm"),
    ('<think>{"sum": 1}</think>{"sum": 3}', '{"sum": 3}', '{"sum": 1}'),
    ("<think>hm</think><b>Hello.</b>", "<b>Hello.</b>", "hm"),
    ("<think>hm</think><", "<", "hm"),
    ("<", "<", ""),
    ("<thin", "<thin", ""),
    ("<thinly veiled>", "<thinly veiled>", ""),
    ("The tag <think> opens, </think> closes.", "The tag <think> opens, </think> closes.", ""),
    ("Write `</think>` at the end.", "Write `</think>` at the end.", ""),
    ("Do:\n```\n</think>\n```\nDone.", "Do:\n```\n</think>\n```\nDone.", ""),
    ("Write <think>\nhm\n</think>\nthere.", "Write <think>\nhm\n</think>\nthere.", ""),
]
# What a model whose template opens the block sends, once that is known.
OPEN = [
    ("hm\n</think>\n\nHello.", "Hello.", "hm"),
    ("hm</think>Hello </think>\n.", "Hello </think>\n.", "hm"),
    ("a<think>b</think>c</think>Hello.", "Hello.", "abc"),
    ("<think>hm</think>Hello.", "Hello.", "hm"),
    ("\n<think>\nhm</think>Hello.", "Hello.", "hm"),
    ("<think>never closed", "", "never closed"),
    ("Hello, there was nothing to think about.", "Hello, there was nothing to think about.", ""),
    ("  Hello.\n", "  Hello.\n", ""),
    ("", "", ""),
    ("</think>Hello.", "Hello.", ""),
]


@pytest.mark.parametrize(("text", "answer", "thoughts"), TABLE)
def test_thoughts_are_taken_out(text, answer, thoughts):
    splitter = ThinkingSplitter()
    splitter.add(text)
    assert splitter.finish() == (answer, thoughts)


@given(row=st.sampled_from(TABLE), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_it_does_not_matter_how_the_text_is_cut(row, sizes):
    text, answer, thoughts = row
    splitter, heard = ThinkingSplitter(), ""
    place = 0
    for size in sizes:
        heard += splitter.add(text[place : place + size])
        place += size
    heard += splitter.add(text[place:])
    assert splitter.finish() == (answer, thoughts)
    if "<think>" in text[:9].lower() and "many" not in text:
        assert heard in (answer, answer[:-1]), "nobody hears what the model thinks"


@given(row=st.sampled_from(OPEN), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_nobody_hears_the_thoughts_of_a_model_whose_template_opens_them(row, sizes):
    text, answer, thoughts = row
    splitter, heard, place = ThinkingSplitter(is_open=True), "", 0
    for size in sizes:
        heard += splitter.add(text[place : place + size])
        place += size
    heard += splitter.add(text[place:])
    assert splitter.finish() == (answer, thoughts)
    assert answer.startswith(heard)
    assert heard == answer or not thoughts


@pytest.mark.parametrize(("text", "answer", "thoughts"), TABLE)
def test_a_template_that_opens_the_block_is_noticed(text, answer, thoughts):
    splitter = ThinkingSplitter()
    splitter.add(text)
    splitter.finish()
    assert splitter.was_open == (bool(thoughts) and text.startswith("hm"))
