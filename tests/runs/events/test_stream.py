"""Many watch one run: each sees every event once and in order, and the run is heard once for all of them."""

import asyncio
from copy import copy

import pytest

from plumbing.broker import broadcast
from plumbing.threads import in_thread
from runs.events import feed, stored, stream
from runs.events import record as events
from runs.events.frames import Frame
from runs.intake import messages as intake
from runs.models import Run, RunEvent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(alice, make_agent, monkeypatch):
    """A run that nobody works on: what happens in it is what the test writes."""
    make_agent("librarian")
    monkeypatch.setattr(intake.wakeups, "enqueue", lambda run_id: True)
    return intake.accept_message(user=alice, agent="librarian", text="Hello").run


@pytest.fixture
def tell(run):
    """`await tell("tool.log", "tool.log")`: these happen, in this order, together."""

    async def tell(*types):
        await in_thread(events.record_many, run, [(type, {"id": "0", "message": "é\n"}) for type in types])

    return tell


@pytest.fixture
def end(run):
    """The run ends; `await end()`."""

    def finish():
        Run.objects.filter(pk=run.pk).update(finished_at=run.created_at)
        events.record_event(run, "run.finished", {"status": "succeeded"})

    return lambda: in_thread(finish)


@pytest.fixture
def write(run):
    """`await write("Hel", "lo")`: pieces of the reply, as a worker writes them."""
    deltas = events.Deltas(run.pk, 1, every=0)
    return lambda *pieces: in_thread(lambda: [deltas.write(piece) for piece in pieces])


