"""Servers with an API of their own: Anthropic, Google, Ollama."""

import json
import re
from typing import Any

from .acts import Act, Reply

JSON = Any


class Anthropic:
    """Anthropic's messages: results first in a turn, no empty text, ids by a pattern, signed thoughts go back."""

    kind, model, base = "anthropic", "claude-haiku-4-5", "https://anthropic.zoo"
    # Of the prompt. Proxies, and Anthropic's older servers, count it in `message_start` alone.
    counted_at_the_end: dict[str, int] = {}  # noqa: RUF012
    faults = {
        "refused": Reply(b'{"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}', status=400),
        "busy": Reply(b'{"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}', status=429,
                      headers={"Retry-After": "0"}),
        "overflow": Reply(b'{"type": "error", "error": {"type": "invalid_request_error", "message": '
                          b'"prompt is too long: 208310 tokens > 200000 maximum"}}', status=400),
        "broken": Reply(b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', status=529),
    }  # fmt: skip

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        complaint = self.find_fault(body)
        if not complaint:
            return None
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": complaint}}
        return Reply(json.dumps(error).encode(), status=400)

    def find_fault(self, body: dict[str, JSON]) -> str:
        messages = body["messages"]
        if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
            return "the first and the last message must use the user role"
        open_calls: set[str] = set()
        for message in messages:
            blocks = message["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
                return "text content blocks must be non-empty"
            results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
            if results != open_calls:
                return f"tool_use ids {open_calls} and results {results} differ"
            open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
            if not all(re.fullmatch("[a-zA-Z0-9_-]+", id) for id in open_calls):
                return "tool_use.id should match the pattern"
            if any(block["type"] == "thinking" and block.get("signature") != "signed" for block in blocks):
                return "invalid signature in thinking block"
            # Only the calls that are answered now need the thoughts before them.
            is_thinking = "Think" in str(messages[0])
            is_answered_now = open_calls and message is messages[-2]
            if is_answered_now and is_thinking and blocks[0]["type"] != "thinking":
                return "expected thinking before tool_use"
        return ""

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        if act.fault:
            return self.faults[act.fault]
        whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "stop_sequence": None}
        usage = {"input_tokens": 1, "cache_read_input_tokens": 10, "output_tokens": 7}
        if not is_streamed:
            whole |= {"content": self.blocks(act), "stop_reason": self.finish(act), "usage": usage}
            return Reply(json.dumps(whole).encode())
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 2}}
        events: list[JSON] = [{"type": "message_start", "message": start}, {"type": "ping"}]
        for index, block in enumerate(self.blocks(act)):
            events += build_block_events(index, block)
        delta = {"stop_reason": self.finish(act), "stop_sequence": None}
        counted = {**self.counted_at_the_end, "output_tokens": 7}
        events += [{"type": "message_delta", "delta": delta, "usage": counted}, {"type": "message_stop"}]
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        return Reply("".join(lines).encode(), "text/event-stream")

    def blocks(self, act: Act) -> list[JSON]:
        blocks: list[JSON] = []
        if act.reasoning:
            blocks.append({"type": "thinking", "thinking": act.reasoning, "signature": "signed"})
        if act.text or act.refusal:
            blocks.append({"type": "text", "text": act.text or act.refusal})
        for place, (name, arguments) in enumerate(act.calls):
            blocks.append({"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": arguments})
        return blocks

    def finish(self, act: Act) -> str:
        if act.refusal:
            return "refusal"
        if act.finish == "length":
            return "max_tokens"
        return "tool_use" if act.calls else "end_turn"


