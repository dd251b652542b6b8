"""Crontab lines in words."""

import pytest

from runs.rules.crontab_words import describe_crontab


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 9 * * 1-5", "At 09:00, Monday through Friday"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 0 29 2 *", "At 00:00, on day 29 of the month, only in February"),
        ("not a line", "not a line"),
    ],
)
def test_a_line_in_words(line, words):
    assert describe_crontab(line) == words


def test_a_line_in_words_of_the_page():
    assert describe_crontab("0 9 * * 1-5", "de") == "Um 09:00, Montag bis Freitag"
    assert describe_crontab("*/5 * * * *", "fr") == "Every 5 minutes", "there are no pages in this language"
