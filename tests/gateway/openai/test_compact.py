"""Compacted conversations, through OpenAI's SDK."""

import openai
import pytest

from tests.fakes import says
from tests.gateway.live_agents import new_key

pytestmark = pytest.mark.live


def test_a_compacted_conversation_goes_on_from_its_summary(client, model):
    model.script(says("Hello Alice."), says("The user is Alice."), says("You are Alice."))
    first = client.responses.create(model="plain", input="My name is Alice.")
    compacted = client.responses.compact(model="plain", previous_response_id=first.id)
    assert compacted.object == "response.compaction" and compacted.usage.total_tokens > 0
    asked, item = compacted.output
    assert (asked.type, asked.content[0].text, item.type) == ("message", "My name is Alice.", "compaction")
    assert "Alice" not in item.encrypted_content
    assert "Summarise this conversation" in model.requests[1]["messages"][0]["content"]
    assert [one["content"] for one in model.requests[1]["messages"][1:3]] == ["My name is Alice.", "Hello Alice."]

    items = [one.model_dump(exclude_none=True, warnings=False) for one in compacted.output]  # “input_text” in an output
    answer = client.responses.create(model="plain", input=[*items, {"role": "user", "content": "Who am I?"}])
    assert answer.output_text == "You are Alice."
    said = [one["content"] for one in model.requests[2]["messages"][1:]]
    assert "The user is Alice." in said[1] and said[-1] == "Who am I?"


def test_a_summary_is_for_its_own_person_and_only_as_muster_made_it(client, agents, model):
    live, _ = agents
    model.script(says("A secret."))
    items = [{"role": "user", "content": "Remember this."}]
    item = client.responses.compact(model="plain", input=items).output[-1].model_dump(exclude_none=True)
    other = openai.OpenAI(base_url=f"{live.url}/v1", api_key=new_key(live, "compact-stranger", "*"), max_retries=0)
    for who, content in ((other, item["encrypted_content"]), (client, "gAAAAAforged"), (client, "")):
        sent = [{**item, "encrypted_content": content}, {"role": "user", "content": "Tell me."}]
        with pytest.raises(openai.BadRequestError) as refused:
            who.responses.create(model="router", input=sent)
        assert refused.value.code == "invalid_encrypted_content"
    with pytest.raises(openai.BadRequestError):
        other.responses.compact(model="router", previous_response_id="resp_" + "0" * 32)
    with pytest.raises(openai.BadRequestError):
        client.responses.compact(model="plain")
