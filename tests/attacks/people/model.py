"""Who may see and do what: the promises of docs/security.md as one small model. It knows no row of Muster."""

from dataclasses import dataclass, field

# Roles on the site, the lowest first.
RANKS = ("viewer", "operator", "author", "administrator")
# What an operator may write.
OPERATED = ("messages", "runs", "sessions", "approvals", "keys", "collections", "prompts")
# Kinds that belong to one person, whoever is in a team with them.
PERSONAL = ("session", "run", "file", "embed", "key")
# Roles in a team whose people may share.
SHARERS = ("author", "administrator")


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
        if person is None or not person.is_active:
            return False
        is_open = scopes is None or is_allowed(scopes, scope)
        is_ranked = RANKS.index(person.rank) >= find_lowest_rank(scope)
        return is_open and is_ranked and self.has_right(name, verb, thing)

    def has_right(self, name: str, verb: str, thing: Thing) -> bool:
        """Whether this person may do it to this thing, whatever their role on the site and their key."""
        if thing.kind == "team":
            role = self.teams[thing.mark].get(name)
            return role == "administrator" if verb == "change" else role is not None
        if thing.kind == "approval":
            return self.may_decide(name, thing) or (verb == "see" and thing.owner == name)
        if thing.owner == name:
            return True
        if thing.owner is None:  # the site's
            return verb in ("see", "use")
        role = self.get_role(thing.team, name)
        if thing.kind in PERSONAL or role == "":
            return False
        return verb == "see" or (verb == "use" and role != "viewer")

    def may_decide(self, name: str, approval: Thing) -> bool:
        is_starter = name == approval.owner
        if not self.is_chosen(name, approval) or (approval.not_starter and is_starter):
            return False
        if is_starter:
            return True
        # Others decide only while the agent is shared with the team, and the run's person is among its users.
        agent = self.things.get(approval.refers[0])
        is_shared = agent is not None and approval.team is not None and agent.team == approval.team
        is_among = approval.owner == approval.decider or self.get_role(approval.team, approval.owner) != ""
        return is_shared and is_among

    def is_chosen(self, name: str, approval: Thing) -> bool:
        """Whether the grant names this person."""
        role = self.get_role(approval.team, name)  # empty outside the team
        if approval.decides == "starter":
            return name == approval.owner
        if approval.decides == "owner":
            return name == approval.decider
        if approval.decides == "team":
            return role not in ("", "viewer")
        return role == approval.decider_role

    def get_role(self, team: str | None, name: str | None) -> str:
        return self.teams.get(team or "", {}).get(name or "", "")

    def find_visible_marks(self, name: str) -> set[str]:
        """The marks of all that this person may see, and of what it names."""
        marks: set[str] = set()
        for thing in self.things.values():
            if not self.has_right(name, "see", thing):
                continue
            marks.add(thing.mark)
            marks.update(thing.refers)
            if thing.team:
                marks.add(thing.team)
        return marks


def is_allowed(scopes: list[str], scope: str) -> bool:
    """Whether a key with these scopes may do what takes this one. To decide is never part of “everything”."""
    if scope == "" or scope in scopes:
        return True
    return "*" in scopes and scope != "approvals:decide"


def find_lowest_rank(scope: str) -> int:
    """The lowest role on the site whose people may do what takes this scope."""
    resource, _, verb = scope.partition(":")
    if verb == "read" or not scope:
        return RANKS.index("viewer")
    if resource in OPERATED or scope == "functions:execute":
        return RANKS.index("operator")
    return RANKS.index("author")
