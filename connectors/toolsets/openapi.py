"""HTTP operations as tools: imported from a document, called only at the hosts that it names, with a
secret by name.
"""

import json
import logging
from collections.abc import Iterator
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings

from agents.exceptions import Invalid
from agents.models import Tool
from agents.schema import drop_unusable_patterns
from agents.tools import OutcomeUnknown, ToolCall, ToolContext, ToolError, ToolResult, ToolSpec
from connectors.accounts.http import retry_after
from connectors.content import cut_marked_text, decode
from connectors.exceptions import Throttled, build_throttled_wait, build_tool_failure
from connectors.models import Connection, RemoteTool
from connectors.remote import Listing, Offered, compare_offered_tools, forget_approvals, secret_header, take_offers
from connectors.timing import seconds_left
from plumbing.http import outbound
from plumbing.http.failures import describe_failure
from plumbing.untrusted import parse_in_child
from plumbing.untrusted.openapi import MAX_TEXT

from .mcp import load_tool_source
from .openapi_requests import build_request

log = logging.getLogger(__name__)
# Bytes of one answer.
ANSWER_LIMIT = 1024 * 1024
TEXT_LIMIT = 200_000
FETCH_S = 20.0
CHECK_S = 10.0
JSON = Any


def import_document(
    connection: Connection,
    *,
    by: Any,
    text: str = "",
    url: str = "",
    base_url: str = "",
    only: list[str] | None = None,
    effects: dict[str, str] | None = None,
) -> Listing:
    """Bring a document's operations into the catalogue. The first import approves them, with `effects` (by
    operation) in place of those that the methods suggest; what changes later is switched off until it is
    approved. Raises Invalid.
    """
    document = text or fetch_openapi_text(url)
    where, operations = parse_openapi_document(document, only, base_url or connection.base_url, url)
    offers = list(operations)
    names = {offered.name for offered in offers}
    unknown = (effects or {}).keys() - names
    if unknown:
        raise Invalid(f"The document has no operation “{min(unknown)[:256]}”.", code="unknown_operation")
    if where != connection.base_url:
        save_server_address(connection, where)
    return take_offers(connection, offers, kind=Tool.Kind.HTTP, by=by, effects=effects)


def preview_document(
    connection: Connection, *, text: str = "", url: str = "", base_url: str = "", only: list[str] | None = None
) -> dict[str, Any]:
    """{"base_url", "usable", "total", "operations"}: what an import would bring, with the effect of each, and why
    some cannot become tools. Stores nothing. Raises Invalid.
    """
    document = text or fetch_openapi_text(url)
    where, offers = parse_openapi_document(document, only, base_url or connection.base_url, url)
    operations = compare_offered_tools(connection, offers)
    usable = sum(one["state"] != "refused" for one in operations)
    return {"base_url": where, "usable": usable, "total": len(operations), "operations": operations}


def parse_openapi_document(
    text: str, only: list[str] | None = None, base_url: str = "", found_at: str = ""
) -> tuple[str, Iterator[Offered]]:
    """The base address and the operations (or the named ones) of a document. Raises Invalid."""
    if len(text) > MAX_TEXT:
        raise Invalid(f"The document is longer than {MAX_TEXT} characters.", code="too_large")
    try:
        facts = parse_in_child.run_reader_task("openapi", text, only, base_url, found_at)
    except parse_in_child.Refused as error:
        raise Invalid(str(error), code=error.code or "malformed_document", hint=error.hint)
    except parse_in_child.TooMuch:
        hint = "Send it as JSON, or leave out what is not needed."
        raise Invalid("The document takes too long to read.", code="too_large", hint=hint)
    return facts["base_url"], map(read_offer, facts["operations"])


def read_offer(text: str) -> Offered:
    """One operation, which the reader's process describes as JSON."""
    facts = json.loads(text)
    facts["input_schema"] = drop_unusable_patterns(facts["input_schema"])
    return Offered(**facts, output_schema=None)


def save_server_address(connection: Connection, where: str) -> None:
    """Neither the secret nor the approvals of an earlier server are kept."""
    if connection.base_url:
        connection.secret_name = ""
        forget_approvals(connection)
    connection.base_url = where
    connection.save(update_fields=["base_url", "secret_name", "updated_at"])


