"""Failures of requests are told in words, never by the names of exceptions."""

import httpx2
import pytest

from plumbing.http import outbound
from plumbing.http.failures import describe_failure


def all_below(kind):
    return {kind}.union(*map(all_below, kind.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(all_below(httpx2.RequestError), key=str))
def test_every_failure_of_a_request_has_words(kind):
    told = describe_failure(kind("boom"))
    assert " " in told and kind.__name__ not in told and "boom" not in told


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (outbound.OverTime("x"), "the time limit has passed"),
        (httpx2.ConnectTimeout("x"), "it accepts no connection in time"),
        (httpx2.ReadTimeout("x"), "it does not answer in time"),
        (httpx2.ConnectError("x"), "no connection can be made"),
        (httpx2.ReadError("x"), "the connection broke"),
        (httpx2.InvalidURL("x"), "its address is not valid"),
    ],
)
def test_the_closest_reason_is_told(error, words):
    assert describe_failure(error) == words
