"""Crontab lines in English. Pure."""

import cron_descriptor

STYLE = cron_descriptor.Options()
STYLE.use_24hour_time_format = True
STYLE.locale_code = "en_US"


def in_words(line: str) -> str:
    """ "At 09:00, Monday through Friday" for `0 9 * * 1-5`; the line itself if it cannot be described."""
    try:
        return cron_descriptor.get_description(line, STYLE)
    except Exception:  # the library raises different kinds, and a description is a courtesy
        return line
