"""Why an HTTP request failed, in words for the people who read errors: `ConnectError` tells them nothing."""

import httpx2

from plumbing.http import outbound

# The first that fits counts, so a class stands before those that it extends.
REASONS: tuple[tuple[type[Exception], str], ...] = (
    (httpx2.InvalidURL, "its address is not valid"),
    (httpx2.UnsupportedProtocol, "its address is not valid"),
    (outbound.OverTime, "the time limit has passed"),
    (httpx2.ConnectTimeout, "it accepts no connection in time"),
    (httpx2.TimeoutException, "it does not answer in time"),
    (httpx2.ConnectError, "no connection can be made"),
    (httpx2.NetworkError, "the connection broke"),
    (httpx2.ProtocolError, "its answer is not valid HTTP, or the connection broke"),
    (httpx2.TooManyRedirects, "it redirects too often"),
    (httpx2.DecodingError, "its answer is compressed in a way that cannot be read"),
    (OSError, "the connection broke"),
)


def describe_failure(error: Exception) -> str:
    """The reason as the end of a sentence, without a full stop."""
    for kind, reason in REASONS:
        if isinstance(error, kind):
            return reason
    return "the request failed"
