"""The walk: one random step after the other, each answer compared with what the model says.

What is checked of every answer: it is let in exactly if the model says so; nothing in it names or contains what the
person may not see; and what was refused has changed no row and started no run. Lists name all that the person may see.
"""

import random
import re
from collections.abc import Callable
from typing import Any

from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client
from django.utils import timezone

from agents.models import ApiKey, Invitation
from runs.models import Approval, Run
from tests.attacks.people.doors import DOORS, GLANCES, JSON, LISTS, SEARCHES, V1, Door, is_refused
from tests.attacks.people.model import RANKS, SHARERS, Thing, find_lowest_rank, is_allowed
from tests.attacks.people.world import KINDS, NAMES, SCOPES, TEAMS, Key, World, content_of

MARK = re.compile(r"(?<![A-Za-z0-9])z([qd])(\d{3,})[xd](?![A-Za-z0-9])")
RESOURCES = {"agent": "agents", "function": "functions", "chain": "chains", "prompt": "prompts",
             "provider": "providers", "secret": "secrets", "collection": "collections"}  # fmt: skip
DELETED = {"prompt": "prompts/{name}", "secret": "secrets/{name}", "collection": "collections/{name}",
           "file": "files/{pk}", "embed": "embeds/{pk}", "key": "keys/{pk}"}  # fmt: skip
