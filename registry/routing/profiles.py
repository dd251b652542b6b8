"""What the router knows about an agent, derived from its published spec and cached by content."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace
from typing import Any

from cachetools import LRUCache, cached
from django.db.models import IntegerField

from agents.models import Agent, AgentSpec
from agents.models.team import find_closed_rows
from knowledge.words import list_word_stems
from plumbing.statements import Select

WEIGHTS = {"capabilities": 3.0, "name": 2.0, "examples": 1.5, "description": 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """`weights` are word stems with their weights; `capabilities` are pairs of text and stems."""

    id: int
    name: str
    hash: str
    description: str
    capabilities: tuple[tuple[str, frozenset[str]], ...]
    examples: tuple[str, ...]
    weights: dict[str, float]

    @property
    def about(self) -> str:
        """The agent's description as a text for an embedding."""
        name = self.name.replace("-", " ")
        capabilities = ", ".join(text for text, _ in self.capabilities)
        return f"{name}: {self.description} {capabilities}".strip()

    @property
    def passages(self) -> list[tuple[str, ...]]:
        """The agent's capabilities and examples, as groups of texts. Empty groups are left out."""
        groups = []
        if self.capabilities:
            groups.append(tuple(text for text, _ in self.capabilities))
        if self.examples:
            groups.append(self.examples)
        return groups

    @property
    def text(self) -> str:
        """Everything about the agent that a classifier reads."""
        lines = [f"{self.name}: {self.description}"]
        if self.capabilities:
            lines.append("Can do: " + ", ".join(text for text, _ in self.capabilities))
        if self.examples:
            lines.append("For example: " + " / ".join(self.examples[:6]))
        return "\n".join(lines)


_profiles: LRUCache[tuple[int, str], Profile] = LRUCache(20_000)
_lock = Lock()


def query_usable(at: Any) -> Any:
    person = SimpleNamespace(pk=at.user, is_authenticated=True)
    rows = Agent.objects.usable_by(person).published().nearest_first(person)
    return rows.values_list("pk", "name", "live_hash", "owner", "team")


USABLE = Select(query_usable, user=IntegerField())


def list_profiles(user: Any, also_for: Collection[int] = ()) -> list[Profile]:
    """The published agents that this user can use, nearest owner first among equal names. A name
    that only teams share, and two of them, means none. `also_for` are ids of people who must be able to use them too.

    One query when all profiles are cached.
    """
    if not user.is_authenticated:
        return []
    rows = USABLE.all(user=user.pk)
    closed: Collection[int] = ()
    if also_for:
        owners = {pk: (owner, team) for pk, _, _, owner, team in rows}
        closed = find_closed_rows(owners, also_for)
    by_name: dict[str, list[tuple[int, str, bool]]] = {}
    for pk, name, live_hash, owner, team in rows:
        if pk not in closed:
            is_of_team = owner != user.pk and team is not None
            by_name.setdefault(name, []).append((pk, live_hash, is_of_team))
    keys = []
    for same_name in by_name.values():
        pk, live_hash, is_of_team = same_name[0]
        if len(same_name) == 1 or not is_of_team:
            keys.append((pk, live_hash))
    with _lock:
        profiles = {key: _profiles[key] for key in keys if key in _profiles}
    if len(profiles) == len(keys):
        return list(profiles.values())
    profiles |= build_profiles([key for key in keys if key not in profiles])
    return [profiles[key] for key in keys if key in profiles]


def build_profiles(keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Profile]:
    """Each is kept by the hash that was read together with it: an agent may be published in between."""
    hashes = dict(keys)
    profiles: dict[tuple[int, str], Profile] = {}
    for start in range(0, len(keys), 500):
        ids = [pk for pk, _ in keys[start : start + 500]]
        rows = Agent.objects.filter(pk__in=ids, published__isnull=False)
        for agent_id, live_hash, spec in rows.values_list("pk", "live_hash", "published__spec"):
            key = (agent_id, live_hash)
            profiles[(agent_id, hashes[agent_id])] = read_profile(spec, key)
    return profiles


@cached(_profiles, key=lambda spec, key: key, lock=_lock)
def read_profile(spec: dict[str, Any], key: tuple[int, str]) -> Profile:
    parsed = AgentSpec.model_validate(spec)
    return build_profile(parsed, *key)


def build_profile(spec: AgentSpec, id: int = 0, hash: str = "") -> Profile:
    texts = {
        "capabilities": spec.capabilities,
        "name": [spec.name.replace("-", " ")],
        "examples": spec.examples,
        "description": [spec.description],
    }
    weights: dict[str, float] = {}
    for field, phrases in texts.items():
        # The dots keep the end of one phrase and the beginning of the next apart.
        stems = list_word_stems(" . ".join(map(str, phrases)))
        for stem in set(stems):
            weights[stem] = max(weights.get(stem, 0.0), WEIGHTS[field])
    capabilities = [(text, frozenset(list_word_stems(text))) for text in spec.capabilities]
    return Profile(
        id=id,
        name=spec.name,
        hash=hash,
        description=spec.description,
        capabilities=tuple(capabilities),
        examples=tuple(spec.examples),
        weights=weights,
    )
