"""What MCP's conformance suite asks a server to have, as ordinary rows: functions, chains with questions, and a proxy
that adds the key, because the suite sends none.
"""

import http.client
import threading
from base64 import b64encode
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler

from tests.fakes import LoopbackServer

PNG = b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc33"
        "0000000049454e44ae426082"
    )
).decode()
WAV = b64encode(
    bytes.fromhex("524946462500000057415645666d74201000000001000100401f0000401f0000010008006461746101000000") + b"\x80"
).decode()
BYTES = "from base64 import b64decode\n\n\n"
TEXT = {"type": "string"}
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"}, "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}  # fmt: skip


def schema(*required, **properties):
    marks = {name: properties.pop(name) for name in [*properties] if name.startswith("x-")}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False, **marks}


def saves(*files):
    """A function that saves files: (name, base64 or text)."""
    lines = [f"    ctx.save_file({name!r}, {data})" for name, data in files]
    return "\n".join(
        [f"{BYTES}def main(ctx: Context) -> str:", *lines, '    return "Multiple content types test:"', ""]
    )


def decoded(data):
    return f"b64decode({data!r})"


WAITS = "import time\n\n\ndef main(ctx: Context) -> str:\n"
FUNCTIONS = {  # name → source, input schema
    "test_simple_text": ('def main() -> str:\n    return "This is a simple text response for testing."\n', None),
    "test_image_content": (saves(("pixel.png", decoded(PNG))), None),
    "test_audio_content": (saves(("silence.wav", decoded(WAV))), None),
    "test_embedded_resource": (saves(("note.txt", '"This is an embedded resource content."')), None),
    "test_multiple_content_types": (saves(("pixel.png", decoded(PNG)), ("data.json", """'{"test": 1}'""")), None),
    "test_error_handling": (
        'def main() -> str:\n    raise ValueError("This tool intentionally returns an error for testing")\n', None),
    "test_tool_with_logging": (
        WAITS + '    ctx.log("Tool execution started")\n    time.sleep(0.05)\n    ctx.log("Tool processing data")\n'
        '    time.sleep(0.05)\n    ctx.log("Tool execution completed")\n    return "Done."\n', None),
    "test_logging_tool": (WAITS + '    ctx.log("Tool execution started")\n    return "Done."\n', None),
    "test_tool_with_progress": (
        WAITS + "    for done in (0, 50, 100):\n        ctx.progress(done, 100)\n        time.sleep(0.05)\n"
        '    return "Done."\n', None),
    "json_schema_2020_12_tool": ('def main(**given: str) -> str:\n    return "Fine."\n', SCHEMA_2020),
    "test_x_mcp_header": (
        "def main(region: str, count: int = 1) -> str:\n    return region\n",
        schema("region", region={**TEXT, "x-mcp-header": "Region"}, count={"type": "integer", "x-mcp-header": "Count"})),
    "test_simple_prompt": (
        'def main() -> str:\n    return "This is a simple prompt for testing."\n', schema(**{"x-mcp-prompt": True})),
    "test_prompt_with_arguments": (
        "def main(arg1: str, arg2: str) -> str:\n    return f\"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'\"\n",
        schema("arg1", "arg2", arg1=TEXT, arg2=TEXT, **{"x-mcp-prompt": True})),
    "test_prompt_with_embedded_resource": (
        "def main(resourceUri: str) -> dict:\n"
        '    text = "Embedded resource content for testing."\n'
        '    resource = {"uri": resourceUri, "mimeType": "text/plain", "text": text}\n'
        '    ask = {"type": "text", "text": "Please process the embedded resource above."}\n'
        '    return {"messages": [{"role": "user", "content": {"type": "resource", "resource": resource}},\n'
        '                         {"role": "user", "content": ask}]}\n',
        schema("resourceUri", resourceUri=TEXT, **{"x-mcp-prompt": True})),
    "test_prompt_with_image": (
        "def main() -> dict:\n"
        f'    image = {{"type": "image", "data": {PNG!r}, "mimeType": "image/png"}}\n'
        '    ask = {"type": "text", "text": "Please analyze the image above."}\n'
        '    return {"messages": [{"role": "user", "content": image}, {"role": "user", "content": ask}]}\n',
        schema(**{"x-mcp-prompt": True})),
    "static_text": (
        'def main() -> str:\n    return "This is the content of the static text resource."\n',
        schema(**{"x-mcp-resource": "test://static-text"})),
    "static_binary": (saves(("pixel.png", decoded(PNG))), schema(**{"x-mcp-resource": "test://static-binary"})),
    "watched": ('def main() -> str:\n    return "Watched."\n', schema(**{"x-mcp-resource": "test://watched-resource"})),
    "template_data": (
        'def main(id: str) -> dict:\n    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}\n',
        schema("id", id=TEXT, **{"x-mcp-resource": "test://template/{id}/data"})),
    "greet": ('def main(name: str) -> str:\n    return f"Hello, {name}!"\n', None),
    "sleep": (
        'import time\n\n\ndef main(seconds: float = 1) -> str:\n    time.sleep(seconds)\n    return "Rested."\n', None),
    "fail": ('def main() -> str:\n    raise ValueError("This job failed.")\n', None),
}  # fmt: skip


def asks(name, question, /, **fields):
    """A step that asks the person."""
    given = {"name": {"value": name}, "question": question, "fields": {"value": fields}}
    return {"key": name, "target": "ask_user", "input": given}