class Watcher:
    """Reads a run's stream to its end, or until it is told to leave."""

    def __init__(self, run, after=0):
        self.frames, self.changed = [], asyncio.Condition()
        self.task = asyncio.create_task(self.read(copy(run), after))  # as it was read now

    async def read(self, run, after):
        async for batch in stream.in_batches(run, after=after):
            async with self.changed:
                self.frames.extend(batch)
                self.changed.notify_all()

    async def has(self, wanted):
        """Wait until the frames are as they should be."""
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: wanted(self))

    async def leave(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def numbers(self):
        return [frame.seq for frame in self.frames if frame.seq]

    @property
    def text(self):
        return "".join(frame.data["text"] for frame in self.frames if frame.type == "message.delta")


async def at_end(*watchers):
    await asyncio.wait_for(asyncio.gather(*(watcher.task for watcher in watchers)), 60)


async def until_subscribed(run, times):
    numsub = ("PUBSUB", "NUMSUB", events.name_event_channel(run.pk))
    async with asyncio.timeout(60):
        while (await in_thread(broadcast.server_connection().ask, numsub))[0][1] != times:
            await asyncio.sleep(0)


async def test_all_see_each_event_once_whenever_they_join(run, tell, end):
    early = [Watcher(run) for _ in range(20)]
    await early[0].has(lambda one: one.numbers == [1])
    await tell("tool.log", "tool.log")
    late = [Watcher(run) for _ in range(20)]
    await tell("tool.log")
    resumed = Watcher(run, after=2)
    await end()
    await at_end(*early, *late, resumed)
    assert {tuple(one.numbers) for one in [*early, *late]} == {(1, 2, 3, 4, 5)}
    assert resumed.numbers == [3, 4, 5]


async def test_a_hundred_watchers_are_one_subscription_that_ends_with_them(run, tell):
    watchers = [Watcher(run) for _ in range(100)]
    await tell("tool.log")
    await asyncio.gather(*(one.has(lambda one: 2 in one.numbers) for one in watchers))
    (heard,) = feed.FEEDS[asyncio.get_running_loop()].values()
    await until_subscribed(run, 1)
    assert heard.readers == 100
    await asyncio.gather(*(one.leave() for one in watchers))
    await asyncio.wait_for(heard.work, 60)
    assert not feed.FEEDS[asyncio.get_running_loop()]
    await until_subscribed(run, 0)


async def test_an_event_is_written_as_text_once_for_all(run, tell, end):
    watchers = [Watcher(run), Watcher(run)]
    await asyncio.gather(*(one.has(lambda one: one.numbers == [1]) for one in watchers))
    await tell("tool.log")
    await end()
    await at_end(*watchers)
    first, second = (one.frames[-1] for one in watchers)
    assert first is second and first.as_sse is second.as_sse


async def test_who_leaves_and_comes_back_misses_nothing(run, tell, end):
    for _ in range(5):
        watcher = Watcher(run)
        await watcher.has(lambda one: 1 in one.numbers)
        await watcher.leave()
    back = Watcher(run, after=1)
    await tell("tool.log")
    await end()
    await at_end(back)
    assert back.numbers == [2, 3]


async def test_a_reader_that_falls_behind_is_caught_up_from_the_rows(run, tell, end, monkeypatch):
    monkeypatch.setattr(feed, "KEPT", 4)
    batches = stream.in_batches(run)
    first = await anext(batches)  # and now it reads nothing for a while
    quick = Watcher(run)
    for _ in range(10):
        await tell("tool.log")
    await quick.has(lambda one: one.numbers[-1] == 11)
    await end()
    await at_end(quick)
    rest = [frame.seq async for batch in batches for frame in batch]
    assert [first[0].seq, *rest] == quick.numbers == list(range(1, 13))


async def test_what_the_broker_lost_is_found_in_the_rows(run, tell, end, monkeypatch):
    monkeypatch.setattr(feed, "HEARTBEAT_S", 0.05)
    watcher = Watcher(run)
    await watcher.has(lambda one: any(frame.type == "heartbeat" for frame in one.frames))
    monkeypatch.setattr(events.broadcast, "publish_unconfirmed", lambda *_, **__: False)
    await tell("tool.log", "tool.log")
    await watcher.has(lambda one: one.numbers == [1, 2, 3])
    monkeypatch.undo()
    await end()
    await at_end(watcher)
    assert watcher.numbers == [1, 2, 3, 4]


async def test_the_next_event_brings_those_that_the_broker_lost(run, tell, end, monkeypatch):
    watcher = Watcher(run)
    await watcher.has(lambda one: one.numbers == [1])
    with monkeypatch.context() as lost:
        lost.setattr(events.broadcast, "publish_unconfirmed", lambda *_, **__: False)
        await tell("tool.log")
    await end()
    await at_end(watcher)
    assert watcher.numbers == [1, 2, 3]


async def test_a_delta_is_never_told_before_the_events_that_came_before_it(run, tell, write, end, monkeypatch):
    """The tool's result was stored and not heard yet: the words about it wait for it."""
    watcher = Watcher(run)
    await watcher.has(lambda one: one.numbers == [1])
    with monkeypatch.context() as lost:
        lost.setattr(events.broadcast, "publish_unconfirmed", lambda *_, **__: False)
        await tell("tool.called")
    await tell("tool.finished")  # its number shows that one was not heard, so the rows are read
    await write("Done", ".")
    await watcher.has(lambda one: one.text == "Done.")
    await end()
    await at_end(watcher)
    assert (watcher.numbers, watcher.text) == ([1, 2, 3, 4], "Done.")
    assert [frame.seq for frame in watcher.frames if frame.type != "heartbeat"][:3] == [1, 2, 3]


async def test_a_delta_waits_while_the_rows_are_read(run):
    told = feed.Feed(run, feeds={})
    piece = Frame(str(run.pk), "message.delta", '{"turn": 2, "offset": 0, "text": "Done."}')
    told.hear(piece)
    assert (list(told.recent), told.doubt.is_set()) == ([], True)
    for seq, turn in ((2, 1), (3, 2)):
        told.tell_event(Frame(str(run.pk), "model.finished", f'{{"turn": {turn}}}', seq=seq, at=""))
    told.is_behind = False
    told.hear(piece)  # late: its turn is told as a whole
    assert [(frame.type, frame.data["turn"]) for frame in told.recent] == [
        ("model.finished", 1), ("message.delta", 2), ("model.finished", 2),
    ]  # fmt: skip


async def test_the_text_so_far_waits_for_the_events_that_came_before_it(run, tell, write, monkeypatch):
    """The subscription stands late, and the tool's result and the words about it come while the text is asked for."""
    loop = asyncio.get_running_loop()

    def read_late(run_id):
        asyncio.run_coroutine_threadsafe(tell("tool.finished"), loop).result(60)
        asyncio.run_coroutine_threadsafe(write("Done."), loop).result(60)
        return unfinished_text(run_id)

    unfinished_text = feed.unfinished_text
    monkeypatch.setattr(feed, "unfinished_text", read_late)
    late = feed.Feed(run, feeds={})
    late.readers = 1
    late.may_have_missed()
    await late.look_about(60)
    assert [(frame.type, frame.seq) for frame in late.recent] == [("tool.finished", 2), ("message.delta", None)]


async def test_a_delta_waits_for_the_rows_when_the_subscription_comes_late(run):
    """Its rows were read once before anything could be heard; events since then were missed."""
    told = feed.Feed(run, feeds={})
    told.is_behind = False
    told.receive(None)  # it stands now
    told.hear(Frame(str(run.pk), "message.delta", '{"turn": 1, "offset": 0, "text": "Done."}'))
    assert (list(told.recent), told.doubt.is_set()) == ([], True)


async def test_a_late_joiner_gets_the_text_so_far_and_then_the_rest(run, write, end):
    first = Watcher(run)
    await first.has(lambda one: one.numbers == [1])
    await write("Hel", "lo ")
    await first.has(lambda one: one.text == "Hello ")
    second = Watcher(run)
    await second.has(lambda one: one.text == "Hello ")
    await write("world")
    await first.has(lambda one: one.text == "Hello world")
    await end()
    await at_end(first, second)
    assert first.text == second.text == "Hello world"


async def test_what_was_written_before_anybody_listened_here_is_told(run, write):
    await write("Hel", "lo ")
    watcher = Watcher(run)
    await watcher.has(lambda one: one.text == "Hello ")
    await write("world")
    await watcher.has(lambda one: one.text == "Hello world")
    await watcher.leave()


async def test_the_text_of_a_finished_turn_is_not_told_again(run, write, end):
    await write("Hello")
    await in_thread(lambda: Run.objects.filter(pk=run.pk).update(turns=1))
    watcher = Watcher(run)
    await watcher.has(lambda one: one.numbers == [1])
    await end()
    await at_end(watcher)
    assert watcher.text == ""


async def test_a_cursor_from_the_future_counts_as_one_that_has_everything(run, tell, end):
    watcher = Watcher(run, after=99)
    await tell("tool.log")
    await end()
    await at_end(watcher)
    assert watcher.numbers == [2, 3]


async def test_an_ended_run_is_told_without_a_subscription(run, end):
    await end()
    run = await in_thread(lambda: Run.objects.get(pk=run.pk))
    watcher = Watcher(run)
    await at_end(watcher)
    assert watcher.numbers == [1, 2] and not feed.FEEDS[asyncio.get_running_loop()]


async def test_a_feed_that_breaks_ends_the_streams_so_that_they_come_again(run, monkeypatch):
    monkeypatch.setattr(feed, "HEARTBEAT_S", 0.05)
    whole = asyncio.create_task(all_of(stream.as_sse(stream.in_batches(run))))
    watcher = Watcher(run)
    await watcher.has(lambda one: one.numbers == [1])

    def broken(*_):
        raise RuntimeError("the database went away")

    monkeypatch.setattr(feed, "iterate_stored_events", broken)
    assert b"run.queued" in await asyncio.wait_for(whole, 60)
    with pytest.raises(feed.FeedBroken):
        await at_end(watcher)


async def test_a_message_nobody_understands_deafens_no_watcher(run, tell, end, caplog, monkeypatch):
    """Rows read in the broker's stead would come after the test's patience."""
    monkeypatch.setattr(feed, "HEARTBEAT_S", 600)
    watcher = Watcher(run)
    await watcher.has(lambda one: one.numbers == [1])
    await until_subscribed(run, 1)
    await in_thread(broadcast.publish_message, events.name_event_channel(run.pk), {"run": str(run.pk)})
    await tell("tool.log")
    await watcher.has(lambda one: one.numbers == [1, 2])
    assert "could not be read" in caplog.text
    await end()
    await at_end(watcher)


async def all_of(source):
    return b"".join([piece async for piece in source])


def test_the_text_is_the_row_s_own_and_reads_as_one_event(run):
    events.record_event(run, "tool.log", {"id": "0", "message": "é\n\u2028", "more": [1, None]})
    row = RunEvent.objects.get(run=run, type="tool.log")
    (frame,) = stored.read_event_frames(run.pk, 1)
    lines = frame.as_sse.decode().split("\n")
    assert lines[:2] == ["id: 2", "event: tool.log"] and lines[3:] == ["", ""]
    assert frame.data == row.data
    live = Frame.of(events.serialize_event(row))
    assert (live.data, live.at) == (frame.data, frame.at)


@pytest.mark.parametrize("microsecond", [0, 120_000, 123_456, 999_999])
def test_a_stored_moment_is_told_as_it_was_live(run, microsecond):
    at = run.created_at.replace(microsecond=microsecond)
    RunEvent.objects.filter(run=run).update(at=at)
    (frame,) = stored.read_event_frames(run.pk, 0)
    assert frame.at == events.format_moment(at)


def test_who_has_everything_of_an_ended_run_is_told_not_to_come_back(run, alice_api):
    Run.objects.filter(pk=run.pk).update(finished_at=run.created_at)
    path = f"/api/v1/runs/{run.pk}/stream"
    assert alice_api.get(path, headers={"Last-Event-ID": "1"}).status_code == 204
    assert alice_api.get(f"{path}?after=7").status_code == 204
    assert alice_api.get(path, headers={"Last-Event-ID": "one"}).status_code == 422


def test_a_stranger_finds_no_stream(run, charlie_api):
    assert charlie_api.get(f"/api/v1/runs/{run.pk}/stream").status_code == 404


async def test_streams_end_when_their_run_is_gone(run, tell, monkeypatch):
    """It was deleted, or the database went back to before it. As text the stream just ends: its reader reconnects."""
    monkeypatch.setattr(feed, "HEARTBEAT_S", 0.05)
    watchers = [Watcher(run), Watcher(run)]
    await tell("tool.log")
    await asyncio.gather(*(one.has(lambda one: one.numbers == [1, 2]) for one in watchers))
    text = stream.as_sse(stream.in_batches(copy(run)))
    async with asyncio.timeout(60):
        begin = b""
        while b"event: tool.log" not in begin:
            begin += await anext(text)
        await in_thread(lambda: Run.objects.filter(pk=run.pk).delete())
        ends = await asyncio.gather(*(one.task for one in watchers), return_exceptions=True)
        await in_one(text)
    assert [type(end) for end in ends] == [feed.FeedBroken] * 2
    assert {frame.type for one in watchers for frame in one.frames if frame.seq is None} == {"heartbeat"}
    assert not feed.FEEDS[asyncio.get_running_loop()]


async def in_one(pieces):
    return b"".join([piece async for piece in pieces])
