"""The world outside Muster: a model, and a till whose charges cannot be taken back. Both do what the order says.

An order is the text of a message: its number, the seconds that the model thinks before each answer, and the seconds that
the charge takes, such as “order-7 0.5 2”. The till's list is the ledger: what was really done.
"""

import re
import time
from collections import Counter
from typing import Any

from tests.connectors.loopback import Answer, Asked, Loopback
from tests.fakes import StubOpenAI, Turn, calls, fails, says

from .network import OUTSIDE

STUMBLES = "stumble"
stumbled: set[str] = set()  # texts that had their error


def order(number: int, thinks_s: float = 0.0, takes_s: float = 0.0) -> str:
    return f"order-{number} {thinks_s} {takes_s}"


class Till(Loopback):
    def __init__(self) -> None:
        super().__init__(OUTSIDE)
        self.begun: list[str] = []
        self.routes.append(("POST", re.compile(r"/charges"), self.charge))

    def charge(self, asked: Asked) -> Any:
        self.begun.append(asked.json["order"])
        return {"ok": True}

    def answer(self, asked: Asked) -> Answer:
        answer = super().answer(asked)
        time.sleep(float(asked.json["order"].split()[2]))  # without the lock
        return answer

    @property
    def charged(self) -> Counter[str]:
        return Counter(self.begun)

    def document(self) -> dict[str, Any]:
        body = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
        asked = {"required": True, "content": {"application/json": {"schema": body}}}
        return {
            "openapi": "3.1.0",
            "info": {"title": "Till", "version": "1"},
            "servers": [{"url": self.url}],
            "paths": {"/charges": {"post": {"operationId": "charge", "summary": "Charge.", "requestBody": asked}}},
        }


def pay_once(body: dict[str, Any]) -> Turn:
    """What the model does: charge the order, once, then say so. Without tools it only answers, and what begins with
    `STUMBLES` gets an error first.
    """
    asked = [message["content"] for message in body["messages"] if message["role"] == "user"][-1]
    if asked.startswith(STUMBLES) and asked not in stumbled:
        stumbled.add(asked)
        return fails(400)
    thinks_s = float(asked.split()[1])
    tool = next((tool["function"] for tool in body.get("tools", ()) if "charge" in tool["function"]["name"]), None)
    if tool is None or body["messages"][-1]["role"] == "tool":
        return says("done", silent_s=thinks_s)
    is_wrapped = "body" in tool["parameters"].get("properties", {})
    return calls((tool["name"], {"body": {"order": asked}} if is_wrapped else {"order": asked}), silent_s=thinks_s)


def model() -> StubOpenAI:
    made = StubOpenAI(host=OUTSIDE)
    made.otherwise = pay_once
    return made
