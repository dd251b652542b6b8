"""Servers with OpenAI's chat completions: what they have in common, and the oddities and the strictness of each.

Each class says after its name what it was written from. The texts of errors are ours, with the words that Muster looks
for in those of the server.
"""

import json
import re
from dataclasses import replace
from typing import Any

from .acts import Act, Reply

JSON = Any
KNOWN_BY_OPENAI = {
    "model", "messages", "stream", "stream_options", "tools", "response_format", "temperature", "top_p",
    "presence_penalty", "frequency_penalty", "max_tokens", "max_completion_tokens",
}  # fmt: skip


def event(value: JSON) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def error(status: int, message: str, **more: JSON) -> Reply:
    fields = {"message": message, "type": "invalid_request_error", "code": None, **more}
    return Reply(json.dumps({"error": fields}).encode(), status=status)


def find_disorder(messages: list[JSON]) -> str:
    """What no server of this API accepts."""
    open_calls: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"the tool_call_id {message.get('tool_call_id')} has no call before it"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"these tool calls have no results: {open_calls}"
        calls = message.get("tool_calls") or []
        if not calls and not message.get("content"):
            return f"a message of {role} has no content"
        open_calls = [call["id"] for call in calls]
        if len(set(open_calls)) != len(open_calls) or not all(open_calls):
            return "the ids of calls are not unique"
        for call in calls:
            if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"]):
                return f"{call['function']['name']} does not match the pattern of names"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "arguments must be an object"
    return f"these tool calls have no results: {open_calls}" if open_calls else ""


def find_alternation(messages: list[JSON]) -> str:
    """What a template refuses that wants the person and the model to take turns."""
    spoken = [
        one for one in messages if one["role"] == "user" or (one["role"] == "assistant" and not one.get("tool_calls"))
    ]
    for place, message in enumerate(spoken):
        if message["role"] != ("user", "assistant")[place % 2]:
            return "Conversation roles must alternate user/assistant/user/assistant/..."
    return ""


