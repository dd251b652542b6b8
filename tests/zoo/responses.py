"""OpenAI's Responses API (API reference; guides on reasoning and on conversation state)."""

import json
import re
from typing import Any

from .acts import Act, Reply
from .compatible import OpenAI, error

JSON = Any
KNOWN = {
    "model", "input", "instructions", "store", "include", "tools", "text", "stream", "max_output_tokens", "temperature",
    "top_p",
}  # fmt: skip


class OpenAIResponses:
    """Refuses unknown fields; results without calls; calls without what the model thought before them, in its order.
    A stream ends with `response.completed` and without `[DONE]`.
    """

    kind, api, model, base = "openai", "responses", "gpt-5-mini", "https://openai-responses.zoo/v1"
    faults = {
        **OpenAI.faults,
        "overflow": error(400, "Your input exceeds the context window of this model.", code="context_length_exceeded"),
    }

    # -- the request ----------------------------------------------------------------------------------------------

    def refuse(self, body: dict[str, JSON]) -> Reply | None:
        if unknown := sorted(set(body) - KNOWN):
            return error(400, f"Unknown parameter: '{unknown[0]}'.")
        if body.get("store") is not False or body.get("include") != ["reasoning.encrypted_content"]:
            return error(400, "This stand-in keeps nothing, and wants encrypted reasoning to be asked for.")
        complaint = self.find_fault(body["input"])
        return error(400, complaint) if complaint else None

    def find_fault(self, items: list[JSON]) -> str:
        open_calls: list[str] = []
        last = max((place for place, item in enumerate(items) if item.get("role") == "user"), default=0)
        for place, item in enumerate(items):
            kind = item.get("type", "message")
            if kind == "function_call_output":
                if item["call_id"] not in open_calls:
                    return f"No tool call found for function call output with call_id {item['call_id']}."
                open_calls.remove(item["call_id"])
                continue
            if kind == "function_call":
                open_calls.append(item["call_id"])
                if not isinstance(json.loads(item["arguments"]), dict) or len(item["call_id"]) > 64:
                    return "arguments must be an object, and an id at most 64 characters"
                if place > last and "Think" in str(items[0]) and not is_thought_of(items, place):
                    return "Item 'fc' of type 'function_call' was provided without its required 'reasoning' item."
            elif kind == "reasoning":
                if not item.get("encrypted_content") or "index" in item:
                    return "Item 'rs' of type 'reasoning' was provided without its content."
                if place + 1 >= len(items) or items[place + 1].get("role") == "user":
                    return "Item 'rs' of type 'reasoning' was provided without its required following item."
            elif not item["content"]:
                return "a message has no content"
            elif open_calls:
                return f"No tool output found for function call {open_calls[0]}."
        return f"No tool output found for function call {open_calls[0]}." if open_calls else ""

    # -- the answer -----------------------------------------------------------------------------------------------

    def answer(self, act: Act, body: dict[str, JSON], *, is_streamed: bool) -> Reply:
        if act.fault:
            return self.faults[act.fault]
        if not is_streamed:
            return Reply(json.dumps(self.whole(act)).encode())
        lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in self.events(act)]
        return Reply("".join(lines).encode(), "text/event-stream; charset=utf-8")

    def whole(self, act: Act) -> JSON:
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
        return {
            "id": "resp_1", "object": "response", "status": "incomplete" if act.finish else "completed", "error": None,
            "incomplete_details": {"reason": reasons[act.finish]} if act.finish else None,
            "output": self.items(act), "usage": usage,
        }  # fmt: skip

    def items(self, act: Act) -> list[JSON]:
        items: list[JSON] = []
        if act.reasoning:
            summary = [{"type": "summary_text", "text": act.reasoning}]
            items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "gAAA"})
        if act.text or act.refusal:
            part = {"type": "output_text", "text": act.text, "annotations": []}
            if act.refusal:
                part = {"type": "refusal", "refusal": act.refusal}
            items.append(
                {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
            )
        for place, (name, arguments) in enumerate(act.calls):
            items.append({"id": f"fc_{place}", "type": "function_call", "call_id": f"call_{place}abcdefghij", "name": name,
                          "arguments": json.dumps(arguments), "status": "completed"})  # fmt: skip
        return items

    def events(self, act: Act) -> list[JSON]:
        whole = self.whole(act)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[JSON] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(whole["output"]):
            events += [{"output_index": index, **one} for one in pieces_of(item)]
        return [*events, {"type": f"response.{whole['status']}", "response": whole}]


def is_thought_of(items: list[JSON], place: int) -> bool:
    """Whether the answer of this call begins with what the model thought."""
    while place and items[place].get("type") == "function_call":
        place -= 1
    return items[place].get("type") == "reasoning"


def pieces_of(item: JSON) -> list[JSON]:
    """The events in which an item arrives."""
    about = {"item_id": item["id"]}
    if item["type"] == "function_call":
        text = item["arguments"]
        deltas = [
            {"type": "response.function_call_arguments.delta", **about, "delta": one} for one in (text[:5], text[5:])
        ]
        deltas.append({"type": "response.function_call_arguments.done", **about, "arguments": text})
        begun = {**item, "arguments": "", "status": "in_progress"}
    elif item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        deltas = [{"type": "response.reasoning_summary_part.added", **about, "summary_index": 0}]
        deltas += [{"type": "response.reasoning_summary_text.delta", **about, "delta": one} for one in words(text)]
        begun = {**item, "summary": [], "encrypted_content": None}
    else:
        part = item["content"][0]
        name = "output_text" if "text" in part else "refusal"
        text = part.get("text") or part["refusal"]
        deltas = [{"type": f"response.{name}.delta", **about, "delta": one} for one in words(text)]
        deltas.append({"type": f"response.{name}.done", **about, "text": text})
        begun = {**item, "content": [], "status": "in_progress"}
    added, done = (
        {"type": "response.output_item.added", "item": begun},
        {"type": "response.output_item.done", "item": item},
    )
    return [added, *deltas, done]


def words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)
