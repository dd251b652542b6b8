"""A coroutine waits for one announcement, and none is lost between two waits."""

import asyncio

from plumbing.broker.announcements import LoopWaiter


def test_what_was_announced_before_the_wait_ends_it_at_once():
    async def story():
        waiter = LoopWaiter()
        waiter.tell(b'{"status": "succeeded"}')
        return await waiter.wait(60), waiter.news

    assert asyncio.run(story()) == (True, {"status": "succeeded"})


def test_a_wait_that_ended_without_news_can_be_repeated():
    async def story():
        waiter = LoopWaiter()
        first = await waiter.wait(0.01)
        asyncio.get_running_loop().call_later(0.01, waiter.tell, b'{"n": 1}')
        return first, await waiter.wait(60), waiter.news, await waiter.wait(0)

    assert asyncio.run(story()) == (False, True, {"n": 1}, False)


def test_an_announcement_while_a_wait_times_out_is_not_lost():
    async def story():
        waiter = LoopWaiter()
        for _ in range(200):  # the time-out and the announcement come in the same turn of the loop, in either order
            asyncio.get_running_loop().call_later(0.001, waiter.hear, b"")
            assert await waiter.wait(0.001) or await waiter.wait(60)

    asyncio.run(story())


def test_a_wait_can_be_cancelled_and_the_next_one_hears():
    async def story():
        waiter = LoopWaiter()
        waiting = asyncio.create_task(waiter.wait(60))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        waiter.hear(b"")
        return await waiter.wait(60)

    assert asyncio.run(story()) is True
