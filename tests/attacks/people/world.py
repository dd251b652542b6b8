"""The rows behind the model: people with keys and browsers, teams, and things of every kind, each with two marks."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from agents import roles
from agents.models import Agent, ApiKey, Chain, Membership, Prompt, Provider, Secret, Team, User
from functions import store
from functions.models import StoredFunction
from knowledge.models import Collection
from runs.models import Approval, Embed, Run, Session
from tests.attacks.people.model import RANKS, SHARERS, Model, Person, Thing
from tests.files import stored
from tests.people import EVERYTHING, ApiClient

NAMES = ("ann", "ben", "cat", "dan", "eve")
TEAMS = ("zq901x", "zq902x")
SCOPES = [
    ["*"], ["agents:read"], ["agents:write"], ["messages:read"], ["messages:write"], ["runs:read", "runs:write"],
    ["sessions:read"], ["functions:execute"], ["functions:read"], ["chains:read", "runs:write"], ["approvals:read"],
    ["approvals:decide"], ["collections:read"], ["prompts:write"], ["teams:read"], ["keys:read"],
]  # fmt: skip
LATER = timedelta(hours=9)
KINDS = ("agent", "function", "chain", "prompt", "provider", "secret", "collection", "file", "embed", "key", "run",
         "approval")  # fmt: skip


@dataclass
class Key:
    owner: str
    scopes: list[str]
    client: ApiClient
    row: ApiKey | None
    is_live: bool = True


@dataclass
class World:
    chance: random.Random
    model: Model = field(default_factory=Model)
    users: dict[str, User] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    browsers: dict[str, Client] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    count: int = 100

    @classmethod
    def make(cls, seed: int) -> "World":
        world = cls(random.Random(seed))
        roles.make_roles()
        provider = Provider.objects.create(name="offline", kind="offline")
        Agent.objects.create(name="quiet", provider=provider).publish()
        for name in NAMES:
            world.add_person(name)
        for mark in TEAMS:
            world.add_team(mark)
        for _ in range(4):
            for kind in (*KINDS, "approval", "approval"):
                world.add(kind)
        return world

    def new_mark(self) -> str:
        self.count += 1
        return f"zq{self.count}x"

    # -- people ----------------------------------------------------------------------------------------------------

    def add_person(self, name: str) -> None:
        self.users[name] = User.objects.create_user(name, f"{name}@example.org", "correct horse battery")
        self.model.people[name] = Person(name)
        self.set_rank(name, "author")
        self.add_key(name, EVERYTHING)
        self.add_key(name, ["*"])
        self.sign_in(name)

    def sign_in(self, name: str) -> None:
        browser = Client(raise_request_exception=False)
        browser.force_login(self.users[name])
        self.browsers[name] = browser

    def set_rank(self, name: str, rank: str) -> None:
        self.users[name].groups.set([Group.objects.get(name=rank)])
        self.model.people[name].rank = rank

    def set_active(self, name: str, is_active: bool) -> None:
        User.objects.filter(pk=self.users[name].pk).update(is_active=is_active)
        self.model.people[name].is_active = is_active

    def add_key(self, name: str, scopes: list[str]) -> Key:
        row, secret = ApiKey.make(self.users[name], scopes, name="key")
        key = Key(name, scopes, ApiClient(self.users[name], secret), row)
        self.keys.append(key)
        return key

    def add_team(self, mark: str) -> None:
        team = Team.objects.create(name=mark)
        self.rows[mark], self.model.teams[mark] = team, {}
        self.model.things[mark] = Thing("team", mark, None)
        members = self.chance.sample(NAMES, 4)
        for name, role in zip(members, ("administrator", "author", "operator", "viewer"), strict=True):
            self.set_role(mark, name, role)

    def set_role(self, mark: str, name: str, role: str) -> None:
        key = {"team": self.rows[mark], "user": self.users[name]}
        Membership.objects.update_or_create(**key, defaults={"role": role})
        self.model.teams[mark][name] = role

    def forget_member(self, mark: str, name: str) -> None:
        """What the model knows of somebody who left a team, or may share with it no longer."""
        for thing in self.model.things.values():
            if thing.owner == name and thing.team == mark and thing.kind != "approval":
                thing.team = None

    # -- things ----------------------------------------------------------------------------------------------------

    def add(self, kind: str) -> Thing:
        owner = self.chance.choice(NAMES)
        mark = self.new_mark()
        row, refers = getattr(self, f"make_{kind}")(self.users[owner], mark)
        thing = Thing(kind, mark, owner, refers=refers)
        self.rows[mark] = row
        self.model.things[mark] = thing
        if kind == "approval":
            self.ask_somebody(row, thing)
        elif hasattr(row, "team_id") and kind != "key":
            self.share_at_first(row, thing)
        return thing

    def share_at_first(self, row: Any, thing: Thing) -> None:
        """With a team in which its owner may share, if there is one; a few rows belong to the site."""
        mine = [mark for mark in TEAMS if self.model.get_role(mark, thing.owner) in SHARERS]
        if self.chance.random() < 0.1 and thing.kind not in ("function", "secret"):
            row.owner, thing.owner = None, None
        elif mine and self.chance.random() < 0.7:
            thing.team = self.chance.choice(mine)
            row.team = self.rows[thing.team]
        row.save()

    def make_agent(self, user: User, mark: str) -> Any:
        provider = Provider.objects.get(name="offline", owner=None)
        agent = Agent.objects.create(name=mark, description=content_of(mark), owner=user, provider=provider)
        agent.publish(author=user)
        return agent, ()

    def make_function(self, user: User, mark: str) -> Any:
        source = f'def {mark}(n: int = 1) -> str:\n    """{content_of(mark)}"""\n    return "{content_of(mark)}"\n'
        function = store.save_function(StoredFunction(name=mark, source=source, owner=user), user=user)
        store.publish_function(function, user=user)
        return StoredFunction.objects.get(pk=function.pk), ()

    def make_chain(self, user: User, mark: str) -> Any:
        chain = Chain.objects.create(name=mark, description=content_of(mark), owner=user)
        chain.replace_steps([{"key": "one", "agent": "quiet", "input": {"message": {"value": "hello"}}}])
        chain.publish(author=user)
        return chain, ()

    def make_prompt(self, user: User, mark: str) -> Any:
        return Prompt.objects.create(name=mark, text=content_of(mark), owner=user), ()

    def make_provider(self, user: User, mark: str) -> Any:
        return Provider.objects.create(name=mark, kind="offline", default_model=content_of(mark), owner=user), ()

    def make_secret(self, user: User, mark: str) -> Any:
        return Secret.objects.create(name=mark, value=f"{content_of(mark)}", hosts=["api.example.com"], owner=user), ()

    def make_collection(self, user: User, mark: str) -> Any:
        return Collection.objects.create(name=mark, description=content_of(mark), owner=user), ()

    def make_file(self, user: User, mark: str) -> Any:
        return stored(user, f"{mark}.txt", content=content_of(mark).encode()), ()

    def make_embed(self, user: User, mark: str) -> Any:
        agent = self.agent_for(user)
        return Embed.objects.create(owner=user, agent=self.rows[agent], title=mark, greeting=content_of(mark)), (agent,)

    def make_key(self, user: User, mark: str) -> Any:
        row, secret = ApiKey.make(user, ["agents:read"], name=mark)
        self.keys.append(Key(user.username, ["agents:read"], ApiClient(user, secret), row))
        return row, ()

    def make_run(self, user: User, mark: str, status: str = "queued") -> Any:
        mark_of_agent = self.agent_for(user)
        agent = self.rows[mark_of_agent]
        session = Session.objects.create(owner=user, agent=agent, title=mark, last_seq=1)
        run = Run.objects.create(principal=user, agent=agent, version=agent.published, session=session, status=status)
        session.messages.create(seq=1, role="user", run=run, content=[{"type": "text", "text": content_of(mark)}])
        return run, (mark_of_agent,)

    def make_approval(self, user: User, mark: str) -> Any:
        mark_of_run = self.new_mark()
        run, refers = self.make_run(user, mark_of_run, status="waiting")
        self.rows[mark_of_run] = run
        self.model.things[mark_of_run] = Thing("run", mark_of_run, user.username, refers=refers)
        made = Approval.objects.create(
            run=run, tool=mark, arguments={"to": content_of(mark)}, expires_at=timezone.now() + LATER
        )
        return made, refers

    def ask_somebody(self, row: Approval, thing: Thing) -> None:
        """As `runs/calls/grants.py` would: the agent's owner and team, if the run's person is among them."""
        agent = self.model.things[thing.refers[0]]
        is_among = agent.owner == thing.owner or self.model.get_role(agent.team, thing.owner) != ""
        if agent.team is None or not is_among:
            return
        thing.decides = self.chance.choice(["starter", "owner", "owner", "team", "team", "role"])
        thing.decider, thing.team = agent.owner, agent.team
        thing.decider_role = self.chance.choice(RANKS) if thing.decides == "role" else ""
        thing.not_starter = thing.decides != "starter" and self.chance.random() < 0.3
        row.decides, row.decider_role, row.not_starter = thing.decides, thing.decider_role, thing.not_starter
        row.decider, row.decider_team = self.users.get(thing.decider or ""), self.rows[thing.team]
        row.save()

    def agent_for(self, user: User) -> str:
        """An agent that this person may use; if there is none, a new one of theirs."""
        things = self.model.things.values()
        agents = [one for one in things if one.kind == "agent" and self.model.has_right(user.username, "use", one)]
        if agents:
            return self.chance.choice(agents).mark
        mark = self.new_mark()
        self.rows[mark], _ = self.make_agent(user, mark)
        self.model.things[mark] = Thing("agent", mark, user.username)
        return mark

    def forget(self, mark: str) -> None:
        """The thing was deleted, and with it what needs it."""
        self.model.things.pop(mark, None)


def content_of(mark: str) -> str:
    """What a thing contains, which nobody may read who may not see it, also if they know its name."""
    return mark.replace("zq", "zd").replace("x", "d")
