"""Sends orders to any web server that answers, waits for the ends, and compares them with the ledger outside."""

import time
from itertools import count
from typing import Any

import httpx2

from tests.fakes import StubOpenAI
from tests.live import wait_for

from .network import Host
from .outside import STUMBLES, Till, order
from .site import Site

ENDED = "('succeeded', 'partial', 'failed', 'cancelled', 'expired')"
FILL = """
from django.contrib.auth import get_user_model
from agents.models import Agent
from runs.intake.messages import accept_message
user, agent = get_user_model().objects.get(username="admin"), Agent.objects.get(name="{agent}")
print(*[accept_message(user=user, text=text, agent=agent).run.pk for text in {texts}])
"""
# Each statement finds what must not be: (what, a query of the ids of runs).
NEVER = (
    ("no error", "SELECT id, error FROM runs_run WHERE status <> 'succeeded' AND id = ANY(%s)"),
    ("events without a gap", "SELECT run_id, count(*), max(seq) FROM runs_runevent WHERE run_id = ANY(%s) "
                             "GROUP BY run_id HAVING count(*) <> max(seq) OR min(seq) <> 1"),
    ("run.finished once and last", "SELECT r.id FROM runs_run r WHERE r.id = ANY(%s) AND (SELECT array_agg(seq) FROM "
                                   "runs_runevent e WHERE e.run_id = r.id AND type = 'run.finished') <> ARRAY[last_event]"),
    ("one result of a call", "SELECT run_id, data->>'call' FROM runs_runevent WHERE run_id = ANY(%s) AND "
                             "type = 'tool.finished' GROUP BY 1, 2 HAVING count(*) > 1"),
    ("no call open", "SELECT run_id, name FROM runs_toolcallrecord WHERE run_id = ANY(%s) AND outcome = ''"),
    ("no lease left", "SELECT id FROM runs_run WHERE id = ANY(%s) AND lease_expires_at IS NOT NULL"),
)  # fmt: skip