class OpenAI:
    """OpenAI (API reference): refuses unknown fields and long ids, and has an event of its own for the tokens."""

    kind, model = "openai", "gpt-5-mini"
    base = "https://openai.zoo/v1"
    known: set[str] | None = KNOWN_BY_OPENAI - {"max_tokens"}
    longest_id = 40
    faults = {
        "refused": error(400, "Invalid value: the temperature is too high."),
        "busy": Reply(b'{"error": {"message": "Rate limit reached"}}', status=429, headers={"Retry-After": "0"}),
        "overflow": error(400, "This model's maximum context length is 128000 tokens.", code="context_length_exceeded"),
        "broken": Reply(b"<html><title>502 Bad Gateway</title></html>", "text/html", 502),
    }

    # -- the request ----------------------------------------------------------------------------------------------

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        unknown = sorted(set(body) - self.known) if self.known is not None else []
        if unknown:
            return error(400, f"Unrecognized request argument supplied: {unknown[0]}")
        if complaint := find_disorder(body["messages"]) or self.find_fault(body):
            return error(400, f"Invalid request: {complaint}")
        return None

    def find_fault(self, body: dict[str, JSON]) -> str:
        ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        if any(len(id) > self.longest_id for id in ids):
            return f"'messages.tool_calls.id': string too long, maximum length {self.longest_id}"
        return ""

    # -- the answer -----------------------------------------------------------------------------------------------

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        if act.fault:
            return self.faults[act.fault]
        if is_streamed:
            return Reply(b"".join(self.stream(act, body)), "text/event-stream; charset=utf-8")
        return Reply(json.dumps(self.whole(act)).encode())

    def whole(self, act: Act) -> JSON:
        message = {"role": "assistant", "content": act.text or None, **self.thoughts(act.reasoning)}
        if act.refusal:
            message["refusal"] = act.refusal
        if act.calls:
            message["tool_calls"] = [self.call(place, *call) for place, call in enumerate(act.calls)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish(act)}
        return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": self.usage()}

    def stream(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        events = [self.chunk({"role": "assistant", "content": ""}), *self.thinking(act), *self.speaking(act)]
        if act.refusal:
            events.append(self.chunk({"refusal": act.refusal}))
        events += self.calling(act)
        return [*events, *self.ending(act, body)]

    def chunk(self, delta: JSON, finish: str | None = None, **more: JSON) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **more})

    def thinking(self, act: Act) -> list[bytes]:
        return [self.chunk(self.thoughts(word)) for word in re.findall(r"\S+\s*", act.reasoning)]

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {}

    def speaking(self, act: Act) -> list[bytes]:
        return [self.chunk({"content": word}) for word in re.findall(r"\S+\s*", act.text)]

    def calling(self, act: Act) -> list[bytes]:
        """Each call in three pieces: its name, and its arguments in two."""
        chunks = []
        for place, wanted in enumerate(act.calls):
            call = self.call(place, *wanted)
            text = call["function"]["arguments"]
            half = len(text) // 2
            call["function"]["arguments"] = ""
            pieces: list[JSON] = [{"index": place, **call}]
            pieces += [{"index": place, "function": {"arguments": part}} for part in (text[:half], text[half:])]
            chunks += [self.chunk({"tool_calls": [piece]}) for piece in pieces]
        return chunks

    def call(self, place: int, name: str, arguments: JSON) -> dict[str, JSON]:
        return {
            "id": self.id(place),
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }

    def id(self, place: int) -> str:
        return f"call_{place}abcdefghijklmnopqrstu"

    def ending(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        events = [self.chunk({}, self.finish(act))]
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append(event({"object": "chat.completion.chunk", "choices": [], "usage": self.usage()}))
        return [*events, b"data: [DONE]\n\n"]

    def finish(self, act: Act) -> str:
        return act.finish or ("tool_calls" if act.calls else "stop")

    def usage(self) -> dict[str, int]:
        return {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Azure(OpenAI):
    """Azure OpenAI: an event without choices comes first, and the filter's results are everywhere."""

    kind, base = "openai-compatible", "https://azure.zoo/openai/v1"

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        if "max_tokens" in body:
            return error(400, "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'.")
        return super().refuse(body)

    def stream(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return [event({"choices": [], "prompt_filter_results": [{}]}), *super().stream(act, body)]


class Gemini(OpenAI):
    """Gemini's compatible endpoint: whole calls without a place, signatures to be sent back, errors in a list."""

    kind, base, model = "openai-compatible", "https://gemini.zoo/v1beta/openai", "gemini-3-flash"
    known = KNOWN_BY_OPENAI
    faults = {**OpenAI.faults, "refused": Reply(b'[{"error": {"code": 400, "message": "Bad value"}}]', status=400),
              "overflow": error(400, "The input token count (2000000) exceeds the maximum number of tokens allowed.")}  # fmt: skip

    def find_fault(self, body: dict[str, JSON]) -> str:
        """The calls since the person's last message need the signature of their turn."""
        messages = body["messages"]
        last = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=0)
        for message in messages[last:]:
            calls = message.get("tool_calls") or []
            if calls and not calls[0].get("extra_content", {}).get("google", {}).get("thought_signature"):
                return "Function call is missing a thought_signature in functionCall parts."
        return ""

    def call(self, place: int, name: str, arguments: JSON) -> dict[str, JSON]:
        signed = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}} if place == 0 else {}
        return {**super().call(place, name, arguments), **signed}

    def calling(self, act: Act) -> list[bytes]:
        return [self.chunk({"tool_calls": [self.call(place, *call)]}) for place, call in enumerate(act.calls)]

    def id(self, place: int) -> str:
        return f"function-call-{place}"

    def finish(self, act: Act) -> str:
        return act.finish or "stop"