def check_service(connection: Connection) -> None:
    """Ask whether the service answers at its address: any status will do. The secret is not sent, and without an
    import there is no address to ask. Raises ToolError.
    """
    if not connection.base_url:
        return
    try:
        with (
            outbound.until(CHECK_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
            client.stream("GET", connection.base_url),
        ):
            connection.mark_ok()
    except outbound.AddressRefused as error:
        raise mark_unreachable(connection, "private_address", str(error))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise mark_unreachable(
            connection, "service_unavailable", f"The server cannot be reached: {describe_failure(error)}."
        )


def mark_unreachable(connection: Connection, code: str, message: str) -> ToolError:
    connection.mark_broken(message)
    return build_tool_failure(code, message)


def fetch_openapi_text(url: str) -> str:
    try:
        with (
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED, follow_redirects=True) as client,
            outbound.until(FETCH_S),
            client.stream("GET", url) as response,
        ):
            if response.status_code != 200:
                raise Invalid(f"The document's address answered {response.status_code}.", code="document_missing")
            body = outbound.read_body(response, MAX_TEXT)
            return body.decode("utf-8", "replace")
    except outbound.AddressRefused as error:
        raise Invalid(str(error), code="document_missing")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        log.info("An OpenAPI document cannot be fetched: %r", error)
        raise Invalid("The document cannot be fetched: its address does not answer.", code="document_missing")


class HttpToolset:
    """Executes tools of kind http."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        connection, remote = load_tool_source(tool, context.user_id)
        self.check_pin(tool, remote)
        started = monotonic()
        error = ""
        try:
            with outbound.until(seconds_left(tool, context)):
                result = self.exchange(tool, connection, remote, call, context.user_id)
            if not result.ok:
                error = str(result.error)
            return result
        except Throttled as problem:
            error = str(problem)
            raise build_throttled_wait(problem, context)
        except ToolError as problem:
            error = str(problem)
            raise
        finally:
            remote.count((monotonic() - started) * 1000, error)

    def check_pin(self, tool: ToolSpec, remote: RemoteTool) -> None:
        is_pinned = remote.is_offered and not remote.is_changed and remote.pinned_hash == tool.source.get("pin")
        if not is_pinned:
            raise build_tool_failure("definition_changed", f"“{tool.name}” has changed; a user must approve it again.")
        # An import of before 27 November 2026 does not say how each parameter is written.
        if "parameters" not in remote.offered["details"]:
            raise build_tool_failure(
                "definition_changed",
                f"An earlier version of Muster imported “{tool.name}”: import the document again and approve it.",
            )

    def exchange(
        self, tool: ToolSpec, connection: Connection, remote: RemoteTool, call: ToolCall, user_id: int
    ) -> ToolResult:
        details = remote.offered["details"]
        address = details.get("server") or connection.base_url
        request = build_request(address, details, call.arguments)
        host = urlsplit(address).hostname or ""
        try:
            headers = secret_header(connection, user_id, host)
        except Invalid as error:
            raise build_tool_failure(error.code, f"{error} {error.hint}".strip())
        request["headers"] |= headers
        try:
            with (
                outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
                client.stream(details["method"], **request) as response,
            ):
                body = outbound.read_body(response, ANSWER_LIMIT)
        except outbound.AddressRefused as error:
            raise build_tool_failure("private_address", str(error))
        except outbound.TooMuch as error:
            raise build_tool_failure("too_large", f"{connection.name}: {error}")
        except httpx2.HTTPError as error:
            raise broken(connection, tool, error)
        connection.mark_ok()
        if response.status_code == 429:
            wait = retry_after(response.headers)
            if wait:
                raise Throttled(connection.name, wait)
        return build_service_result(response, body)


def broken(connection: Connection, tool: ToolSpec, error: httpx2.HTTPError) -> ToolError:
    """A request that may have arrived is not repeated."""
    connection.mark_broken("The server cannot be reached.")
    never_sent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
    if never_sent or tool.is_repeatable:
        code = "timeout" if isinstance(error, httpx2.TimeoutException) else "service_unavailable"
        return build_tool_failure(code, f"{connection.name} cannot be reached: {describe_failure(error)}.")
    return OutcomeUnknown(
        f"{connection.name} closed the connection; it is unknown whether the request was carried out."
    )


def build_service_result(response: httpx2.Response, body: bytes) -> ToolResult:
    """JSON as it is, else text; an error of the service becomes the tool's error, with its message."""
    text = ""
    if is_text_response(response):
        whole_text = decode(body, response.charset_encoding or "")
        text, _, _ = cut_marked_text(whole_text, TEXT_LIMIT)
    status = response.status_code
    if status >= 300:
        message = f"the service answered {status}: {text[:1000]}"
        return ToolResult(ok=False, error={"code": "http_error", "status": status, "message": message}, untrusted=True)
    content = parse_service_body(response, body, text)
    return ToolResult(ok=True, value={"status": status, "body": content}, untrusted=True)


def parse_service_body(response: httpx2.Response, body: bytes, text: str) -> JSON:
    kind = response.headers.get("content-type", "unknown content")
    # The beginning of a long JSON text is no JSON.
    if "json" in response.headers.get("content-type", "") and len(text) < TEXT_LIMIT:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return text
    if is_text_response(response):
        return text
    return f"[left out: {kind}, {len(body)} bytes]"


def is_text_response(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "text/plain")
    if kind.startswith("text/"):
        return True
    return any(word in kind for word in ("json", "xml", "javascript", "urlencoded"))
