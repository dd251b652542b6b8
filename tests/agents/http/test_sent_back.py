"""What a GET answered can be sent back: nothing changes."""

from django.contrib.auth import get_user_model
from django.db import transaction
from django.urls import get_resolver, resolve

from tests.agents.teams.kinds import KINDS
from tests.agents.teams.test_table import world  # noqa: F401  (a fixture)

SETTINGS = "/api/v1/account/settings"
# Each change counts as one, also an equal one; and the rows of the table are made without what the API computes.
MOVES = {"updated_at", "version", "draft_sha256", "input_schema", "next_due_at", "next_due_local", "why_not"}
OF_ADMINISTRATORS = ("team", "team budget")


def changing(callback):
    """The verbs with which rows at this route are changed."""
    verbs = getattr(callback, "actions", None) or {name: name for name in callback.cls.http_method_names}
    return [verb for verb in ("patch", "put") if verb in verbs and hasattr(callback.cls, verbs[verb])]


def routes(patterns, before=""):
    for one in patterns:
        route = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from routes(one.url_patterns, route)
        elif route.startswith("api/v1/") and hasattr(one.callback, "cls") and changing(one.callback):
            yield route


def test_each_row_that_can_be_changed_takes_back_what_it_answered(world, settings):  # noqa: F811
    settings.PRIVATE_HOSTS_ALLOWED = ["example.com"]  # of the webhook: no name is looked up
    tried, refused = {resolve(SETTINGS).route}, list(sent_back(world.api(world.owner), SETTINGS))
    for kind, make in KINDS.items():
        with transaction.atomic():
            deeds = make(world)
            see, change = deeds["see"], deeds.get("change", ("", "", None))
            if (
                isinstance(see, tuple)
                and isinstance(change, tuple)
                and change[:2] in (("put", see[1]), ("patch", see[1]))
            ):
                person = world.people["administrator"] if kind in OF_ADMINISTRATORS else world.owner
                for path in [see[1], *([f"{see[1]}/grants/"] if kind == "chain" else [])]:
                    tried |= {resolve(path).route} if changing(resolve(path).func) else set()
                    refused += [f"{kind}: {one}" for one in sent_back(world.api(person), path)]
            transaction.set_rollback(True)
    account = f"/api/v1/people/{world.owner.username}"
    tried.add(resolve(account).route)
    refused += sent_back(world.api(get_user_model().objects.create_superuser("root")), account)
    assert refused == [], "\n".join(refused)
    assert tried == set(routes(get_resolver().url_patterns))


def sent_back(client, path):
    """What is wrong with the answers."""
    for verb in changing(resolve(path).func):
        read = client.get(path)
        answer = getattr(client, verb)(path, read.json(), "application/json")
        if answer.status_code != 200:
            yield f"{verb} {answer.status_code} {answer.content.decode()[:500]}"
        elif (now := shown(client.get(path).json())) != (before := shown(read.json())):
            yield f"{verb} changed {before} to {now}"


def shown(body):
    return {name: value for name, value in body.items() if name not in MOVES} if isinstance(body, dict) else body
