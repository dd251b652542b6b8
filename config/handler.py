"""Serves each HTTP request entirely on one thread of a pool.

Django's own ASGI handler switches between the event loop and a new thread for every middleware and
view, and opens a database connection per request. Our views are synchronous, so one switch is
enough, and a thread keeps its connection. Only what takes long returns to the event loop: streamed
answers, and waits (docs/adr/0031).
"""

import asyncio
import sys
from collections.abc import Iterable
from io import SEEK_END
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpResponse, HttpResponseBase
from django.urls import set_script_prefix

from agents.http.deferred_response import Later
from plumbing.idle_thread_pool import RestingThreads

from .shares import LargeAnswers, Threads, TooManyWaiting, too_many

THREADS = 64  # requests that are worked on at the same time; those that wait hold none
OF_ONE_PERSON = 16
# Seconds that a thread may compute while others wait for the interpreter. A small request gives it up ten times, and
# then waits for each thread that computes: with Python's 5 ms, sixteen of them make it wait for a second.
SWITCH_S = 0.001


class ThreadedHandler(ASGIHandler):
    def __init__(self) -> None:
        BaseHandler.__init__(self)  # not ASGIHandler's __init__: it would load the middleware for async mode
        self.load_middleware(is_async=False)
        sys.setswitchinterval(SWITCH_S)
        self.threads = RestingThreads(THREADS, "web")
        self.turns = Threads(OF_ONE_PERSON)
        self.shares = LargeAnswers()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop = asyncio.get_running_loop()
        try:
            async with self.turns.turn(scope), self.shares.turn(scope):
                response = await loop.run_in_executor(self.threads, self.answer, scope, body)
        except TooManyWaiting:
            body.close()
            response = too_many()
        if isinstance(response, Later):
            outcome, has_left = await self.wait(response, receive)
            if has_left:
                response.close()
                return
            response = await loop.run_in_executor(self.threads, self.complete, response, outcome)
        if response.streaming:
            try:
                await self.stream(response, receive, send)
            finally:
                response.close()  # here, since a thousand streams that end together would take a thread each
        else:
            size = len(response.content) if isinstance(response, HttpResponse) else 0
            with self.shares.sending(scope, size):
                await self.send_response(response, send)

    def answer(self, scope: Any, body: Any) -> HttpResponseBase:
        """The response of one request, complete except for an asynchronous stream. Returns its
        database connections.
        """
        scope = with_content_length(scope, body)
        signals.request_started.send(sender=self.__class__, scope=scope)
        set_script_prefix(get_script_prefix(scope))
        request, refusal = self.create_request(scope, body)
        if request is not None:
            request.may_answer_later = True  # type: ignore[attr-defined]
        response: Any = refusal if request is None else self.get_response(request)
        body.close()
        self.turns.remember(scope, request)
        if response.streaming and not response.is_async:
            response = join_parts(response)
        if not response.streaming and not isinstance(response, Later):
            self.shares.note(scope, request, len(response.content))
        if isinstance(response, Later):
            response.rest()
        if response.streaming or isinstance(response, Later):
            close_old_connections()  # it may last for hours
        else:
            response.close()
        return response

    async def wait(self, later: Later, receive: Any) -> tuple[Any, bool]:
        """(what the answer waits for, or None; whether the client has left)"""
        leaving = asyncio.ensure_future(receive())
        leaving.add_done_callback(lambda future: future.cancelled() or later.awaited.place.dismiss())
        try:
            outcome = await later.awaited.come()
        except asyncio.CancelledError:  # the server stops; the run goes on, as the answer says
            outcome = None
        has_left = leaving.done()
        leaving.cancel()
        return outcome, has_left

    def complete(self, later: Later, outcome: Any) -> HttpResponseBase:
        response = later.complete(outcome)
        response.close()
        return response

    async def stream(self, response: Any, receive: Any, send: Any) -> None:
        """Send until the end or until the client disconnects; then cancel the generator."""
        async with ThreadSensitiveContext():  # otherwise the database reads of all streams would share one thread
            sending = asyncio.ensure_future(self.send_response(response, send))
            leaving = asyncio.ensure_future(receive())
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:  # also when the server cancels this task, which would leave both running
                sending.cancel()
                leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.done() and not sending.cancelled() and (error := sending.exception()):
            raise error


def with_content_length(scope: Any, body: Any) -> Any:
    """The scope of a request whose body came in chunks, with the length that it turned out to have.

    Django's parsers take a request without a Content-Length for one without a body.
    """
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names or b"content-length" in names:
        return scope
    length = body.seek(0, SEEK_END)
    body.seek(0)
    headers = [(name, value) for name, value in scope["headers"] if name != b"transfer-encoding"]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def join_parts(response: Any) -> HttpResponse:
    """A file or another synchronous stream, read on this thread."""
    parts: Iterable[bytes] = response.streaming_content
    whole = HttpResponse(b"".join(parts), status=response.status_code, headers=dict(response.items()))
    whole.cookies = response.cookies
    response.close()
    return whole
