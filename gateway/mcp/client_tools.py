"""The built-in tools that the program of the person executes: MCP's sampling and roots.

A call of one waits as an input request of the kind `tool`, so programs of other protocols can answer it, too.
"""

from typing import Any

from runs.models import InputRequest

from .protocol import PARAMS, Fault, RpcRequest

JSON = Any
MODEL, FOLDERS = "ask_client_model", "list_client_folders"
NEEDS = {MODEL: "sampling", FOLDERS: "roots"}  # name of the tool → the client's capability
TOKENS = 1000
LONGEST = 200_000


def find_client_request(rpc: RpcRequest, row: InputRequest) -> dict[str, JSON] | None:
    """None for a tool that is not the client's, or that it does not offer."""
    if not rpc.can(NEEDS.get(row.name, "-")):
        return None
    if row.name == FOLDERS:
        return {"method": "roots/list"}
    arguments = row.arguments
    message = {"role": "user", "content": {"type": "text", "text": str(arguments.get("prompt", ""))}}
    system = {"systemPrompt": arguments["instructions"]} if arguments.get("instructions") else {}
    limit = arguments.get("max_tokens", TOKENS)
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": limit, **system}}


def parse_client_answer(row: InputRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    """The keywords of `runs.calls.inputs.answer_input_request`. Raises Fault."""
    if isinstance(refused := result.get("error"), dict):
        return {"error": {"code": "client_refused", "message": str(refused.get("message", "refused"))[:500]}}
    if row.name == FOLDERS:
        roots = result.get("roots")
        if not isinstance(roots, list) or not all(isinstance(one, dict) for one in roots):
            raise Fault(PARAMS, "The result of roots/list must have “roots”.")
        return {"value": [{"uri": str(one.get("uri", "")), "name": str(one.get("name", ""))} for one in roots[:1000]]}
    content = result.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if not texts:
        raise Fault(PARAMS, "The result of sampling/createMessage must have text as its content.")
    return {"value": "\n".join(texts)[:LONGEST]}
