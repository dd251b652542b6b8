"""One table: each server of the zoo plays each story, with a listener and without, and both come out the same."""

import pytest

from .keepers import SERVERS
from .stories import STORIES, play

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
        pool.script(*story.acts)
        journal = play(model, pool.server.model, story, listens=listens)
        check(journal, story, listens=listens)
        assert len(set(pool.complaints)) == len(pool.complaints), "a server had to refuse the same thing twice"
        assert (name, server) not in SENT_BACK or not pool.complaints
        journals.append((journal.entries, ["".join(text.split()) for text in journal.reasoning], journal.finishes))
    assert journals[0] == journals[1]


def check(journal, story, *, listens):
    if story.expected is None:  # a refusal: its text is the reply, or nothing but its reason is known
        [(text, made)] = journal.entries
        assert text and not made and journal.finishes in (["refusal"], ["safety"], ["stop"])
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