WRITES = {"file": "messages:write", "embed": "agents:write"}
OF_THE_MOMENT = re.compile(r'"(last_used_at|request_id)":("[^"]*"|null)')
OF_REQUEST = ("X-Request-ID", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Limit", "Date", "Server-Timing")
MOST_TOLD = 12  # of the last steps, when something is found


class Hole(AssertionError):
    """The site and the model disagree."""


class Walk:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World.make(seed)
        self.model = self.world.model
        self.chance = random.Random(seed + 1)
        self.told: list[str] = []
        self.used: dict[str, set[str]] = {name: set() for name in NAMES}  # what runs of theirs name since
        self.stranger = Client(raise_request_exception=False)

    def go(self, steps: int) -> None:
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.try_a_door, 62), (self.read_a_list, 8), (self.glance, 3), (self.search, 5), (self.share, 6),
            (self.compare, 2),
            (self.delete, 2), (self.add, 3), (self.change_members, 2), (self.leave, 1), (self.invite, 2),
            (self.change_rank, 2), (self.change_account, 1), (self.change_keys, 3),
        ]  # fmt: skip
        chosen = self.chance.choices([step for step, _ in kinds], [weight for _, weight in kinds], k=steps)
        for step in chosen:
            step()

    # -- what is checked ---------------------------------------------------------------------------------------------

    def find(self, what: str) -> None:
        steps = "\n  ".join(self.told[-MOST_TOLD:])
        raise Hole(f"seed {self.seed}, step {len(self.told)}: {what}\n  {steps}")

    def note(self, who: str, what: str, answer: Any) -> None:
        self.told.append(f"{who}: {what} -> {answer.status_code}")
        if answer.status_code >= 500:
            self.find("the site broke")

    def check_marks(self, name: str, answer: Any, *addressed: str) -> set[str]:
        """What the answer names, none of which is hidden from this person."""
        text = read_all(answer)
        found = {(kind, number) for kind, number in MARK.findall(text)}
        named = {f"zq{number}x" for kind, number in found if kind == "q"}
        contained = {f"zq{number}x" for kind, number in found if kind == "d"}
        seen = self.model.find_visible_marks(name) | self.used.get(name, set())
        if hidden := named - seen - set(addressed):
            self.find(f"it names {sorted(hidden)}")
        if hidden := contained - self.model.find_visible_marks(name):
            self.find(f"it contains {sorted(map(content_of, hidden))}")
        return named | contained

    def hand(self) -> tuple[str, Key | None]:
        """Somebody, with one of their keys or none: a browser."""
        if self.chance.random() < 0.25:
            return self.chance.choice(NAMES), None
        key = self.chance.choice(self.world.keys)
        return key.owner, key

    # -- steps -------------------------------------------------------------------------------------------------------

    def try_a_door(self) -> None:
        name, key = self.hand()
        doors = [door for door in DOORS if door.is_page == (key is None)]
        kind = self.chance.choice(sorted({door.kind for door in doors}))  # kinds with few doors as often as others
        door = self.chance.choice([door for door in doors if door.kind == kind])
        things = [one for one in self.model.things.values() if one.kind == door.kind]
        if not things:
            return
        thing = self.chance.choice(things)
        row = self.world.rows[thing.mark]
        is_stranger = self.chance.random() < 0.04
        client = self.stranger if is_stranger else self.client(name, key)
        before = self.state_of(row)
        answer = door.call(client, thing, row)
        self.note("nobody" if is_stranger else self.told_of(name, key), f"{door.name} {thing.mark}", answer)
        may = not is_stranger and self.may(name, key, door, thing)
        is_in = not (door.is_refused or is_refused)(answer)
        if is_in and not may:
            self.find(f"{door.name}: let in")
        if may and not is_in:
            self.find(f"{door.name}: refused: {read_all(answer)[:200]}")
        if is_in and door.verb == "use":
            self.used[name].add(thing.mark)
        if not is_in and door.verb != "see" and self.state_of(row) != before:
            self.find(f"{door.name}: refused, and changed something")
        self.check_marks("" if is_stranger else name, answer, thing.mark)

    def may(self, name: str, key: Key | None, door: Door, thing: Thing) -> bool:
        if key is not None and not key.is_live:
            return False
        return self.model.may(name, door.verb, thing, door.scope, key.scopes if key else None)

    def client(self, name: str, key: Key | None) -> Any:
        return key.client if key else self.world.browsers[name]

    def told_of(self, name: str, key: Key | None) -> str:
        person = self.model.people[name]
        with_what = f"key {'+'.join(key.scopes)}{'' if key.is_live else ' (revoked)'}" if key else "browser"
        return f"{name} ({person.rank}{'' if person.is_active else ', inactive'}, {with_what})"

    def state_of(self, row: Any) -> tuple[Any, int]:
        return type(row)._base_manager.filter(pk=row.pk).values().first(), Run.objects.count()

    def lets_in(self, name: str, key: Key | None, scope: str) -> bool:
        person = self.model.people[name]
        is_ranked = RANKS.index(person.rank) >= find_lowest_rank(scope)
        is_keyed = key is None or (key.is_live and is_allowed(key.scopes, scope))
        return person.is_active and is_ranked and is_keyed

    def read_a_list(self) -> None:
        name, key = self.chance.choice(NAMES), None
        key = self.chance.choice([one for one in self.world.keys if one.owner == name])
        title, kind, verb, scope, path = self.chance.choice(LISTS)
        answer = key.client.get(path)
        self.note(self.told_of(name, key), title, answer)
        if self.lets_in(name, key, scope) == is_refused(answer):
            self.find(f"{title}: {'let in' if answer.status_code < 400 else 'refused'}")
        named = self.check_marks(name, answer)
        things = [one for one in self.model.things.values() if one.kind == kind and self.is_listed(one)]
        missing = {one.mark for one in things if self.model.has_right(name, verb, one)} - named
        if answer.status_code == 200 and missing:
            self.find(f"{title} leaves out {sorted(missing)}")

    def compare(self) -> None:
        """A list is the same after somebody else has added what this person may not see: no number in it, and no
        header, counts what is hidden.
        """
        name = self.chance.choice(NAMES)
        key = self.chance.choice([one for one in self.world.keys if one.owner == name])
        title, kind, _, _, path = self.chance.choice([one for one in LISTS if one[1] in KINDS])
        before = key.client.get(path)
        thing = self.world.add(kind)
        after = key.client.get(path)
        self.note(self.told_of(name, key), f"{title}, before and after {thing}", after)
        if thing.mark not in self.model.find_visible_marks(name) and told_by(before) != told_by(after):
            self.find(f"{title} tells that {thing.mark} was added")

    def is_listed(self, thing: Thing) -> bool:
        """The list of approvals is that of the open ones."""
        return thing.kind != "approval" or Approval.objects.open().filter(pk=self.world.rows[thing.mark].pk).exists()

    def glance(self) -> None:
        """A page of the site: what it shows of other people's."""
        name = self.chance.choice(NAMES)
        _, path = self.chance.choice(GLANCES)
        answer = self.world.browsers[name].get(path)
        self.note(self.told_of(name, None), path, answer)
        if is_refused(answer) == self.model.people[name].is_active:
            self.find(f"{path}: {answer.status_code}")
        self.check_marks(name, answer)

    def search(self) -> None:
        key = self.chance.choice(self.world.keys)
        scope, ask = self.chance.choice(SEARCHES)
        answer = ask(key.client)
        self.note(self.told_of(key.owner, key), f"search ({scope})", answer)
        self.check_marks(key.owner, answer)

    def share(self) -> None:
        """Somebody shares a thing with a team, or takes it back; mostly its owner."""
        asked = {one.refers[0] for one in self.model.things.values() if one.kind == "approval" and one.team}
        agents = [self.model.things[mark] for mark in sorted(asked) if mark in self.model.things]
        is_asked = bool(agents) and self.chance.random() < 0.3  # what others decide about is of interest
        thing = self.chance.choice(agents) if is_asked else self.some_thing(RESOURCES)
        name = self.owner_mostly(thing)
        key = self.chance.choice([one for one in self.world.keys if one.owner == name])
        team, resource = self.chance.choice([*TEAMS, None]), RESOURCES[thing.kind]
        answer = key.client.patch(f"{V1}/{resource}/{thing.mark}", {"team": team}, **JSON)
        self.note(self.told_of(name, key), f"share {thing.mark} with {team}", answer)
        may_share = team in (None, thing.team) or self.model.get_role(team, name) in SHARERS
        may = thing.owner == name and self.lets_in(name, key, f"{resource}:write") and may_share
        if may != (answer.status_code < 400):
            self.find(f"shared: {answer.status_code < 400}, {read_all(answer)[:200]}")
        if may:
            thing.team = team
        self.check_marks(name, answer, thing.mark, team or "")

    def delete(self) -> None:
        thing = self.some_thing(DELETED)
        name = self.owner_mostly(thing)
        key = self.chance.choice([one for one in self.world.keys if one.owner == name])
        row = self.world.rows[thing.mark]
        answer = key.client.delete(f"{V1}/{DELETED[thing.kind]}".format(name=thing.mark, pk=row.pk))
        self.note(self.told_of(name, key), f"delete {thing.mark}", answer)
        may = thing.owner == name and self.lets_in(name, key, WRITES.get(thing.kind, f"{thing.kind}s:write"))
        if may == is_refused(answer):
            self.find(f"deleted: {not may}")
        if may and answer.status_code == 204:
            if thing.kind != "key":  # a revoked key is still listed
                self.model.things.pop(thing.mark)
            for revoked in [one for one in self.world.keys if one.row == row]:
                revoked.is_live = False

    def add(self) -> None:
        thing = self.world.add(self.chance.choice(KINDS))
        self.told.append(f"new: {thing}")

    def change_members(self) -> None:
        """Somebody gives a member another role, or removes them."""
        mark, name = self.chance.choice(TEAMS), self.chance.choice(NAMES)
        members = self.model.teams[mark]
        key = self.chance.choice([one for one in self.world.keys if one.owner == name])
        wanted = dict(members)
        who, role = self.chance.choice([*members]), self.chance.choice([*RANKS, None])
        wanted.pop(who)
        if role:
            wanted[who] = role
        body = {"members": [{"user": one, "role": its} for one, its in wanted.items()]}
        answer = key.client.patch(f"{V1}/teams/{mark}", body, **JSON)
        self.note(self.told_of(name, key), f"{who} becomes {role} in {mark}", answer)
        is_right = members.get(name) == "administrator" and "administrator" in wanted.values()
        may = is_right and self.lets_in(name, key, "teams:write")
        if may != (answer.status_code < 400):
            self.find(f"changed: {not may}")
        if may:
            self.model.teams[mark] = wanted
            if role not in SHARERS:
                self.world.forget_member(mark, who)

    def leave(self) -> None:
        mark, name = self.chance.choice(TEAMS), self.chance.choice(NAMES)
        answer = self.world.browsers[name].post(f"/teams/{mark}/leave")
        self.note(self.told_of(name, None), f"leaves {mark}", answer)
        members = self.model.teams[mark]
        others = [role for other, role in members.items() if other != name]
        is_left = answer.status_code == 302 and not is_refused(answer)
        may = name in members and "administrator" in others and self.model.people[name].is_active
        if is_left != may:
            self.find(f"left: {is_left}")
        if is_left:
            del members[name]
            self.read_messages(name)
            self.world.forget_member(mark, name)

    def invite(self) -> None:
        mark, name, guest = self.chance.choice(TEAMS), self.chance.choice(NAMES), self.chance.choice(NAMES)
        key = self.chance.choice([one for one in self.world.keys if one.owner == name])
        role = self.chance.choice(RANKS)
        answer = key.client.post(f"{V1}/teams/{mark}/invitations/", {"user": guest, "role": role})
        self.note(self.told_of(name, key), f"invites {guest} to {mark} as {role}", answer)
        members = self.model.teams[mark]
        may = members.get(name) == "administrator" and self.lets_in(name, key, "teams:write")
        if answer.status_code == 201 and not may:
            self.find("invited")
        if answer.status_code != 201:
            return
        invitation = Invitation.objects.get(pk=answer.json()["id"])
        for other in (one for one in NAMES if one != guest):
            taken = self.world.browsers[other].post(f"/invitations/{invitation.pk}/accept")
            self.note(self.told_of(other, None), f"accepts for {guest}", taken)
            if not is_refused(taken):
                self.find("accepted for another")
        taken = self.world.browsers[guest].post(f"/invitations/{invitation.pk}/accept")
        self.note(self.told_of(guest, None), "accepts", taken)
        if taken.status_code == 302 and self.model.people[guest].is_active:
            members[guest] = role
            self.read_messages(guest)
        else:
            invitation.answer("withdrawn")

    def change_rank(self) -> None:
        name, rank = self.chance.choice(NAMES), self.chance.choice([*RANKS, "author", "author", "author"])
        self.world.set_rank(name, rank)
        self.told.append(f"{name} is {rank} on the site")

    def change_account(self) -> None:
        name = self.chance.choice(NAMES)
        inactive = [one for one in NAMES if not self.model.people[one].is_active]
        if inactive:  # at most one at a time
            name = inactive[0]
        self.world.set_active(name, bool(inactive))
        if inactive:
            self.world.sign_in(name)
        self.told.append(f"{name} is {'active' if inactive else 'deactivated'}")

    def change_keys(self) -> None:
        if self.chance.random() < 0.7 and len(self.world.keys) < 60:
            name, scopes = self.chance.choice(NAMES), self.chance.choice(SCOPES)
            self.world.add_key(name, scopes)
            self.told.append(f"{name} makes a key {'+'.join(scopes)}")
            return
        key = self.chance.choice(self.world.keys)
        if key.scopes == ["*"] or len(key.scopes) > 1:  # everybody keeps these
            return
        ApiKey.objects.filter(pk=key.row.pk).update(expires_at=timezone.now())
        key.is_live = False
        self.told.append(f"a key of {key.owner} expires")

    def read_messages(self, name: str) -> None:
        """What the page says of the step, which names the team; later pages need not."""
        self.world.browsers[name].get("/teams/")

    # -- choices -----------------------------------------------------------------------------------------------------

    def some_thing(self, kinds: Any) -> Thing:
        things = [one for one in self.model.things.values() if one.kind in kinds]
        return self.chance.choice(things or [self.world.add(next(iter(kinds)))])

    def owner_mostly(self, thing: Thing) -> str:
        if thing.owner and self.chance.random() < 0.7:
            return thing.owner
        return self.chance.choice(NAMES)


def told_by(answer: Any) -> tuple[str, dict[str, str]]:
    """All that a list says, but for the number of the request and when its key was used."""
    text = OF_THE_MOMENT.sub("", read_all(answer))
    headers = {name: value for name, value in answer.headers.items() if name not in OF_REQUEST}
    return text, headers | {"Content-Length": str(len(text))}


def read_all(answer: Any) -> str:
    """The text of an answer. A stream is left, as a client leaves it: what it is allowed to see comes later."""
    if not answer.streaming:
        return answer.content.decode("utf-8", "replace")
    text = b"" if answer.is_async else b"".join(answer.streaming_content)
    request_finished.disconnect(close_old_connections)  # it would end the test's transaction
    answer.close()
    request_finished.connect(close_old_connections)
    return text.decode("utf-8", "replace")
