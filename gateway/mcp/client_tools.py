"""The built-in tools that the program of the person executes: MCP's sampling and roots.

A call of one waits as an input request of the kind `tool`, so programs of other protocols can answer it, too.
"""

from typing import Any

from runs.models import InputRequest

from .protocol import PARAMS, Fault, RpcRequest

JSON = Any
MODEL, FOLDERS = "ask_client_model", "list_client_folders"
# The name of a tool → the capability that its client must have.
NEEDS = {MODEL: "sampling", FOLDERS: "roots"}
TOKENS = 1000
LONGEST = 200_000


def find_client_request(rpc: RpcRequest, row: InputRequest) -> dict[str, JSON] | None:
    """None for a tool that is not the client's, or that it does not offer."""
    capability = NEEDS.get(row.name)
    if capability is None or not rpc.can(capability):
        return None
    if row.name == FOLDERS:
        return {"method": "roots/list"}
    arguments = row.arguments
    prompt = {"type": "text", "text": str(arguments.get("prompt", ""))}
    params = {"messages": [{"role": "user", "content": prompt}], "maxTokens": arguments.get("max_tokens", TOKENS)}
    if arguments.get("instructions"):
        params["systemPrompt"] = arguments["instructions"]
    return {"method": "sampling/createMessage", "params": params}


def parse_client_answer(row: InputRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    """The keywords of `runs.calls.inputs.answer_input_request`. Raises Fault."""
    refusal = result.get("error")
    if isinstance(refusal, dict):
        message = str(refusal.get("message", "refused"))
        return {"error": {"code": "client_refused", "message": message[:500]}}
    if row.name == FOLDERS:
        return {"value": parse_client_folders(result)}
    content = result.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    if not texts:
        raise Fault(PARAMS, "The result of sampling/createMessage must have text as its content.")
    return {"value": "\n".join(texts)[:LONGEST]}


def parse_client_folders(result: dict[str, JSON]) -> list[dict[str, str]]:
    """Raises Fault."""
    roots = result.get("roots")
    if not isinstance(roots, list) or not all(isinstance(root, dict) for root in roots):
        raise Fault(PARAMS, "The result of roots/list must have “roots”.")
    folders = []
    for root in roots[:1000]:
        folders.append({"uri": str(root.get("uri", "")), "name": str(root.get("name", ""))})
    return folders
