"""Answers of views that wait: the request's thread is given back until there is something to answer.

    with WAITS.take(request.user.pk) as place:
        …
        return answer_later(self, End(run.pk, seconds, place), lambda ended: Response(…))

`config/handler.py` awaits the end on the event loop, then calls the function on a thread. Without an event
loop (Django's test client) `answer_later` waits on its thread.
"""

from collections.abc import Callable
from contextvars import Context, copy_context
from time import monotonic
from typing import Any, Protocol

from django.core.handlers.exception import response_for_exception
from django.http import HttpResponse, HttpResponseBase
from django.http.response import ResponseHeaders
from rest_framework.response import Response

from .authentication import NotRecognised
from .credential_checks import EVERY_S, CredentialCheck

# Headers of an answer without content.
NOT_HANDED_ON = ("Content-Length", "Content-Type")


class Awaited(Protocol):
    """What is waited for: on this thread by `wait`, on the event loop by `come`, until `place` is dismissed."""

    @property
    def place(self) -> Any: ...
    def wait(self) -> Any: ...
    async def come(self) -> Any: ...


Finish = Callable[[Any], Response]


def answer_later(view: Any, awaited: Awaited, finish: Finish) -> HttpResponseBase:
    """The answer `finish(outcome)`, where `outcome` is what `awaited` brings, or None if the wait ended first. After a
    long wait the caller's key or login is checked again.
    """
    finish = check_standing(view, finish)
    if not getattr(view.request, "may_answer_later", False):
        return finish(awaited.wait())
    return Later(view, awaited, finish)


def check_standing(view: Any, finish: Finish) -> Finish:
    standing = CredentialCheck.of(view.request.auth, getattr(view.request, "session", None))
    began = monotonic()

    def answer(outcome: Any) -> Response:
        if monotonic() - began >= EVERY_S and not standing.is_good():
            raise NotRecognised(
                "Your key or your login became invalid while you waited.",
                hint="Sign in again or use another key to read the answer.",
            )
        return finish(outcome)

    return answer


class Later(HttpResponse):
    """A response that is completed later. Middleware adds its headers to this object."""

    def __init__(self, view: Any, awaited: Awaited, finish: Finish) -> None:
        super().__init__()
        self.view = view
        self.awaited = awaited
        self.finish = finish
        # The request's id in the logs.
        self.context: Context = copy_context()
        self.observers: list[Callable[[HttpResponseBase], None]] = []
        match = view.request._request.resolver_match
        if match is not None:
            # Every route that did not match: a third of what a waiting caller would hold.
            match.tried = None
        self._resource_closers.append(awaited.place.keep())  # type: ignore[attr-defined]
        # The headers that middleware added.
        self.added: tuple[tuple[str, str], ...] = ()

    def rest(self) -> None:
        """All middleware has seen it: thousands may wait, so their headers are kept in the smallest form."""
        self.added = tuple(self.items())
        self.headers = ResponseHeaders({})

    def complete(self, outcome: Any) -> HttpResponseBase:
        """The real answer, from any thread; it is closed in place of this one."""
        return self.context.run(self.completed, outcome)

    def completed(self, outcome: Any) -> HttpResponseBase:
        view = self.view
        try:
            try:
                response = self.finish(outcome)
            except Exception as error:
                response = view.handle_exception(error)
            answer: Any = view.finalize_response(view.request, response).render()
        except Exception as error:
            answer = response_for_exception(view.request._request, error)
        for name, value in (*self.added, *self.items()):
            if name not in NOT_HANDED_ON:
                answer.headers.setdefault(name, value)
        answer.headers["Content-Length"] = str(len(answer.content))
        answer.cookies.update(self.cookies)
        answer._resource_closers += self._resource_closers  # type: ignore[attr-defined]
        for observe in self.observers:
            observe(answer)
        return answer
