"""The right agent gets the message, and the decision says why."""

import json
from dataclasses import dataclass

import pytest

from agents.exceptions import NotFound
from agents.models import Agent, AgentSpec, Provider
from registry.exceptions import AttemptFailed
from registry.routing import delegation, embeddings, router
from registry.routing.profiles import build_profile
from tests.fakes import fails, says

pytestmark = pytest.mark.django_db

COOK = {
    "description": "Suggests recipes and plans meals.",
    "capabilities": ["recipes", "meal planning"],
    "examples": ["What can I cook with leeks?"],
}
CLERK = {"description": "Answers e-mail and sorts the inbox.", "capabilities": ["email"], "examples": ["Any mail?"]}


@pytest.fixture
def crew(make_agent):
    return {"cook": make_agent("cook", **COOK), "clerk": make_agent("clerk", **CLERK)}


@dataclass
class Did:
    success_score: float
    p50_s: float = 1.0


def test_the_named_agent_gets_the_message(alice, crew):
    assert router.route(alice, "Any mail?", explicit="cook").method == "explicit"
    assert router.route(alice, "Any mail?", explicit=crew["cook"]).agent == crew["cook"]


def test_naming_nobody_is_an_error(alice, crew):
    with pytest.raises(NotFound):
        router.route(alice, "Hello", explicit="gardener")


def test_a_conversation_stays_with_its_agent(alice, crew):
    found = router.route(alice, "Any mail?", session_agent=crew["cook"])
    assert (found.agent, found.method) == (crew["cook"], "session")


def test_a_conversation_whose_agent_was_switched_off_is_routed_anew(alice, crew):
    crew["cook"].enabled = False
    crew["cook"].save()
    assert router.route(alice, "Sort my email", session_agent=crew["cook"]).agent == crew["clerk"]


def test_a_capability_in_the_message_decides(alice, crew):
    found = router.route(alice, "I need two recipes for Sunday")
    assert (found.agent, found.method) == (crew["cook"], "capability")
    assert "recipes" in found.reason and found.candidates[0].agent == "cook"


def test_words_decide_where_they_are_telling(alice, crew):
    found = router.route(alice, "Is there something in my inbox?", methods=["words"])
    assert found.agent is None and found.candidates[0].agent == "clerk"  # one word of a description is not enough
    found = router.route(alice, "Sort my inbox and answer what can be answered")
    assert (found.agent, found.method) == (crew["clerk"], "words") and "inbox" in found.reason


def test_nobody_fits_is_an_answer(alice, crew):
    found = router.route(alice, "How tall is the Matterhorn?")
    assert (found.agent, found.method) == (None, "nobody") and found.reason


def test_without_agents_it_says_so(alice):
    found = router.route(alice, "Hello")
    assert found.agent is None and "no published agent" in found.reason


def test_a_stranger_is_not_routed_to_alices_agents(charlie, crew):
    assert router.route(charlie, "I need two recipes").agent is None


def test_unpublished_and_disabled_agents_get_nothing(alice, crew, offline):
    Agent.objects.create(owner=alice, name="draft", provider=offline, capabilities=["poems"])
    Agent.objects.filter(name="cook").update(enabled=False)
    assert router.route(alice, "Write poems").agent is None
    assert router.route(alice, "I need two recipes").agent is None


def test_ones_own_agent_hides_the_sites_of_that_name(alice, make_agent, crew):
    site = Agent.objects.create(name="cook", provider=crew["cook"].provider, **COOK)
    site.publish()
    assert router.route(alice, "I need two recipes").agent == crew["cook"]


def test_of_two_equally_good_the_better_record_wins(alice, make_agent):
    one, two = make_agent("one", **COOK), make_agent("two", **COOK)
    assert router.route(alice, "two recipes please").agent == one
    found = router.route(alice, "two recipes please", track_record=lambda ids: {one.pk: Did(0.4), two.pk: Did(0.9)})
    assert found.agent == two and "equally good: one" in found.reason


def test_an_agent_that_fits_twice_is_not_its_own_rival(alice, make_agent):
    make_agent("cook", capabilities=["recipes", "menus"])
    found = router.route(alice, "recipes and menus please")
    assert found.agent.name == "cook" and found.reason == "can do “recipes”, “menus”" and len(found.candidates) == 1


def test_an_agent_that_goes_while_it_is_chosen_gets_nothing(alice, crew):
    def switch_off(ids):
        Agent.objects.filter(pk__in=ids).update(enabled=False)
        return {}

    make = Agent.objects.get(name="clerk")
    make.capabilities = ["recipes"]
    make.save()
    make.publish()
    found = router.route(alice, "two recipes please", track_record=switch_off)
    assert (found.agent, found.method) == (None, "nobody") and "switched off since" in found.reason


def test_a_reason_stays_short_however_much_a_message_shares(alice, make_agent):
    words = [f"word{letter}{other}" for letter in "abcdefghijklmnop" for other in "abcdefghijklmnop"]
    make_agent("talker", description=" ".join(words))
    found = router.route(alice, " ".join(words))
    assert found.agent.name == "talker" and len(found.reason) <= 100


def test_a_change_of_description_is_seen_at_once(alice, crew):
    cook = crew["cook"]
    cook.capabilities = ["woodwork"]
    cook.save()
    cook.publish()
    assert router.route(alice, "I need two recipes").agent is None
    assert router.route(alice, "Some woodwork").agent == cook


def test_among_known_agents_it_costs_two_queries(alice, crew, django_assert_num_queries):
    router.route(alice, "I need two recipes")
    with django_assert_num_queries(2):  # who there is, and the one that was chosen
        router.route(alice, "I need two recipes")


