"""Who may see and do what: the promises of docs/security.md as one small model. It knows no row of Muster."""

from dataclasses import dataclass, field

RANKS = ("viewer", "operator", "author", "administrator")  # roles on the site
OPERATED = ("messages", "runs", "sessions", "approvals", "keys", "collections", "prompts")
PERSONAL = ("session", "run", "file", "embed", "key")
SHARERS = ("author", "administrator")  # roles in a team


@dataclass
class Person:
    name: str
    rank: str = "author"
    is_active: bool = True


@dataclass
class Thing:
    """A row. Its mark is its name, its content another mark; what it refers to is named beside it."""

    kind: str
    mark: str
    owner: str | None
    team: str | None = None
    refers: tuple[str, ...] = ()
    decides: str = "starter"  # the four fields of an approval
    decider: str | None = None
    decider_role: str = ""
    not_starter: bool = False


@dataclass
class Model:
    people: dict[str, Person] = field(default_factory=dict)
    teams: dict[str, dict[str, str]] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)

    def may(self, name: str, verb: str, thing: Thing, scope: str, scopes: list[str] | None) -> bool:
        """Whether this person may do it at all, by a door that asks for this scope, with a key of these scopes."""
        person = self.people.get(name)
        return (
            person is not None
            and person.is_active
            and (scopes is None or is_allowed(scopes, scope))
            and RANKS.index(person.rank) >= rank_for(scope)
            and self.has_right(name, verb, thing)
        )

    def has_right(self, name: str, verb: str, thing: Thing) -> bool:
        if thing.kind == "team":
            role = self.teams[thing.mark].get(name)
            return role == "administrator" if verb == "change" else role is not None
        if thing.kind == "approval":
            return self.decides(name, thing) or (verb == "see" and thing.owner == name)
        if thing.owner in (name, None):
            return thing.owner == name or verb in ("see", "use")
        role = self.role_in(thing.team, name)
        return thing.kind not in PERSONAL and (verb == "see" or (verb == "use" and role != "viewer")) and role != ""

    def decides(self, name: str, thing: Thing) -> bool:
        role = self.role_in(thing.team, name)
        chosen = {"starter": name == thing.owner, "owner": name == thing.decider, "team": role not in ("", "viewer"),
                  "role": role == thing.decider_role}[thing.decides]  # fmt: skip
        agent = self.things.get(thing.refers[0])
        is_shared = agent is not None and thing.team is not None and agent.team == thing.team
        is_among = thing.owner == thing.decider or self.role_in(thing.team, thing.owner) != ""
        is_own = name == thing.owner
        return chosen and not (thing.not_starter and is_own) and (is_own or (is_shared and is_among))

    def role_in(self, team: str | None, name: str | None) -> str:
        return self.teams.get(team or "", {}).get(name or "", "")

    def seen_by(self, name: str) -> set[str]:
        """The marks of all that this person may see, and of what it names."""
        seen = [thing for thing in self.things.values() if self.has_right(name, "see", thing)]
        teams = {thing.team for thing in seen if thing.team}
        return {thing.mark for thing in seen} | {mark for thing in seen for mark in thing.refers} | teams


def is_allowed(scopes: list[str], scope: str) -> bool:
    everything = "*" in scopes and scope != "approvals:decide"
    return scope == "" or scope in scopes or everything


def rank_for(scope: str) -> int:
    """The lowest role on the site whose people may do what takes this scope."""
    resource, _, verb = scope.partition(":")
    if verb == "read" or not scope:
        return 0
    return 1 if resource in OPERATED or scope == "functions:execute" else 2
