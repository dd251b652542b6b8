"""Crontab lines in words. Pure."""

import re

import cron_descriptor

LOCALES = {"en": "en_US", "de": "de_DE"}
# The library takes names of days and months from the locale of the process.
GERMAN = {
    "Monday": "Montag", "Tuesday": "Dienstag", "Wednesday": "Mittwoch", "Thursday": "Donnerstag", "Friday": "Freitag",
    "Saturday": "Samstag", "Sunday": "Sonntag", "January": "Januar", "February": "Februar", "March": "März",
    "May": "Mai", "June": "Juni", "July": "Juli", "October": "Oktober", "December": "Dezember",
}  # fmt: skip
NAMES = re.compile("|".join(GERMAN))


def style(locale: str) -> cron_descriptor.Options:
    options = cron_descriptor.Options()
    options.use_24hour_time_format = True
    options.locale_code = locale
    return options


STYLES = {language: style(locale) for language, locale in LOCALES.items()}


def describe_crontab(line: str, language: str = "en") -> str:
    """ "At 09:00, Monday through Friday" for `0 9 * * 1-5`; the line itself if it cannot be described."""
    options = STYLES.get(language, STYLES["en"])
    try:
        words = cron_descriptor.get_description(line, options)
    # The library raises errors of several kinds, and a page without a description is better than none.
    except Exception:
        return line
    if language != "de":
        return words
    return NAMES.sub(lambda match: GERMAN[match[0]], words)