@pytest.fixture
def site_stub(stub, settings):
    Provider.objects.create(name="mind", kind="openai-compatible", base_url=stub.url)
    settings.ROUTER_MODEL = "mind:small"
    return stub


def verdict(agent, **more):
    return says(json.dumps({"agent": agent, "confidence": 0.9, "reason": "it is about food", **more}))


def test_the_configured_model_decides(alice, crew, site_stub):
    site_stub.script(verdict("cook"))
    found = router.route(alice, "I am hungry")
    assert (found.agent, found.method, found.reason) == (crew["cook"], "classifier", "it is about food")
    sent = site_stub.requests[0]
    offered = sent["response_format"]["json_schema"]["schema"]["properties"]["agent"]["enum"]
    assert set(offered) == {"clerk", "cook", "NOBODY"}


def test_the_models_nobody_is_final(alice, crew, site_stub):
    site_stub.script(verdict("NOBODY"))
    assert router.route(alice, "Sort my inbox and answer what can be answered").method == "classifier"


@pytest.mark.parametrize("answer", [says("The cook, I think."), verdict("gardener"), fails(401)])
def test_a_model_that_does_not_answer_properly_is_passed_over(alice, crew, site_stub, answer):
    site_stub.script(answer)
    found = router.route(alice, "Sort my inbox and answer what can be answered")
    assert (found.agent, found.method) == (crew["clerk"], "words")


def test_embeddings_decide_where_they_are_configured(alice, crew, stub, settings):
    Provider.objects.create(name="mind", kind="openai-compatible", base_url=stub.url)
    settings.ROUTER_EMBEDDINGS = "mind:embed"
    found = router.route(alice, "What can I cook with leeks tonight?", methods=["embeddings"])
    assert (found.agent, found.method) == (crew["cook"], "embeddings")
    assert router.route(alice, "zzz", methods=["embeddings"]).agent is None


def test_one_fitting_example_counts_among_many_others(alice, make_agent, stub, settings):
    Provider.objects.create(name="mind", kind="openai-compatible", base_url=stub.url)
    settings.ROUTER_EMBEDDINGS = "mind:embed"
    examples = ["Water the roses", "Mow the lawn", "Rake leaves", "Prune the vine", "Repot my ficus", "Feed pigeons"]
    make_agent("gardener", description="Looks after plants.", capabilities=["gardening"], examples=examples)
    make_agent("porter", description="Carries the bags.", capabilities=["luggage"], examples=["Carry my bags"])
    found = router.route(alice, "Please repot my ficus", methods=["embeddings"])
    assert found.agent.name == "gardener" and found.candidates[0].score > found.candidates[1].score


def test_equally_near_agents_both_win_and_one_that_hardly_leads_does_not(settings):
    settings.ROUTER_NEAR, settings.ROUTER_AHEAD = 0.2, 0.05
    one, two, far = (build_profile(AgentSpec(name=name)) for name in ("one", "two", "far"))
    assert embeddings.winners([(one, 0.5), (two, 0.5), (far, 0.3)]) == [one, two]
    assert embeddings.winners([(one, 0.5), (two, 0.47)]) == []
    assert embeddings.winners([(one, 0.1)]) == [] == embeddings.winners([])


def test_a_second_message_embeds_no_agent_again(alice, crew, stub, settings):
    Provider.objects.create(name="mind", kind="openai-compatible", base_url=stub.url)
    settings.ROUTER_EMBEDDINGS = "mind:embed"
    router.route(alice, "Soup?", methods=["embeddings"])
    before = len(stub.embedded)
    router.route(alice, "Stew?", methods=["embeddings"])
    assert [body["input"] for body in stub.embedded[before:]] == [["Stew?"]]


def test_embeddings_that_are_down_are_passed_over(alice, crew, stub, settings):
    Provider.objects.create(name="mind", kind="openai-compatible", base_url="http://127.0.0.1:1/v1")
    settings.ROUTER_EMBEDDINGS = "mind:embed"
    assert embeddings.rank_by_meaning(alice, "soup", []) is None
    assert router.route(alice, "I need two recipes").method == "capability"


def test_a_task_is_delegated_by_capability_words_and_record(alice, make_agent):
    make_agent("soups", **COOK | {"description": "Soups and stews."})
    cakes = make_agent("cakes", **COOK | {"description": "Cakes and pies."})
    found = delegation.for_capability(alice, "recipes", "A cake with plums")
    assert found.agent == cakes and "words" in found.reason and len(found.candidates) == 2
    records = {agent.pk: Did(0.9 if agent.name == "soups" else 0.1) for agent in Agent.objects.all()}
    found = delegation.for_capability(alice, "recipes", "Anything", track_record=lambda ids: records)
    assert found.agent.name == "soups" and "success score 0.90" in found.reason


def test_a_capability_nobody_has_is_said(alice, crew):
    found = delegation.for_capability(alice, "astronomy", "Find Mars")
    assert found.agent is None and "nobody has this capability" in found.reason


def test_nobody_delegates_to_itself(alice, crew):
    found = delegation.for_capability(alice, "recipes", "Soup", excluding=[crew["cook"].pk])
    assert found.agent is None and "already working" in found.reason


@pytest.mark.parametrize(
    "vector", [[0.5] * 8193, [1e308] * 4, [float("nan")], [10**400], ["x"], [[1]], None, 5, "1e999"]
)
def test_vectors_that_would_fill_the_memory_or_compare_with_nothing_are_refused(vector):
    """A server of embeddings is chosen by any author, and its vectors are compared in the serving process."""
    with pytest.raises(AttemptFailed) as refused:
        embeddings.read_vectors({"data": [{"index": 0, "embedding": vector}]})
    assert refused.value.code == "bad_answer"
    assert len(embeddings.read_vectors({"data": [{"index": 0, "embedding": [0.5] * 8192}]})[0]) == 8192
