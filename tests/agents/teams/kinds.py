"""One row of each kind in the table, and the requests that see, use, change, share and delete it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.utils import timezone

from agents.models import (
    Agent,
    ApiKey,
    AuditEvent,
    Chain,
    Hook,
    Invitation,
    Membership,
    Prompt,
    Provider,
    Secret,
    StoredItem,
    Team,
    Tool,
)
from connectors.models import Connection
from connectors.tools import choose_user_connection
from devices.models import Device, Record
from functions import store
from functions.host import Host
from functions.models import Execution, StoredFunction
from knowledge.models import Collection, Memory, Skill
from knowledge.skills import store as skills
from runs.models import Approval, Budget, Embed, Feedback, Run, Schedule, Session, SharedLink, Trigger, Webhook
from runs.schedules import tick as schedules
from tests.files import stored
from tests.knowledge.skills.samples import skill_md

V1 = "/api/v1"
SOURCE = "def double(n: int = 1) -> int:\n    return n * 2\n"
LATER = timedelta(hours=1)
Deed = tuple[str, str, Any] | Callable[[Any], bool]  # a request, or what answers whether a person may


@dataclass
class World:
    """The people of the table, and the team that all but the stranger and the superuser are in."""

    people: dict[str, Any]
    team: Team
    provider: Provider
    api: Any
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> Any:
        return self.people["owner"]

    def shared(self, model: Any, name: str, **fields: Any) -> Any:
        return model.objects.create(name=name, owner=self.owner, team=self.team, **fields)


def row(path: str, **verbs: Any) -> dict[str, Any]:
    """The requests that most kinds share; `verbs` adds and replaces."""
    patch = {"change": ("patch", path, {"description": "other"}), "share": ("patch", path, {"team": "second"})}
    return {"see": ("get", path, None), **patch, "delete": ("delete", path, None), **verbs}


def agent(world):
    world.shared(Agent, "helper", provider=world.provider).publish(author=world.owner)
    return row(f"{V1}/agents/helper", use=("post", f"{V1}/agents/helper/messages", {"message": "hello"}))


def grant(world):
    tool = Tool.objects.create(name="lookup", kind="function", owner=None)
    helper = world.shared(Agent, "helper", provider=world.provider)
    helper.grants.create(tool=tool)
    helper.publish(author=world.owner)
    path = f"{V1}/agents/helper/grants/"
    use = ("post", f"{V1}/agents/helper/messages", {"message": "hello"})
    return {"see": ("get", path, None), "use": use, "change": ("put", path, [{"tool": "lookup", "mode": "deny"}]),
            "delete": ("put", path, [])}  # fmt: skip


def hook(world):
    helper = world.shared(Agent, "helper", provider=world.provider)
    schema = {"properties": {"event": {}}, "required": ["event"]}
    tool = Tool.objects.create(name="check", kind="function", owner=None, input_schema=schema)
    made = Hook.objects.create(place="before_tool", tool=tool, agent=helper)
    path = f"{V1}/run-hooks/{made.pk}"
    return {"see": ("get", path, None), "change": ("patch", path, {"enabled": False}), "delete": ("delete", path, None)}


def make_function(world):
    function = world.shared(StoredFunction, "double", source=SOURCE, entry="double")
    store.publish_function(function, user=world.owner)
    return function


def function(world):
    make_function(world)
    return row(f"{V1}/functions/double", use=("post", f"{V1}/functions/double/execute", {"arguments": {"n": 2}}))


def function_test(world):
    test = make_function(world).tests.create(name="one", arguments={"n": 1}, expected=2)
    path = f"{V1}/functions/double/tests/{test.pk}"
    use = ("post", f"{V1}/functions/double/tests/run", {})
    return row(path, use=use, change=("patch", path, {"expected": 3}))


def version(world):
    make_function(world)
    path = f"{V1}/functions/double"
    use = ("post", f"{path}/execute", {"arguments": {}, "version": 1})
    return {
        "see": ("get", f"{path}/versions/1", None),
        "use": use,
        "change": ("post", f"{path}/rollback", {"version": 1}),
    }


def chain(world):
    made = world.shared(Chain, "steps")
    made.replace_steps([{"key": "one", "agent": "mine", "input": {"message": {"value": "hello"}}}])
    made.publish(author=world.owner)
    return row(f"{V1}/chains/steps", use=("post", f"{V1}/chains/steps/runs", {}))


def tool(world):
    world.shared(Tool, "lookup", kind="function")
    use = ("put", f"{V1}/agents/mine/grants/", [{"tool": "lookup"}])
    return {"see": ("get", f"{V1}/tools/lookup", None), "use": use}


def provider(world):
    world.shared(Provider, "models", kind="offline")
    use = ("post", f"{V1}/agents/", {"name": "other", "provider": "models"})
    path = f"{V1}/providers/models"
    return row(path, use=use, change=("patch", path, {"enabled": False}))


def secret(world):
    world.shared(Secret, "token", value="s3cret", hosts=["api.example.com"])

    def may_use(person: Any) -> bool:
        return answers(lambda: Host(user=person, secret_names=("token",)).secret("token"))

    path = f"{V1}/secrets/token"
    return row(path, use=may_use, change=("patch", path, {"value": "other"}))


def connection(world):
    made = world.shared(Connection, "mail", provider="gmail", access_token="t", account="owner@example.org")
    path = f"{V1}/connections/{made.pk}"

    def may_use(person):
        return answers(lambda: choose_user_connection(person.pk, "gmail", ""))

    return row(path, use=may_use, change=("patch", path, {"enabled": False}))


def schedule(world):
    made = Schedule(
        name="daily",
        owner=world.owner,
        team=world.team,
        agent=Agent.objects.get(name="mine", owner=world.owner),
        text="hello",
    )
    made.interval = made._meta.get_field("interval").related_model.objects.create(every=1, period="days")
    made.created_at = timezone.now()
    schedules.plan_next(made)
    made.save()
    path = f"{V1}/schedules/daily"
    return row(path, use=("post", f"{path}/run-now", None), change=("patch", path, {"text": "do what I say"}))


def trigger(world):
    mine = Agent.objects.get(name="mine", owner=world.owner)
    world.shared(Trigger, "hook", kind="webhook", agent=mine)
    path = f"{V1}/triggers/hook"
    return row(path, use=("post", f"{path}/renew-secret", None), change=("patch", path, {"text": "do what I say"}))


def team(world):
    path = f"{V1}/teams/team"
    invited = ("post", f"{path}/invitations/", {"user": "stranger"})
    return row(path, change=("patch", path, {"name": "renamed"}), share=invited)


def team_budget(world):
    made = Budget.objects.create(owner=world.people["administrator"], team=world.team, max_runs=9)
    path = f"{V1}/budgets/{made.pk}"
    return row(path, change=("patch", path, {"max_runs": 8}))


def budget(world):
    made = Budget.objects.create(owner=world.owner, user=world.owner, max_runs=9)
    path = f"{V1}/budgets/{made.pk}"
    return row(path, change=("patch", path, {"max_runs": 8}))


def webhook(world):
    made = Webhook.objects.create(owner=world.owner, url="https://example.com/hook")
    path = f"{V1}/webhooks/{made.pk}"
    return row(path, use=("post", f"{path}/renew-secret", None), change=("patch", path, {"enabled": False}))


def embed(world):
    made = Embed.objects.create(owner=world.owner, agent=Agent.objects.get(name="mine", owner=world.owner))
    path = f"{V1}/embeds/{made.pk}"
    return row(path, use=("post", f"{path}/rotate", None), change=("patch", path, {"title": "other"}))


def key(world):
    made, secret = ApiKey.make(world.owner, ["*"])
    world.made["secret"] = secret

    def may_use(person: Any) -> bool:
        found = ApiKey.find(secret)
        return found is not None and found.user == person

    path = f"{V1}/keys/{made.pk}"
    return row(path, use=may_use)


def feedback(world):
    rated = make_run(world, "succeeded")
    Feedback.objects.create(run=rated, rating="up")
    path = f"{V1}/runs/{rated.pk}/feedback"
    return row(path, change=("put", path, {"rating": "down"}))


def make_run(world, status="queued"):
    mine = Agent.objects.get(name="mine", owner=world.owner)
    session = Session.objects.create(owner=world.owner, agent=mine, last_seq=1)
    run = Run.objects.create(principal=world.owner, agent=mine, version=mine.published, session=session, status=status)
    session.messages.create(seq=1, role="user", run=run, content=[{"type": "text", "text": "hello"}])
    return run


def session(world):
    path = f"{V1}/sessions/{make_run(world, 'succeeded').session_id}"
    use = ("post", f"{V1}/agents/mine/messages", {"message": "go on", "session": path.rpartition("/")[2]})
    return row(path, use=use, change=("patch", path, {"title": "other"}))


def shared_link(world):
    ended = make_run(world, "succeeded").session
    link = SharedLink.objects.create(session=ended, last_seq=1)
    path = f"{V1}/sessions/{ended.pk}/share"
    return row(path, use=("get", f"/shared/{link.token}/", None), change=("put", path, {"shows_tools": True}))


def prompt(world):
    world.shared(Prompt, "greeting", text="Say hello.")
    return row(f"{V1}/prompts/greeting")


def run(world):
    live, ended = f"{V1}/runs/{make_run(world).pk}", f"{V1}/runs/{make_run(world, 'failed').pk}"
    return {"see": ("get", live, None), "use": ("post", f"{ended}/retry", {}), "change": ("post", f"{live}/cancel", {})}


def approval(world):
    until = timezone.now() + LATER
    made = Approval.objects.create(run=make_run(world, "waiting"), tool="add", arguments={}, expires_at=until)
    path = f"{V1}/approvals/{made.pk}"
    return {"see": ("get", path, None), "use": ("post", path, {"decision": "deny"})}


def device(world):
    made = Device.objects.create(owner=world.owner, name="laptop")
    path = f"{V1}/devices/{made.pk}"
    use = ("post", f"{V1}/agents/mine/messages", {"message": "hello", "device": str(made.pk)})
    return row(path, use=use, change=("patch", path, {"name": "other"}), delete=("post", f"{path}/revoke", None))


def record(world):
    made = Record.objects.create(owner=world.owner, kind="task", data={"title": "Pay"})
    path = f"{V1}/records/tasks/{made.pk}"
    return row(path, use=("post", f"{path}/approve", None), change=("patch", path, {"title": "other"}))


def skill(world):
    made = skills.save_skill(
        Skill(owner=world.owner, team=world.team), skill_md(), None, user=world.owner, untrusted=False
    )  # fmt: skip
    skills.publish_skill(made, user=world.owner)
    path = f"{V1}/skills/invoices"
    use = ("put", f"{V1}/agents/mine/grants/", [{"tool": "invoices"}])
    return row(path, use=use, change=("patch", path, {"text": skill_md(body="Other.")}))


def memory(world):
    made = Memory.objects.create(owner=world.owner, scope="team", team=world.team, text="The office closes at six.")
    path = f"{V1}/memory/{made.pk}"
    return row(path, change=("patch", path, {"text": "other"}))


def collection(world):
    world.shared(Collection, "goods")
    path = f"{V1}/collections/goods"
    use = ("post", f"{path}/search", {"query": "goods"})
    return row(path, use=use)


def file(world):
    made = stored(world.owner, "a.txt", content=b"words")
    part = {"type": "file", "file": str(made.pk)}
    use = ("post", f"{V1}/agents/mine/messages", {"message": [{"type": "text", "text": "read"}, part]})
    return row(f"{V1}/files/{made.pk}", use=use)


def item(world):
    """Everybody has a store of their own under the same address."""
    made = StoredItem.objects.create(owner=world.owner, namespace="notes", key="a", value={"by": "owner"})
    path, body = "/langgraph/store/items", {"namespace": ["notes"], "key": "a"}

    def may_see(person: Any) -> bool:
        return world.api(person).get(f"{path}?namespace=notes&key=a").status_code == 200

    def may_change(person: Any) -> bool:
        assert world.api(person).put(path, {**body, "value": {"by": "other"}}, "application/json").status_code == 204
        made.refresh_from_db()
        return made.value == {"by": "other"}

    def may_delete(person: Any) -> bool:
        assert world.api(person).delete(path, body, "application/json").status_code == 204
        return not StoredItem.objects.filter(pk=made.pk).exists()

    return {"see": may_see, "change": may_change, "delete": may_delete}


def execution(world):
    shared = make_function(world)
    made = Execution.objects.create(
        function=shared, version=shared.published, principal=world.owner, status="ok", arguments={"n": 1}, result=2
    )

    def may_use(person: Any) -> bool:
        answer = world.api(person).post(f"{V1}/functions/double/replay", {"version": 1})
        return answer.status_code == 200 and answer.json()["replayed"] == 1

    def may_delete(person: Any) -> bool:
        world.api(person).delete(f"{V1}/functions/double/executions/")
        return not Execution.objects.filter(pk=made.pk).exists()

    see = ("get", f"{V1}/functions/double/executions/{made.pk}", None)
    return {"see": see, "use": may_use, "delete": may_delete}


def audit_event(world):
    AuditEvent.record("thing.done", world.shared(Agent, "noted", provider=world.provider), actor=world.owner)

    def may_see(person: Any) -> bool:
        return bool(world.api(person).get(f"{V1}/audit/?subject_name=noted").json()["results"])

    return {"see": may_see}


def invitation(world):
    third = Team.objects.create(name="third")
    administrator = world.people["administrator"]
    Membership.objects.create(team=third, user=administrator, role="administrator")
    made = Invitation.objects.create(team=third, user=world.owner, invited_by=administrator)
    path = f"{V1}/invitations/{made.pk}"
    return {
        "see": ("get", path, None),
        "use": ("post", f"{path}/accept", None),
        "delete": ("post", f"{path}/decline", None),
    }


def answers(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return False
    return True


KINDS = {one.__name__.replace("_", " "): one for one in (
    hook,
    agent, grant, function, function_test, version, chain, tool, provider, secret, connection, schedule, trigger, team,
    team_budget, budget, webhook, embed, key, session, shared_link, prompt, run, feedback, approval, device, record, skill, memory, collection, file, item, execution,
    audit_event, invitation,
)}  # fmt: skip
