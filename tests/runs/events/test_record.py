"""Who is about to listen gets the answer as it is written, however fast the worker is."""

import pytest

from runs.events import record as events
from runs.intake import messages as intake


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_promised_listener_counts_before_it_has_subscribed(is_watched, alice, agent, monkeypatch):
    """The worker may ask before the caller's subscription stands: what was promised must be known by then."""
    agent.publish(author=alice)
    known = []
    monkeypatch.setattr(intake.wakeups, "enqueue", lambda run: known.append(events.has_watchers(run.pk)))
    intake.accept_message(user=alice, agent="librarian", text="Hello", is_watched=is_watched)
    assert known == [is_watched]
