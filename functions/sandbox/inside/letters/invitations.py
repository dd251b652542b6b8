"""Invitations in mails (iCalendar, RFC 5545) as events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .left_out import LeftOut

Event = dict[str, Any]
# The name, the parameters and the value.
Line = tuple[str, dict[str, str], str]
# Events of one calendar.
MOST = 20
PEOPLE = 200
# Characters of a field.
LONGEST = 5_000
WHAT = {"REQUEST": "Invitation", "CANCEL": "Cancelled event", "REPLY": "Answer to an invitation",
        "COUNTER": "Proposal of another time", "DECLINECOUNTER": "Refusal of another time"}  # fmt: skip
FIELDS = {"UID": "uid", "SUMMARY": "summary", "LOCATION": "location", "STATUS": "status", "RRULE": "recurrence",
          "DESCRIPTION": "description", "URL": "url", "RECURRENCE-ID": "instance", "DURATION": "duration"}  # fmt: skip
TIMES = {"DTSTART": "start", "DTEND": "end", "DUE": "end"}
PARAMETER = re.compile(r'([A-Za-z0-9-]+)=("[^"]*"|[^;:"]*)')
MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)?(Z?))?")
ESCAPED = re.compile(r"\\([nN,;\\:\"])")


def read_events(text: str, left_out: LeftOut) -> list[Event]:
    """The events and tasks of a calendar. Never raises; what cannot be read is listed in `left_out`."""
    events: list[Event] = []
    method, kind, depth, more = "", "", 0, 0
    fields: list[Line] = []
    for name, parameters, value in read_lines(text):
        if name == "BEGIN" and kind:
            # An alarm in the event.
            depth += 1
        elif name == "BEGIN" and value.upper() in ("VEVENT", "VTODO", "VJOURNAL"):
            kind, fields = value.upper(), []
        elif name == "END" and depth:
            depth -= 1
        elif name == "END" and kind:
            more += len(events) >= MOST
            events += [make_event(kind, fields)][: MOST - len(events)]
            kind = ""
        elif kind and not depth:
            fields.append((name, parameters, value))
        elif name == "METHOD":
            method = value.strip().upper()[:40]
    if kind and fields:
        left_out.note("calendar", "The calendar breaks off; the last event may lack something.")
        events.append(make_event(kind, fields))
    if more:
        left_out.add("calendar", f"{more} more events are left out.")
    for event in events:
        event["method"] = method or "PUBLISH"
    return events


def read_lines(text: str) -> Iterator[Line]:
    """Each property. A line that begins with a space goes on with the one before."""
    unfolded = re.sub(r"(?:\r\n|\n|\r)[ \t]", "", text)
    for line in unfolded.splitlines():
        head = re.match(r"\s*([A-Za-z0-9-]+)", line)
        if not head:
            continue
        at, parameters = head.end(), {}
        while line.startswith(";", at) and (match := PARAMETER.match(line, at + 1)):
            parameters[match[1].upper()] = match[2].strip('"')
            at = match.end()
        at = line.find(":", at)
        if at >= 0:
            yield head[1].upper(), parameters, line[at + 1 :]


def make_event(kind: str, lines: list[Line]) -> Event:
    event: Event = {"kind": "task" if kind == "VTODO" else "event", "uid": "", "summary": "", "start": "", "end": ""}
    event |= {"time_zone": "", "location": "", "organizer": "", "attendees": []}
    for name, parameters, value in lines:
        if name in FIELDS:
            event[FIELDS[name]] = read_text(value)
        elif name in TIMES:
            event[TIMES[name]] = read_moment(value)
            zone = read_text(parameters.get("TZID", ""))
            event["time_zone"] = event["time_zone"] or zone
        elif name == "ORGANIZER":
            event["organizer"] = read_person(parameters, value)
        elif name == "ATTENDEE" and len(event["attendees"]) < PEOPLE:
            event["attendees"].append(read_person(parameters, value))
    event["is_all_day"] = bool(re.fullmatch(r"\d{4}-\d\d-\d\d", event["start"]))
    return event


def read_text(value: str) -> str:
    plain = ESCAPED.sub(unescape, value)
    return plain.strip()[:LONGEST]


def unescape(match: re.Match[str]) -> str:
    r"""`\n` is a line break; any other escaped letter is itself."""
    if match[1] in "nN":
        return "\n"
    return match[1]


def read_moment(value: str) -> str:
    """2026-12-01T10:00:00, with Z in UTC; 2026-12-01 for a whole day; what is neither stays as it is."""
    match = MOMENT.fullmatch(value.strip())
    if not match:
        return value.strip()[:100]
    year, month, day, hour, minute, second, utc = match.groups()
    date = f"{year}-{month}-{day}"
    if not hour:
        return date
    return f"{date}T{hour}:{minute}:{second or '00'}{utc}"


def read_person(parameters: dict[str, str], value: str) -> str:
    address = re.sub(r"(?i)^mailto:", "", value.strip())
    person = address
    name = parameters.get("CN", "").strip()
    if name and name != address:
        person = f"{name} <{address}>"
    answer = parameters.get("PARTSTAT", "")
    if answer.upper() not in ("", "NEEDS-ACTION"):
        person = f"{person} ({answer.lower()})"
    return person[:320]


def describe_event(event: Event) -> str:
    """The event as lines of text."""
    kind = "Event"
    if event["kind"] == "task":
        kind = "Task"
    what = WHAT.get(event["method"], kind)
    lines = [f"{what}: {event['summary'] or '(without a title)'}"]
    end = event["end"] or event.get("duration", "")
    when = " – ".join(filter(None, (event["start"], end)))
    if when and event["time_zone"]:
        when += f" ({event['time_zone']})"
    if when:
        lines.append(f"When: {when}")
    if event.get("recurrence"):
        lines.append(f"Repeats: {event['recurrence']}")
    if event["location"]:
        lines.append(f"Where: {event['location']}")
    if event["organizer"]:
        lines.append(f"Organizer: {event['organizer']}")
    if event["attendees"]:
        lines.append(f"Attendees: {', '.join(event['attendees'])}")
    return "\n".join(lines)
