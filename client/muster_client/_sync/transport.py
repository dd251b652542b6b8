# Generated from _async/transport.py by client/generate.py: change that file, then run `make reference`.
"""Sends requests, repeats those that may be repeated, and turns refusals into errors."""

from __future__ import annotations

import time
from typing import Any

import httpx

from .._version import __version__
from ..config import Settings
from ..errors import APIConnectionError, APIError, APITimeoutError, build_api_error
from ..requests import Request
from ..retries import Retries

CONNECT_S = 10.0
# The server sends one every 15 seconds.
HEARTBEATS_S = 45.0


class Transport:
    """One connection pool with the server's address and key. Redirects are not followed."""

    def __init__(
        self, settings: Settings, *, timeout: float, retries: Retries, http: httpx.Client | None = None
    ) -> None:
        self.settings = settings
        self.timeout = timeout
        self.retries = retries
        self.http = http or httpx.Client()

    def close(self) -> None:
        self.http.close()

    def json(self, request: Request) -> Any:
        """The body of the answer; None if there is none."""
        response = self.send(request)
        if response.status_code == 204 or not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise APIConnectionError(f"The answer of {self.settings.url} is not JSON; is this a Muster?") from None

    def send(self, request: Request) -> httpx.Response:
        """The answer, read whole. Raises APIError, APIConnectionError."""
        return self.attempts(request, stream=False)

    def open_stream(self, request: Request) -> httpx.Response:
        """An event stream whose head has arrived; the caller closes it. The body may be empty (204)."""
        return self.attempts(request, stream=True)

    def attempts(self, request: Request, *, stream: bool) -> httpx.Response:
        """Send it, and again if it did not arrive or the server was busy, as `retries` allows."""
        attempt = 0
        while True:
            built = self.build(request, stream=stream)
            try:
                response = self.http.send(built, stream=stream, follow_redirects=False)
                if response.is_success:
                    return response
                # A refusal is short, and its text says why.
                response.read()
                response.close()
            except httpx.TransportError as error:
                pause = self.retries.after_error(error, attempt, repeatable=request.is_repeatable)
                if pause is None:
                    raise self.unreachable(error) from error
            else:
                if attempt and request.method == "DELETE" and response.status_code == 404:
                    # An earlier attempt deleted it, and its answer was lost.
                    return response
                status, headers = response.status_code, response.headers
                pause = self.retries.after_answer(status, headers, attempt, repeatable=request.is_repeatable)
                if pause is None:
                    raise build_refusal(response)
            attempt += 1
            time.sleep(pause)

    def build(self, request: Request, *, stream: bool) -> httpx.Request:
        wait = request.timeout or self.timeout
        # A stream may last for hours, but it is never silent for long.
        read = HEARTBEATS_S if stream else wait
        # The key stands in each request and not in the pool, which the caller may share with other servers.
        return self.http.build_request(
            request.method,
            f"{self.settings.url}/api/v1/{request.path}",
            params={name: value for name, value in request.params.items() if value is not None},
            json=request.json,
            data=request.form,
            files=request.files,
            headers={
                "Accept": "text/event-stream" if stream else "application/json",
                "Authorization": f"Bearer {self.settings.api_key}",
                "User-Agent": f"muster-client/{__version__}",
                **request.headers,
            },
            timeout=httpx.Timeout(read, connect=min(read, CONNECT_S)),
        )

    def unreachable(self, error: httpx.TransportError) -> APIConnectionError:
        if isinstance(error, httpx.TimeoutException):
            return APITimeoutError(f"{self.settings.url} did not answer in time.")
        return APIConnectionError(f"{self.settings.url} cannot be reached: {error or type(error).__name__}.")


def build_refusal(response: httpx.Response) -> APIError:
    """The error for an answer; a proxy in between may have written it, which knows nothing of our JSON."""
    try:
        body = response.json()
    except ValueError:
        body = None
    return build_api_error(response.status_code, body, response.headers)
