import pytest

from connectors.mcp.sse import Position, events
from plumbing.http.outbound import TooMuch


def read(text, size=5):
    data, position = text.encode(), Position()
    return list(events((data[at : at + size] for at in range(0, len(data), size)), position)), position


def test_an_event_with_empty_data_only_carries_an_id():
    texts, position = read('id: a-1\ndata:\n\nid: a-2\ndata: {"x": 1}\n\n')
    assert texts == ['{"x": 1}'] and position.event_id == "a-2"


def test_an_id_counts_once_its_event_is_complete():
    assert read('id: a-1\ndata: 1\n\nid: a-2\ndata: {"cut')[1].event_id == "a-1"


def test_the_pause_is_in_milliseconds_and_has_a_limit():
    assert read("retry: 250\n\n")[1].retry_s == 0.25
    assert read("retry: 99999999999\n\n")[1].retry_s == 60.0
    assert read("retry: soon\n\n")[1].retry_s == 1.0


@pytest.mark.parametrize("text", [": keep-alive\n\n", "event: message\n\n", "data:\n\n", "data: \r\n\r\n"])
def test_what_has_no_data_is_no_message(text):
    assert read(text)[0] == []


def test_lines_of_one_event_are_joined():
    assert read("data: [1,\r\ndata: 2]\r\n\r\n")[0] == ["[1,\n2]"]


def test_a_flood_of_priming_events_is_stopped():
    with pytest.raises(TooMuch):
        read("id: 1\ndata:\n\n" * 200_000, size=65536)
