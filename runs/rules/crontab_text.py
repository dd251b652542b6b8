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
    """The five crontab fields that these words mean; any other text as it is."""
    words = " ".join(text.lower().split())[:200]
    fixed = NICKNAMES.get(words) or WHOLE.get(words)
    if fixed:
        return fixed
    return read_steps(words) or read_days(words) or read_date(words) or text


def read_steps(words: str) -> str:
    """“every 15 minutes”, if they fill an hour or a day evenly: otherwise the last step is shorter."""
    match = STEPS.fullmatch(words)
    if match is None:
        return ""
    count = int(match["count"])
    is_minutes = match["unit"].startswith("minute")
    whole = 60 if is_minutes else 24
    if count == 0 or whole % count != 0:
        return ""
    if is_minutes:
        return f"*/{count} * * * *"
    return f"0 */{count} * * *"


def read_days(words: str) -> str:
    """“every monday and friday at 17:30”."""
    match = ON_DAYS.fullmatch(words)
    if match is None:
        return ""
    clock = read_clock(match)
    if not clock:
        return ""
    days = [DAYS[name] for name in re.findall(DAY, match["days"])]
    weekdays = "*" if "*" in days else ",".join(days)
    return f"{clock} * * {weekdays}"


def read_date(words: str) -> str:
    """“on the 1st of every month at 8”."""
    match = ON_DATE.fullmatch(words)
    if match is None:
        return ""
    clock = read_clock(match)
    if not clock:
        return ""
    day = match["date"] or "L"
    return f"{clock} {day} * *"


def read_clock(match: re.Match[str]) -> str:
    """`30 17` of “at 5:30 pm”; empty if there is no such time."""
    if match["named"]:
        hour_of_name = HOURS[match["named"]]
        return f"0 {hour_of_name}"
    hour = int(match["hour"])
    minute = int(match["minute"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return ""
        # 12 am is midnight, 12 pm is noon.
        hour %= 12
        if match["half"] == "pm":
            hour += 12
    if hour >= 24 or minute >= 60:
        return ""
    return f"{minute} {hour}"