def build_block_events(index: int, block: JSON) -> list[JSON]:
    """The events in which a block arrives."""
    if block["type"] == "tool_use":
        begun = {**block, "input": {}}
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in ("", text[:7], text[7:])]
    elif block["type"] == "thinking":
        begun = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": word} for word in re.findall(r"\S+\s*", block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": "signed"})
    else:
        begun = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in re.findall(r"\S+\s*", block["text"])]
    events: list[JSON] = [{"type": "content_block_start", "index": index, "content_block": begun}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


class GoogleNative:
    """Google's generateContent: no ids, as many results as calls, signatures go back, no word at the end of a stream."""

    kind, model, base = "google", "gemini-3-flash", "https://google.zoo"
    faults = {
        "refused": Reply(b'{"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}', status=400),
        "busy": Reply(b'{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}', status=429),
        "overflow": Reply(b'{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum '
                          b'number of tokens allowed (1048576)."}}', status=400),
        "broken": Reply(b'[{"error": {"code": 503, "message": "The model is overloaded"}}]', status=503),
    }  # fmt: skip

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        complaint = self.find_fault(body)
        if not complaint:
            return None
        error = {"error": {"code": 400, "message": complaint}}
        return Reply(json.dumps(error).encode(), status=400)

    def find_fault(self, body: dict[str, JSON]) -> str:
        contents = body["contents"]
        roles = [content["role"] for content in contents]
        in_turns = [("user", "model")[place % 2] for place in range(len(roles))]
        if roles != in_turns or roles[-1] != "user":
            return "roles must alternate between user and model"
        open_calls: list[str] = []
        for content in contents:
            parts = content["parts"]
            if not parts or any("text" in part and not part["text"] for part in parts):
                return "parts must not be empty"
            results = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
            if results != open_calls:
                return "the number of function response parts must equal that of the function call parts"
            calls = [part for part in parts if "functionCall" in part]
            open_calls = [part["functionCall"]["name"] for part in calls]
            if calls and not calls[0].get("thoughtSignature"):
                return "Function call is missing a thought_signature"
        return ""

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        if act.fault:
            return self.faults[act.fault]
        if act.refusal:
            blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 11}}
            answers: list[JSON] = [blocked]
        else:
            answers = self.candidates(act, is_streamed=is_streamed)
        if not is_streamed:
            return Reply(json.dumps(answers[0]).encode())
        lines = [f"data: {json.dumps(answer)}\r\n\r\n" for answer in answers]
        return Reply("".join(lines).encode(), "text/event-stream")

    def candidates(self, act: Act, *, is_streamed: bool) -> list[JSON]:
        parts: list[JSON] = [{"text": act.reasoning, "thought": True}] if act.reasoning else []
        if act.text:
            parts += [{"text": word} for word in re.findall(r"\S+\s*", act.text)]
        for place, (name, arguments) in enumerate(act.calls):
            signed = {"thoughtSignature": "c2lnbmVk"} if place == 0 else {}
            parts.append({"functionCall": {"name": name, "args": arguments}, **signed})
        groups = [[part] for part in parts] if is_streamed else [parts]
        answers: list[JSON] = [{"candidates": [{"content": {"role": "model", "parts": group}}]} for group in groups]
        answers[-1]["candidates"][0]["finishReason"] = "MAX_TOKENS" if act.finish == "length" else "STOP"
        answers[-1]["usageMetadata"] = {"promptTokenCount": 11, "candidatesTokenCount": 7}
        return answers


class OllamaNative:
    """Ollama's own API: one JSON value a line, arguments as objects, no ids."""

    kind, model, base = "ollama", "qwen3", "http://ollama-native.zoo"
    faults = {
        "refused": Reply(b'{"error": "invalid options"}', status=400),
        "busy": Reply(b'{"error": "server busy, please try again"}', status=503),
        "overflow": Reply(b'{"error": "input length exceeds the context length"}', status=400),
        "broken": Reply(b'{"error": "llama runner process has terminated"}', status=500),
    }

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        for message in body["messages"]:
            if not isinstance(message["content"], str):
                return Reply(
                    b'{"error": "json: cannot unmarshal array into Go struct field content of type string"}', status=400
                )
            for call in message.get("tool_calls") or ():
                if not isinstance(call["function"]["arguments"], dict):
                    return Reply(b'{"error": "json: cannot unmarshal string into arguments"}', status=400)
        return None

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        if act.fault:
            return self.faults[act.fault]
        messages: list[JSON] = [{"thinking": act.reasoning}] if act.reasoning else []
        messages += [{"content": word} for word in re.findall(r"\S+\s*", act.text or act.refusal)]
        for name, arguments in act.calls:
            messages.append({"tool_calls": [{"function": {"name": name, "arguments": arguments}}]})
        end = {"done": True, "done_reason": act.finish or "stop", "prompt_eval_count": 11, "eval_count": 7}
        if is_streamed:
            values = [{"message": {"role": "assistant", "content": "", **one}, "done": False} for one in messages]
            values.append({"message": {"role": "assistant", "content": ""}, **end})
            return Reply(b"".join(json.dumps(one).encode() + b"\n" for one in values), "application/x-ndjson")
        message: JSON = {"role": "assistant", "content": act.text or act.refusal}
        if act.reasoning:
            message["thinking"] = act.reasoning
        if act.calls:
            message["tool_calls"] = [
                {"function": {"name": name, "arguments": arguments}} for name, arguments in act.calls
            ]
        return Reply(json.dumps({"message": message, **end}).encode())
