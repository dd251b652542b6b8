"""Temporal: each wake-up is a workflow with one activity, which a worker of the pool takes.

The payload is the name of the pool, and Temporal keeps nothing else of a run. The activity beats
while it waits for room, so Temporal gives the wake-up to another worker if this one dies. Needs
requirements-temporal.txt.
"""

import asyncio
import itertools
import logging
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from django.conf import settings
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from . import Bell, pause_after_failures

log = logging.getLogger(__name__)
ANSWERS_WITHIN_S = 2.0
# A wake-up that nobody took within this time ends: workers have looked since.
OLD_S = 60
BEAT_S = 10
# Wake-ups of a process that are open at a time.
MOST = 1000
AWAY = (RPCError, TemporalError, RuntimeError, TooLate, OSError)


@workflow.defn(name="muster-wake")
class Wake:
    """One wake-up."""

    @workflow.run
    async def run(self, pool: str) -> None:
        limit = timedelta(seconds=OLD_S)
        await workflow.execute_activity(
            "muster-ring", pool, schedule_to_close_timeout=limit, heartbeat_timeout=timedelta(seconds=2 * BEAT_S)
        )


class Temporal:
    """One event loop in a thread serves all threads of the process."""

    wakes_one = True

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.client: Client | None = None
        self.numbers = itertools.count()
        threading.Thread(target=self.loop.run_forever, name="temporal", daemon=True).start()

    def ring(self, pool: str) -> bool:
        try:
            self.do(self.start(pool))
        except AWAY as error:
            log.warning("No worker could be woken: %s. One looks by itself within seconds.", error or type(error))
            return False
        return True

    async def start(self, pool: str) -> None:
        client = await self.connected()
        # Numbers come round: a wake-up that is still open is not started a second time.
        number = next(self.numbers) % MOST
        await client.start_workflow(
            "muster-wake",
            pool,
            id=f"muster-{pool}-{id(self)}-{number}",
            task_queue=name_task_queue(pool),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            execution_timeout=timedelta(seconds=OLD_S),
            rpc_timeout=timedelta(seconds=ANSWERS_WITHIN_S),
        )

    async def connected(self) -> Client:
        self.client = self.client or await connect_temporal()
        return self.client

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(ANSWERS_WITHIN_S)
        except TooLate:
            future.cancel()
            raise

    def listen(self, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
        failures = 0
        while not stopping.is_set():
            try:
                hearing = asyncio.run_coroutine_threadsafe(self.hear(pools, bell, stopping), self.loop)
                hearing.result()
            except AWAY as error:
                failures += 1
                log.warning("Cannot listen for work: %s", error)
                pause_after_failures(failures, stopping)

    async def hear(self, pools: Sequence[str], bell: Bell, stopping: threading.Event) -> None:
        """One Temporal worker for each pool, until the worker stops. Only activities run on threads."""
        # A connection of its own: a queue has one worker for each.
        client = await asyncio.wait_for(connect_temporal(), ANSWERS_WITHIN_S)

        @activity.defn(name="muster-ring")
        async def ring(pool: str) -> None:
            """Bells ring one at a time, and wait while the worker has no room."""
            rung = self.loop.run_in_executor(bells, bell, pool)
            is_done = False
            while not is_done:
                done, _ = await asyncio.wait([rung], timeout=BEAT_S)
                is_done = bool(done)
                if not is_done:
                    activity.heartbeat()

        with ThreadPoolExecutor(len(pools), thread_name_prefix="bell") as bells:
            workers = [
                Worker(
                    client, task_queue=name_task_queue(pool), workflows=[Wake], activities=[ring],
                    max_concurrent_activities=1, workflow_runner=UnsandboxedWorkflowRunner(),
                    # Otherwise a busy machine is taken for a deadlock.
                    debug_mode=True,
                )
                for pool in pools
            ]  # fmt: skip
            async with AsyncExitStack() as running:
                for worker in workers:
                    await running.enter_async_context(worker)
                await asyncio.to_thread(stopping.wait)

    def problem(self) -> str:
        try:
            is_well = self.do(self.checked())
        except AWAY as error:
            return str(error) or type(error).__name__
        return "" if is_well else "Temporal does not answer"

    async def checked(self) -> bool:
        client = await self.connected()
        return await client.service_client.check_health()


async def connect_temporal() -> Client:
    address, _, namespace = settings.TEMPORAL_URL.partition("/")
    return await Client.connect(address, namespace=namespace or "default")


def name_task_queue(pool: str) -> str:
    return f"muster-{pool}"
