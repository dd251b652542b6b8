"""The floor: a bare FastAPI + LangChain app with one tool, nothing stored, no queue, no accounts."""

import os
from typing import Any

from fastapi import FastAPI
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

app = FastAPI()


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


model = ChatOpenAI(model="stub", base_url=os.environ["STUB_URL"], api_key="none", max_retries=0)
agent = create_agent(model, [add], system_prompt="You add numbers with your tool.")


@app.post("/messages")
async def messages(body: dict[str, Any]) -> dict[str, Any]:
    answer = await agent.ainvoke({"messages": [{"role": "user", "content": body["message"]}]})
    return {"reply": answer["messages"][-1].content}