class DeepSeek(OpenAI):
    """DeepSeek: reasoning beside the text, demanded back with calls; comments keep the connection."""

    kind, base, model = "openai-compatible", "https://deepseek.zoo/v1", "deepseek-v4"
    known = KNOWN_BY_OPENAI - {"max_completion_tokens"}

    def find_fault(self, body: dict[str, JSON]) -> str:
        for place, message in enumerate(body["messages"]):
            if message.get("tool_calls") and not message.get("reasoning_content"):
                return f"Missing `reasoning_content` field in the assistant message at message index {place}"
        return "response_format type is unavailable" if self.wants_schema(body) else ""

    def wants_schema(self, body: dict[str, JSON]) -> bool:
        return body.get("response_format", {}).get("type") == "json_schema"

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {"reasoning_content": reasoning}

    def stream(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return [b": keep-alive\n\n", *super().stream(act, body)]


class Mistral(OpenAI):
    """Mistral: ids of nine characters, strict order of roles, unknown fields are 422, thoughts as parts."""

    kind, base, model = "openai-compatible", "https://mistral.zoo/v1", "magistral-small"
    known = KNOWN_BY_OPENAI - {"max_completion_tokens", "stream_options"}
    longest_id = 9
    faults = {**OpenAI.faults, "overflow": Reply(
        b'{"object": "error", "message": "Prompt contains 40000 tokens, too large for the maximum context length"}',
        status=400)}  # fmt: skip

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        unknown = sorted(set(body) - (self.known or set()))
        if unknown:
            detail = [{"type": "extra_forbidden", "loc": ["body", unknown[0]], "msg": f"Extra inputs: {unknown[0]}"}]
            return Reply(json.dumps({"detail": detail}).encode(), status=422)
        if complaint := find_disorder(body["messages"]) or self.find_fault(body):
            return Reply(json.dumps({"object": "error", "message": complaint}).encode(), status=400)
        return None

    def find_fault(self, body: dict[str, JSON]) -> str:
        roles = [message["role"] for message in body["messages"]]
        if "system" in roles[1:]:
            return "Unexpected role 'system' after role 'user'"
        for first, second in zip(roles, roles[1:], strict=False):
            if (first, second) in (("tool", "user"), ("user", "user")):
                return f"Unexpected role '{second}' after role '{first}'"
        if roles[-1] not in ("user", "tool"):
            return "Expected last role User or Tool"
        ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        if not all(re.fullmatch("[a-zA-Z0-9]{9}", id) for id in ids):
            return "Tool call id must be a-z, A-Z, 0-9, with a length of 9."
        return ""

    def id(self, place: int) -> str:
        return f"D681PevK{place}"

    def whole(self, act: Act) -> JSON:
        body = super().whole(act)
        if act.reasoning:
            body["choices"][0]["message"]["content"] = [self.thought(act.reasoning), {"type": "text", "text": act.text}]
        return body

    def thinking(self, act: Act) -> list[bytes]:
        return [self.chunk({"content": [self.thought(word)]}) for word in re.findall(r"\S+\s*", act.reasoning)]

    def thought(self, text: str) -> JSON:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}

    def calling(self, act: Act) -> list[bytes]:
        pieces = [{"index": place, **self.call(place, *call)} for place, call in enumerate(act.calls)]
        return [self.chunk({"tool_calls": pieces})] if pieces else []

    def ending(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return [self.chunk({"content": ""}, self.finish(act), usage=self.usage()), b"data: [DONE]\n\n"]


class Vllm(OpenAI):
    """vLLM with a template that wants roles to alternate (Gemma): names in each piece, its own error object."""

    kind, base, model = "openai-compatible", "http://vllm.zoo/v1", "google/gemma-3"
    known = None
    faults = {**OpenAI.faults, "overflow": Reply(
        b'{"object": "error", "message": "This model\'s maximum context length is 4096 tokens. You requested 5000."}',
        status=400)}  # fmt: skip

    def find_fault(self, body: dict[str, JSON]) -> str:
        return find_alternation([one for one in body["messages"] if one["role"] != "system"])

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {"reasoning": reasoning, "reasoning_content": reasoning} if reasoning else {}

    def calling(self, act: Act) -> list[bytes]:
        chunks = []
        for place, wanted in enumerate(act.calls):
            call = self.call(place, *wanted)
            text = call["function"]["arguments"]
            for part in (text[:5], text[5:]):
                piece = {"index": place, "id": call["id"], "function": {"name": wanted[0], "arguments": part}}
                chunks.append(self.chunk({"tool_calls": [piece]}))
        return chunks


class VllmWithoutParser(Vllm):
    """vLLM without `--reasoning-parser`: the template opens the block of thoughts, so the text only closes it."""

    base, model = "http://vllm-raw.zoo/v1", "qwq"

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {}

    def thinking(self, act: Act) -> list[bytes]:
        return []

    def whole(self, act: Act) -> JSON:
        return super().whole(closed_in_text(act))

    def stream(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return super().stream(closed_in_text(act), body)


class LlamaCpp(Vllm):
    """llama.cpp: errors of the template are 500, the first answer is not closed by [DONE] in old versions."""

    base, model = "http://llamacpp.zoo/v1", "gemma.gguf"
    faults = {
        **OpenAI.faults,
        "overflow": error(400, "the request exceeds the available context size", type="exceed_context_size_error"),
    }

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        refusal = super().refuse(body)
        return Reply(refusal.content, status=500) if refusal else None

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {"reasoning_content": reasoning} if reasoning else {}

    def id(self, place: int) -> str:
        return f"rBzQ5m{place}WkXyTnEoPq8LhJ3vCdGsUa1f"

    def ending(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return [self.chunk({}, self.finish(act), usage=self.usage(), timings={"prompt_n": 11})]


class OllamaCompatible(OpenAI):
    """Ollama's compatible endpoint: thinks in the text if it is not asked otherwise; the same id in each turn."""

    kind, base, model = "openai-compatible", "http://ollama.zoo/v1", "qwen3"
    known = None

    def id(self, place: int) -> str:
        return f"call_{place}"

    def whole(self, act: Act) -> JSON:
        return super().whole(in_text(act))

    def stream(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return super().stream(in_text(act), body)

    def finish(self, act: Act) -> str:
        return act.finish or "stop"

    def calling(self, act: Act) -> list[bytes]:
        pieces = [{"index": 0, **self.call(place, *call)} for place, call in enumerate(act.calls)]
        return [self.chunk({"tool_calls": [piece]}) for piece in pieces]


def in_text(act: Act) -> Act:
    text = f"<think>\n{act.reasoning}\n</think>\n\n{act.text}" if act.reasoning else act.text
    return Act(text, act.calls, "", act.refusal, act.finish)


def closed_in_text(act: Act) -> Act:
    text = f"{act.reasoning}\n</think>\n\n{act.text}" if act.reasoning else act.text
    return Act(text, act.calls, "", act.refusal, act.finish)


class LmStudio(OllamaCompatible):
    """LM Studio: errors are events of their own in a stream, tools need `properties`."""

    base, model = "http://lmstudio.zoo/v1", "qwen3-8b"
    faults = {**OpenAI.faults,
              "overflow": Reply(b'{"error": "The model is loaded with context length of only 4096 tokens"}', status=400)}  # fmt: skip

    def find_fault(self, body: dict[str, JSON]) -> str:
        tools = [tool["function"]["parameters"] for tool in body.get("tools") or ()]
        return "" if all("properties" in parameters for parameters in tools) else "tools.0: properties is required"

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        reply = super().answer(act, body, is_streamed=is_streamed)
        if is_streamed and act.fault in ("overflow", "refused"):
            return Reply(b"event: error\ndata: " + reply.content + b"\n\n", "text/event-stream")
        return reply


class OpenRouter(OpenAI):
    """OpenRouter: comments, reasoning in blocks that go back, errors with status 200 or in the middle of a stream."""

    kind, base, model = "openai-compatible", "https://openrouter.zoo/api/v1", "any/model"
    known = None
    faults = {**OpenAI.faults,
              "refused": Reply(b'{"error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": "bad"}}}'),
              "overflow": Reply(b'{"error": {"code": 400, "message": "This endpoint\'s maximum context length is 8192 tokens"}}'),
              "busy": Reply(b'{"error": {"code": 429, "message": "Rate limited upstream"}}')}  # fmt: skip

    def find_fault(self, body: dict[str, JSON]) -> str:
        last = max((place for place, one in enumerate(body["messages"]) if one["role"] == "user"), default=0)
        for message in body["messages"][last:]:
            if message.get("tool_calls") and message.get("reasoning_details") == []:
                return "reasoning_details must not be empty"
        return ""

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        if not reasoning:
            return {}
        detail = {"type": "reasoning.text", "text": reasoning, "index": 0, "format": "unknown"}
        return {"reasoning": reasoning, "reasoning_details": [detail]}

    def stream(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return [b": OPENROUTER PROCESSING\n\n", b": OPENROUTER PROCESSING\n\n", *super().stream(act, body)]

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        reply = super().answer(act, body, is_streamed=is_streamed)
        if is_streamed and act.fault in ("busy", "refused", "overflow"):
            return Reply(b": OPENROUTER PROCESSING\n\ndata: " + reply.content + b"\n\n", "text/event-stream")
        return reply


class Groq(OpenAI):
    """Groq: refuses in a message what it has sent itself, and tells a call that it could not write as an error."""

    kind, base, model = "openai-compatible", "https://groq.zoo/openai/v1", "qwen3-32b"
    known = KNOWN_BY_OPENAI
    faults = {**OpenAI.faults, "overflow": error(413, "Request too large for model", code="rate_limit_exceeded"),
              "broken": error(400, "Failed to call a function. Adjust your prompt.", code="tool_use_failed")}  # fmt: skip

    def find_fault(self, body: dict[str, JSON]) -> str:
        for message in body["messages"]:
            if {"reasoning", "reasoning_content", "reasoning_details"} & message.keys():
                return "property 'reasoning' is unsupported"
        return ""

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {"reasoning": reasoning} if reasoning else {}


class Together(OpenAI):
    """Together: another word for the end, lists of calls that are empty, errors of its backend."""

    kind, base, model = "openai-compatible", "https://together.zoo/v1", "meta/llama"
    known = None
    faults = {**OpenAI.faults,
              "overflow": error(422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193 tokens")}  # fmt: skip

    def chunk(self, delta: JSON, finish: str | None = None, **more: JSON) -> bytes:
        return super().chunk({"role": "assistant", "content": "", "tool_calls": [], **delta}, finish, **more)

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        return {"reasoning": reasoning} if reasoning else {}

    def finish(self, act: Act) -> str:
        return act.finish or ("tool_calls" if act.calls else "eos")

    def ending(self, act: Act, body: dict[str, JSON]) -> list[bytes]:
        return [self.chunk({}, self.finish(act), usage=self.usage()), b"data: [DONE]\n\n"]


class LiteLlm(OpenAI):
    """LiteLLM's proxy in front of Anthropic: long ids, blocks of thinking that go back, statuses as text, refusals as
    texts that a filter ended. test_litellm.py has the real one.
    """

    kind, base, model = "openai-compatible", "http://litellm.zoo/v1", "claude"
    known = KNOWN_BY_OPENAI
    longest_id = 10_000
    busy = replace(
        error(429, "litellm.RateLimitError: slow down", code="429"), headers={"llm_provider-retry-after": "0"}
    )
    faults = {**OpenAI.faults, "busy": busy}

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        if act.refusal:
            act = Act(text=act.refusal, finish="content_filter")
        return super().answer(act, body, is_streamed=is_streamed)

    def find_fault(self, body: dict[str, JSON]) -> str:
        """A model that thinks wants its signed thoughts back with the calls of this turn, and whole ids."""
        last = max((place for place, one in enumerate(body["messages"]) if one["role"] == "user"), default=0)
        for message in body["messages"][last:]:
            calls = message.get("tool_calls") or ()
            if any(not call["id"].endswith("=signed") for call in calls):
                return "the id of a call lost its signature"
            blocks = message.get("thinking_blocks") or []
            if calls and any(block.get("signature") != "signed" or not block.get("thinking") for block in blocks):
                return "Expected `thinking` with its signature"
        return ""

    def id(self, place: int) -> str:
        return f"call_{place}__thought__{'x' * 300}=signed"

    def thoughts(self, reasoning: str) -> dict[str, JSON]:
        if not reasoning:
            return {}
        block = {"type": "thinking", "thinking": reasoning, "signature": "signed"}
        return {"reasoning_content": reasoning, "thinking_blocks": [block]}

    def thinking(self, act: Act) -> list[bytes]:
        """Pieces of the text first, then the signature."""
        if not act.reasoning:
            return []
        half = len(act.reasoning) // 2
        deltas: list[JSON] = [
            {"reasoning_content": part, "thinking_blocks": [{"type": "thinking", "thinking": part}]}
            for part in (act.reasoning[:half], act.reasoning[half:])
        ]
        deltas.append({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "signed"}]})
        return [self.chunk(delta) for delta in deltas]