def said(text):
    return {"value": text}


NAME = asks("user_name", said("What is your name?"), name=TEXT)
SAMPLE = {"key": "capital", "target": "ask_client_model", "input": {"prompt": said("What is the capital of France?")}}
ROOTS = {"key": "folders", "target": "list_client_folders"}
OK = asks("confirm", said("Please confirm."), ok={"type": "boolean"})
BOTH = {"name": TEXT, "confirm": {"type": "boolean"}}
DEFAULTS = {
    "name": {**TEXT, "default": "John Doe"}, "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5}, "verified": {"type": "boolean", "default": True},
    "status": {**TEXT, "enum": ["active", "inactive", "pending"], "default": "active"},
}  # fmt: skip
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"{word} Option"} for number, word in enumerate(["First", "Second"], 1)]
LEGACY = {**TEXT, "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]}
ENUMS = {
    "untitledSingle": {**TEXT, "enum": OPTIONS}, "titledSingle": {**TEXT, "oneOf": TITLED}, "legacyEnum": LEGACY,
    "untitledMulti": {"type": "array", "items": {**TEXT, "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}  # fmt: skip
SLEEP = {"key": "sleep", "target": "sleep", "input": {"seconds": {"path": "input.seconds", "default": 1}}}
CHAINS = {  # name → input schema, steps, output
    "test_elicitation": (
        schema("message", message=TEXT), [asks("user", "input.message", username=TEXT, email=TEXT)], "steps.user.output"),
    "test_elicitation_sep1034_defaults": (schema(), [asks("details", said("Your details?"), **DEFAULTS)], ""),
    "test_elicitation_sep1330_enums": (schema(), [asks("choices", said("Choose."), **ENUMS)], ""),
    "test_sampling": (
        schema("prompt", prompt=TEXT), [{**SAMPLE, "input": {"prompt": "input.prompt"}}], "steps.capital.output"),
    "test_reconnection": (schema(), [{**SLEEP, "input": {"seconds": {"value": 0.5}}}], ""),
    "test_input_required_result_elicitation": (schema(), [NAME], "join('', ['Hello, ', steps.user_name.output.name, '!'])"),
    "test_input_required_result_sampling": (schema(), [SAMPLE], "steps.capital.output"),
    "test_input_required_result_list_roots": (schema(), [ROOTS], "steps.folders.output"),
    "test_input_required_result_request_state": (schema(), [OK], ""),
    "test_input_required_result_tampered_state": (schema(), [OK], ""),
    "test_input_required_result_multiple_inputs": (
        schema(), [NAME, SAMPLE, ROOTS],
        "{name: steps.user_name.output, capital: steps.capital.output, folders: steps.folders.output}"),
    "test_input_required_result_capabilities": (schema(), [NAME, SAMPLE], ""),
    "test_input_required_result_multi_round": (
        schema(), [NAME, {**asks("color", said("Which colour?"), color=TEXT), "needs": ["user_name"]}], ""),
    "test_input_required_result_prompt": (
        schema(**{"x-mcp-prompt": True}), [asks("user_context", said("What context should the prompt use?"), context=TEXT)],
        "steps.user_context.output.context"),
    "test_missing_capability": (schema(), [SAMPLE], "steps.capital.output"),
    "test_streaming_elicitation": (schema(), [NAME], "steps.user_name.output.name"),
    "slow_compute": (schema(seconds={"type": "number"}, label=TEXT), [SLEEP], "steps.sleep.output"),
    "failing_job": (schema(), [{"key": "fail", "target": "fail"}], ""),
    "confirm_delete": (
        schema(filename=TEXT), [asks("sure", said("Delete it?"), confirm={"type": "boolean"})], "steps.sure.output"),
    "multi_input": (schema(), [asks("one", said("One?"), **BOTH), asks("two", said("Two?"), **BOTH)], ""),
}  # fmt: skip


def make_rows(client):
    """`client`: an HTTP client of the person whose rows they are."""
    for name, (source, given) in FUNCTIONS.items():
        imports = [module for module in ("base64", "time") if module in source]
        body = {"name": name, "description": name, "source": source, "effect": "read", "allowed_imports": imports}
        body |= {"input_schema": given} if given else {}
        made(client, f"functions/{name}", "functions/", body)
    for name, (given, steps, output) in CHAINS.items():
        grants = [{"tool": name} for name in sorted({step["target"] for step in steps})]
        made(client, f"chains/{name}", "chains/", {
            "name": name, "description": name, "input_schema": given, "steps": steps, "output": output, "grants": grants,
        })  # fmt: skip


def made(client, row, collection, body):
    answer = client.post(f"/api/v1/{collection}", json=body)
    assert answer.status_code == 201, f"{body['name']}: {answer.text}"
    answer = client.post(f"/api/v1/{row}/publish", json={})
    assert answer.status_code in (200, 201), f"{row}: {answer.text}"


@contextmanager
def proxy(port, key):
    """The address of a proxy of the server at this port that sends the key with every request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            line.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("authorization", "connection"):
                    line.putheader(name, value)
            line.putheader("Authorization", f"Bearer {key}")
            line.endheaders(body)
            answer = line.getresponse()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            with suppress(OSError):
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()
            line.close()

        do_GET = do_POST = do_DELETE = pass_on

        def log_message(self, *_):
            pass

    with LoopbackServer(Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()
        thread.join()
