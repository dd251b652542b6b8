"""Serves each HTTP request whole on one thread of a pool.

Django's own ASGI handler hops between the event loop and a new thread for every middleware and view, and opens a
database connection for each request. Our views are synchronous, so one hop is enough, and a thread keeps its
connection. Only what streams comes back to the event loop. (docs/adr/0031)
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpResponse, HttpResponseBase
from django.urls import set_script_prefix

SPARE_THREADS = 64  # beside those that wait for a run


class ThreadedHandler(ASGIHandler):
    def __init__(self) -> None:
        BaseHandler.__init__(self)  # not ASGIHandler's: it would load the middleware for the other mode
        self.load_middleware(is_async=False)
        self.threads = ThreadPoolExecutor(settings.MAX_WAITS + SPARE_THREADS, thread_name_prefix="web")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop = asyncio.get_running_loop()
        response = await loop.run_in_executor(self.threads, self.answer, scope, body)
        if response.streaming:
            try:
                await self.stream(response, receive, send)
            finally:
                response.close()  # here: a thousand streams that end together would take a thread each
        else:
            await self.send_response(response, send)

    def answer(self, scope: Any, body: Any) -> HttpResponseBase:
        """The response of one request, complete but for an asynchronous stream. Leaves no connection behind."""
        signals.request_started.send(sender=self.__class__, scope=scope)
        set_script_prefix(get_script_prefix(scope))
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        body.close()
        if response.streaming and not response.is_async:
            response = gathered(response)
        if response.streaming:
            close_old_connections()  # the stream may last for hours
        else:
            response.close()
        return response

    async def stream(self, response: Any, receive: Any, send: Any) -> None:
        """Send until the end or until the reader is gone; then the generator is cancelled."""
        async with ThreadSensitiveContext():  # else the database reads of all streams would share one thread
            sending = asyncio.ensure_future(self.send_response(response, send))
            leaving = asyncio.ensure_future(receive())
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:  # also where the server cancels us, which would leave both at work
                sending.cancel()
                leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.done() and not sending.cancelled() and (error := sending.exception()):
            raise error


def gathered(response: Any) -> HttpResponse:
    """A file or another synchronous stream, read on this thread."""
    parts: Iterable[bytes] = response.streaming_content
    whole = HttpResponse(b"".join(parts), status=response.status_code, headers=dict(response.items()))
    whole.cookies = response.cookies
    response.close()
    return whole
