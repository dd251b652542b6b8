"""Runs in flight: ten thousand that wait for a slow model, on one worker process.

`python -m benchmarks.flight [--runs 10000] [--seconds 30] [--db postgres]`. The model holds its answers until all runs
have asked, and then gives them over that many seconds. A chat message is measured on the idle installation, and beside
the runs while they wait.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from benchmarks.load import measure
from benchmarks.message import ROOT, free_port, made, muster, process, stub, wait_for

CHATS = 40


class SlowModel:
    """An OpenAI server. The model “slow” waits for the release; every other answers at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.released = asyncio.Event()
        self.waiting = self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not reader.at_eof():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = head.partition("content-length:")[2].partition("\r\n")[0].strip() or "0"
                content = await reader.readexactly(int(length))
                task = asyncio.ensure_future(self.answer(head.split()[1], json.loads(content or b"{}")))
                end = asyncio.ensure_future(reader.read(1))
                await asyncio.wait([task, end], return_when=asyncio.FIRST_COMPLETED)
                if not task.done():  # nobody waits for the answer any more
                    task.cancel()
                    return
                end.cancel()
                await asyncio.wait([end])
                answer = task.result()
                data = json.dumps(answer).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ")
                writer.write(str(len(data)).encode() + b"\r\n\r\n" + data)
                await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/figures":
            return {"waiting": self.waiting, "asked": self.asked}
        if path == "/release":
            self.released.set()
            return {}
        if body["model"] == "slow":
            self.asked += 1
            number, self.waiting = self.asked, self.waiting + 1
            try:
                await self.released.wait()
                await asyncio.sleep(self.seconds * (number % 1000) / 1000)
            finally:
                self.waiting -= 1
        message = {"role": "assistant", "content": "I have answered."}
        usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice],
                "usage": usage}  # fmt: skip

    async def run(self, port: int) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", port, backlog=10_000)
        await server.serve_forever()


@contextmanager
def slow_model(seconds: float) -> Any:
    port = free_port()
    with process(sys.executable, "-m", "benchmarks.flight", "--model", str(port), "--seconds", str(seconds)):
        wait_for(port)
        yield f"http://127.0.0.1:{port}"


def seed(count: int) -> None:
    """Accept messages as the web server does, without HTTP: it would take most of the time."""
    import django

    django.setup()
    from django.contrib.auth import get_user_model

    from agents.models import Agent
    from runs.intake.messages import accept_message

    user, agent = get_user_model().objects.get(username="admin"), Agent.objects.get(name="slow")
    for _ in range(count):
        accept_message(user=user, text="Think about it.", agent=agent)


def agent(api: httpx2.Client, name: str) -> None:
    prompt = "You answer questions."
    made(api.post("/agents/", json={"name": name, "description": name, "system_prompt": prompt, "provider": "flight",
                                    "model_name": name, "timeout": 3600}))  # fmt: skip
    made(api.post(f"/agents/{name}/publish"))


def chat(base: str, key: str, pid: int) -> Any:
    return measure(
        lambda client: client.post(
            f"{base}/api/v1/agents/quick/messages", json={"message": "Hello"},
            headers={"Authorization": f"Bearer {key}"},
        ),
        callers=1, count=CHATS, pids=(pid,), check=lambda answer: "answered" in answer.json()["reply"]["text"],
    )  # fmt: skip


def figures(model: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{model}/figures") as answer:
        return json.load(answer)


def program(pid: int, word: str) -> psutil.Process:
    matches = [
        process for process in psutil.Process(pid).children(recursive=True) if word in " ".join(process.cmdline())
    ]
    return matches[0]


def until(ready: Any, seconds: float, what: str) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not ready():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"{what}: not after {seconds:.0f} s")
        time.sleep(0.5)
    return time.monotonic() - began


def count(api: httpx2.Client, status: str, name: str = "slow") -> int:
    total, page = 0, f"/runs/?status={status}&agent={name}&limit=100"
    while page:
        answer = made(api.get(page))
        total, page = total + len(answer["results"]), answer["next"]
    return total


def measure_flight(db: str, runs: int, seconds: float) -> None:
    os.environ["MUSTER_MODEL_SILENCE"] = "3600"  # until the last one has asked
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        slow_model(seconds) as model,
        stub() as stub_url,
        muster(Path(folder), db, stub_url) as (base, key, pid),
        httpx2.Client(base_url=f"{base}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=300) as api,
    ):
        provider = {"name": "flight", "kind": "openai-compatible", "base_url": f"{model}/v1", "api_key": "none"}
        made(api.post("/providers/", json=provider))
        for name in ("quick", "slow"):
            agent(api, name)
        chat(base, key, pid)
        idle = chat(base, key, pid)
        worker = program(pid, "muster web")
        before = worker.memory_info().rss
        environment = {
            **os.environ, "MUSTER_DATA_DIR": f"{folder}/data", "DB": "postgres" if db == "postgres" else "",
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }  # fmt: skip
        seeds = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.flight", "--seed", str(share)], cwd=ROOT, env=environment
            )
            for share in (runs // 2, runs - runs // 2)
        ]
        if sum(seed.wait() for seed in seeds):
            raise SystemExit("Not all messages were accepted.")
        took = until(lambda: figures(model)["waiting"] >= runs, 1800, "all runs ask their model")
        held = worker.memory_info().rss
        print(
            f"{runs:,} runs in flight on one worker, {took:.0f} s after the last was accepted: "
            f"{(held - before) / runs / 1024:.1f} kB a run, {worker.num_threads()} threads, {worker.num_fds()} files",
            flush=True,
        )
        beside = chat(base, key, pid)
        print(
            f"chat, idle     {idle}\nchat, beside   {beside}\nratio          p50 x {beside.p50 / idle.p50:.2f}",
            flush=True,
        )
        urllib.request.urlopen(f"{model}/release").close()
        took = until(lambda: not figures(model)["waiting"] and not count(api, "running"), 1800, "all runs end")
        ends = {status: count(api, status) for status in ("succeeded", "failed", "expired", "queued", "waiting")}
        print(f"all ended {took:.0f} s later: {ends}", flush=True)
        for run in made(api.get("/runs/?status=failed&agent=slow&limit=3"))["results"]:
            print(run["error"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--model", type=int, help="serve the model on this port")
    parser.add_argument("--seed", type=int, help="accept so many messages")
    options = parser.parse_args()
    if options.model:
        asyncio.run(SlowModel(options.seconds).run(options.model))
    elif options.seed:
        seed(options.seed)
    else:
        measure_flight(options.db, options.runs, options.seconds)


if __name__ == "__main__":
    main()