class Orders:
    """Of one site, one till and one model."""

    def __init__(self, site: Site, till: Till, model: StubOpenAI) -> None:
        self.site, self.till, self.model = site, till, model
        self.numbers = count(1)
        self.runs: dict[str, str] = {}  # order → run, of those accepted since the last settling
        self.clients: dict[str, httpx2.Client] = {}

    def client(self, host: Host) -> httpx2.Client:
        return self.clients.setdefault(host.name, self.site.client(host))

    def post(self, path: str, **body: Any) -> Any:
        answer = self.client(self.site.b).post(f"/api/v1/{path}", json=body)
        assert answer.status_code < 300, f"{path}: {answer.text}"
        return answer.json()

    def set_up(self) -> None:
        self.post("providers/", name="stub", kind="openai-compatible", base_url=self.model.url, api_key="x")
        connection = self.post("connections/", name="till", provider="openapi")
        self.post(f"connections/{connection['id']}/import", document=self.till.document())
        (tool,) = self.client(self.site.b).get("/api/v1/tools/?kind=http").json()["results"]
        self.agent("payer", grants=[{"tool": tool["name"], "mode": "allow"}])
        self.agent("talker", timeout=900)  # it waits for long in a backlog

    def agent(self, name: str, **more: Any) -> None:
        self.post("agents/", name=name, provider="stub", model_name="stub", system_prompt="Do it.", **more)
        self.post(f"agents/{name}/publish")

    def send(self, thinks_s: float = 0.0, takes_s: float = 0.0, *, at: Host | None = None, agent: str = "payer",
             **more: Any) -> str:  # fmt: skip
        """The run of a new order. Web servers are tried in turn until one has accepted it; one key, one run."""
        text = order(next(self.numbers), thinks_s, takes_s)
        hosts = [at] if at else [self.site.b, self.site.c]
        until = time.monotonic() + 120
        for attempt in count():
            try:
                answer = self.client(hosts[attempt % len(hosts)]).post(
                    f"/api/v1/agents/{agent}/messages", json={"message": text, **more},
                    headers={"Prefer": "respond-async", "Idempotency-Key": text},
                )  # fmt: skip
                if answer.status_code == 202:
                    self.runs[text] = answer.json()["run"]["id"]
                    return self.runs[text]
                said = answer.text
            except httpx2.HTTPError as error:
                said = repr(error)
            assert time.monotonic() < until, f"{text} was never accepted: {said}"
            time.sleep(0.1)
        raise AssertionError

    def fill(self, number: int, *, thinks_s: float = 0.0, agent: str = "talker") -> list[str]:
        """So many orders, stored as a web server does but without HTTP; their runs."""
        texts = [order(next(self.numbers), thinks_s) for _ in range(number)]
        runs = self.site.manage("shell", "--verbosity", "0", reads=FILL.format(texts=texts, agent=agent)).split()
        assert len(runs) == number, runs[:5]
        self.runs |= dict(zip(texts, runs, strict=True))
        return runs

    def try_to_send(self, padding: str) -> int:
        """One order, once, with a long text; the status of the answer."""
        text = f"{order(next(self.numbers))} {padding}"
        answer = self.client(self.site.b).post(
            "/api/v1/agents/talker/messages", json={"message": text}, headers={"Prefer": "respond-async"}
        )
        if answer.status_code == 202:
            self.runs[text] = answer.json()["run"]["id"]
        else:
            assert answer.json()["error"]["hint"], answer.text
        return answer.status_code

    def status(self, run: str) -> str:
        return self.one("SELECT status FROM runs_run WHERE id = %s", run)

    def attempts(self, run: str) -> int:
        return self.one("SELECT attempt FROM runs_run WHERE id = %s", run)

    def ends(self, runs: list[str]) -> list[Any]:
        return self.site.rows("SELECT status, deadline, started_at, finished_at FROM runs_run WHERE id = ANY(%s)", runs)

    def one(self, statement: str, *values: Any) -> Any:
        return self.site.rows(statement, *values)[0][0]

    # chains and schedules

    def retried_chain(self, wait_s: float) -> str:
        """A run of a chain whose step fails once and is repeated after so many seconds."""
        name = f"chain{next(self.numbers)}"
        retry = {"attempts": 2, "backoff_s": wait_s, "jitter": 0}
        text = f"{STUMBLES} {order(next(self.numbers))}".replace(" ", "-", 1)
        step = {"key": "talk", "agent": "talker", "input": {"message": {"value": text}}, "retry": retry}
        self.post("chains/", name=name, steps=[step])
        self.post(f"chains/{name}/publish")
        answer = self.client(self.site.b).post(
            f"/api/v1/chains/{name}/runs", json={}, headers={"Prefer": "respond-async"}
        )
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def waits(self, chain: str) -> float:
        """Seconds between the two attempts of its step, by the database."""
        began = self.site.rows("SELECT started_at FROM runs_run WHERE parent_id = %s ORDER BY started_at", chain)
        return (began[-1][0] - began[0][0]).total_seconds()

    def schedule(self, every_s: int) -> str:
        name = f"schedule{next(self.numbers)}"
        interval = {"every": every_s, "period": "seconds"}
        self.post("schedules/", name=name, agent="talker", text=order(0), interval=interval, overlap_policy="allow")
        return name

    def distances(self, schedule: str) -> list[float]:
        """Seconds by which each of its runs started after it was due, by the database."""
        rows = self.site.rows(
            "SELECT round(extract(epoch FROM r.started_at - o.due_at)::numeric, 1) FROM runs_scheduleoccurrence o "
            "JOIN runs_schedule s ON s.id = o.schedule_id JOIN runs_run r ON r.id = o.run_id "
            "WHERE s.name = %s AND r.started_at IS NOT NULL", schedule,
        )  # fmt: skip
        return [float(late) for (late,) in rows]

    # comparing

    def settle(self, within: float = 120) -> int:
        """Wait for all ends, compare, and forget them; how many there were."""
        ids = list(self.runs.values())
        wait_for(lambda: not self.open(ids), within, lambda: f"stuck: {self.open(ids)}")
        found = [f"{what}: {rows}" for what, query in NEVER if (rows := self.site.rows(query, ids))]
        stored = self.site.rows("SELECT count(*) FROM runs_run WHERE id = ANY(%s)", ids)[0][0]
        found += [f"lost: {len(ids) - stored} runs"] if stored < len(ids) else []
        found += self.differences(ids)
        assert not found, "\n".join(found)
        self.runs = {}
        return len(ids)

    def open(self, ids: list[str]) -> list[Any]:
        return self.site.rows(
            "SELECT id, status, lease_owner, attempt, place, lease_expires_at, now() FROM runs_run "
            f"WHERE id = ANY(%s) AND status NOT IN {ENDED} LIMIT 5", ids,
        )  # fmt: skip

    def differences(self, ids: list[str]) -> list[str]:
        """How the rows differ from what was really done."""
        charged = self.till.charged
        query = "SELECT run_id::text, array_agg(outcome) FROM runs_toolcallrecord WHERE run_id = ANY(%s) GROUP BY 1"
        outcomes = dict(self.site.rows(query, ids))
        found = []
        for text, run in self.runs.items():
            calls, done = outcomes.get(run, []), charged[text]
            if done > 1:
                found.append(f"{text} was charged {done} times, run {run}: {calls}")
            elif not done and calls and calls != ["unknown"]:
                found.append(f"{text} was not charged, and run {run} says {calls}")
        return found
