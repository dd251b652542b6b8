"""One table: each server of the zoo plays each story, with a listener and without, and both come out the same."""

from dataclasses import replace

import pytest

from registry.exceptions import AttemptFailed
from registry.llm.chat import Question
from registry.llm.watch import Watch

from .acts import fails, says
from .keepers import SERVERS
from .stories import STORIES, SYSTEM, play, user

# Stories that a server cannot play, with the reason from its documentation.
NOT_APPLICABLE = {
    ("openai", "reasoning"): "chat completions do not show what the model thinks",
    ("openai", "reasoning and call"): "chat completions do not show what the model thinks",
    ("azure", "reasoning"): "as OpenAI",
    ("azure", "reasoning and call"): "as OpenAI",
    ("gemini", "reasoning"): "the compatible endpoint shows thoughts only on request",
    ("gemini", "reasoning and call"): "the compatible endpoint shows thoughts only on request",
}
# What these servers want back is there at once, not only after a refusal.
SENT_BACK = {("reasoning and call", server) for server in ("deepseek", "openrouter", "litellm", "groq", "anthropic")}
SENT_BACK |= {("several turns", server) for server in ("gemini", "google", "litellm")}
CELLS = [(server, story) for server in SERVERS for story in STORIES]


@pytest.mark.parametrize(("server", "name"), CELLS, ids=[f"{server}-{story}" for server, story in CELLS])
def test_a_server_plays_a_story(keep, server, name):
    if reason := NOT_APPLICABLE.get((server, name)):
        pytest.skip(reason)
    story = STORIES[name]
    journals = []
    for listens in (False, True):
        pool, model = keep(server, size=7 if listens else 512)
        if server == "vllm without a parser":
            learn_that_its_template_opens_thoughts(pool, model)
        pool.script(*story.acts)
        journal = play(model, pool.server.model, story, listens=listens)
        check(journal, story, listens=listens)
        assert len(set(pool.complaints)) == len(pool.complaints), "a server had to refuse the same thing twice"
        assert (name, server) not in SENT_BACK or not pool.complaints
        journals.append((journal.entries, ["".join(text.split()) for text in journal.reasoning], journal.finishes))
    assert journals[0] == journals[1]


def learn_that_its_template_opens_thoughts(pool, model):
    """What was heard before the first closing tag cannot be taken back; test_runs.py tells what becomes of it."""
    pool.script(says("Good day.", reasoning="They greet me."))
    model.ask(Question(pool.server.model, [SYSTEM, user("Hello")], (), None, None, Watch()))


def check(journal, story, *, listens):
    if story.expected is None:  # a refusal: its text is the reply, or nothing but its reason is known
        [(text, made)] = journal.entries
        assert text and not made and journal.finishes in (["refusal"], ["safety"], ["content_filter"], ["stop"])
        return
    assert journal.entries == story.expected
    if story.tries is not None and journal.attempts:
        assert journal.attempts == story.tries
    thoughts = [act.reasoning for act in story.acts if not act.fault]
    if any(thoughts):
        assert ["".join(text.split()) for text in journal.reasoning] == ["".join(text.split()) for text in thoughts]
    if listens:
        spoken = "".join(entry[0] for entry in journal.entries if isinstance(entry, tuple))
        assert "".join(journal.heard) == spoken


@pytest.mark.parametrize("listens", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("server", SERVERS)
def test_the_tokens_of_an_answer_are_counted(keep, server, listens):
    assert count_tokens(*keep(server), listens=listens) == (11, 7)


@pytest.mark.parametrize("told", [{}, {"input_tokens": 0}, {"input_tokens": 1, "cache_read_input_tokens": 10}], ids=str)
def test_a_prompt_is_counted_once_wherever_anthropic_and_its_proxies_tell_it(keep, told):
    pool, model = keep("anthropic")
    pool.server.counted_at_the_end = told
    assert count_tokens(pool, model, listens=True) == (11, 7)


def count_tokens(pool, model, *, listens):
    pool.script(says("Good day."))
    hear = (lambda text: None) if listens else None
    answer = model.ask(Question(pool.server.model, [SYSTEM, user("Hello")], (), None, hear, Watch()))
    return answer.input_tokens, answer.output_tokens


@pytest.mark.parametrize("name", ["Retry-After", "llm_provider-retry-after"])
def test_the_wait_that_a_server_or_its_proxy_asks_for_is_known(keep, name):
    pool, model = keep("litellm")
    pool.server.faults = {"busy": replace(pool.server.faults["busy"], headers={name: "7"})}
    pool.script(fails("busy"))
    with pytest.raises(AttemptFailed) as failure:
        model.ask(Question(pool.server.model, [user("Hello")], (), None, None, Watch()))
    assert (failure.value.code, failure.value.retry_after) == ("model_rate_limited", 7)
