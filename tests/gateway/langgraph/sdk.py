"""Requests with LangGraph's SDK and what they return."""

import time

from langgraph_sdk import get_sync_client


def client_of(live, key):
    return get_sync_client(url=f"{live.url}/langgraph", api_key=key, timeout=60)


def human(text, **more):
    return {"messages": [{"type": "human", "content": text, **more}]}


def texts_of(values):
    return [(one["type"], one["content"]) for one in values["messages"]]


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return result
