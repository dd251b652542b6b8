"""What people write for a crontab line: `@daily`, “every weekday at 9”, „werktags um 9 Uhr“. Pure.

Words are few and fixed: what is not understood is refused, never guessed.
"""

import re

NICKNAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
DAYS = {
    "sunday": "0", "monday": "1", "tuesday": "2", "wednesday": "3", "thursday": "4", "friday": "5", "saturday": "6",
    "sonntag": "0", "montag": "1", "dienstag": "2", "mittwoch": "3", "donnerstag": "4", "freitag": "5",
    "samstag": "6", "sonnabend": "6", "weekday": "1-5", "werktag": "1-5", "wochentag": "1-5", "weekend": "0,6",
    "wochenende": "0,6", "day": "*", "tag": "*", "daily": "*", "täglich": "*",
}  # fmt: skip
HOURS = {"noon": "12", "midday": "12", "mittag": "12", "midnight": "0", "mitternacht": "0"}
DAY = "|".join(sorted(DAYS, key=len, reverse=True))
TIME = (
    r"(?: ?,? (?:at|um|gegen) (?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?(?: ?(?P<half>am|pm))?(?: uhr)?"
    rf"|(?P<named>{'|'.join(HOURS)})))"
)
NAMED_DAY = rf"(?:{DAY})e?n?s?"
ON_DAYS = re.compile(
    rf"(?:(?:every|each|on|jeden|jedes|am|an) )?(?P<days>{NAMED_DAY}(?:(?:,| and| und|, and) {NAMED_DAY})*){TIME}"
)
ON_DATE = re.compile(
    r"(?:on )?(?:the |am |jeden )?(?:(?P<date>\d{1,2})(?:st|nd|rd|th|\.)?|(?P<last>last day|letzten tag))"
    rf"(?: (?:of|in) (?:the|every|each) month| (?:jedes|des|im) monats?){TIME}"
)
STEPS = re.compile(r"(?:every|alle) (?P<count>\d{1,2}) (?P<unit>minutes|minuten|hours|stunden)")
WHOLE = {
    "every minute": "* * * * *", "jede minute": "* * * * *", "every hour": "0 * * * *", "hourly": "0 * * * *",
    "jede stunde": "0 * * * *", "stündlich": "0 * * * *",
}  # fmt: skip


def read_words(text: str) -> str:
    """The five fields that the text means, or the text itself, if it is no nickname and no words."""
    words = " ".join(text.lower().split())[:200]
    if words in NICKNAMES:
        return NICKNAMES[words]
    return WHOLE.get(words) or read_steps(words) or read_days(words) or read_date(words) or text


def read_steps(words: str) -> str:
    """“every 15 minutes”, if they fill an hour or a day evenly: otherwise the last step is shorter."""
    match = STEPS.fullmatch(words)
    if match is None:
        return ""
    count, is_minutes = int(match["count"]), match["unit"].startswith("minute")
    if not count or (60 if is_minutes else 24) % count:
        return ""
    return f"*/{count} * * * *" if is_minutes else f"0 */{count} * * *"


def read_days(words: str) -> str:
    """“every monday and friday at 17:30”."""
    match = ON_DAYS.fullmatch(words)
    clock = read_clock(match) if match else ""
    if not match or not clock:
        return ""
    days = [DAYS[name] for name in re.findall(DAY, match["days"])]
    return f"{clock} * * {'*' if '*' in days else ','.join(days)}"


def read_date(words: str) -> str:
    """“on the 1st of every month at 8”."""
    match = ON_DATE.fullmatch(words)
    clock = read_clock(match) if match else ""
    if not match or not clock:
        return ""
    return f"{clock} {match['date'] or 'L'} * *"


def read_clock(match: re.Match[str]) -> str:
    """`30 17` of “at 5:30 pm”; empty if there is no such time."""
    if match["named"]:
        return f"0 {HOURS[match['named']]}"
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return ""
        hour = hour % 12 + (12 if match["half"] == "pm" else 0)
    return f"{minute} {hour}" if hour < 24 and minute < 60 else ""
