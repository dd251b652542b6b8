"""Crontab lines of other dialects, nicknames and words are understood, or refused with what to write."""

from datetime import UTC, datetime

import pytest

from runs.rules.timing import TimingError, read_line, split_line, upcoming

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("0 9 * * 7", "01-04 09:00"),  # croniter, n8n: 7 is Sunday
        ("0 9 * * 0", "01-04 09:00"),
        ("0 9 * * 5-7", "01-02 09:00"),  # APScheduler: a range that ends on Sunday
        ("0 9 * * 0-7", "01-01 09:00"),
        ("0 9 * * 1-7", "01-01 09:00"),
        ("0 9 * * 6,7", "01-03 09:00"),
        ("0 9 * * SUN", "01-04 09:00"),
        ("0 9 * * Monday", "01-05 09:00"),
        ("0 9 * * fri-mon", "01-02 09:00"),
        ("0 9 1 FEB *", "02-01 09:00"),
        ("0 9 1 jan-mar *", "01-01 09:00"),
        ("0 9 1 november-january *", "01-01 09:00"),
        ("0 9 1 JAN,JUL *", "01-01 09:00"),
        ("5/15 * * * *", "01-01 00:05"),  # Quartz: from the fifth minute on
        ("0 3/6 * * *", "01-01 03:00"),
        ("0 9 L * *", "01-31 09:00"),  # Quartz: the last day
        ("0 9 15,L * *", "01-15 09:00"),
        ("0 9 ? * MON", "01-05 09:00"),
        ("0 9 1 * ?", "01-01 09:00"),
        ("@daily", "01-02 00:00"),
        ("@midnight", "01-02 00:00"),
        ("@hourly", "01-01 01:00"),
        ("@weekly", "01-04 00:00"),
        ("@monthly", "02-01 00:00"),
        (" @Yearly ", "01-01 00:00"),
        ("0  9\t*  *  *", "01-01 09:00"),
    ],
)
def test_it_is_understood(line, first):
    due = upcoming(read_line(line), NEW_YEAR, 1)
    assert [f"{moment:%m-%d %H:%M}" for moment in due] == [first]


def test_the_last_day_of_each_month_and_steps_from_a_number():
    days = [f"{moment:%m-%d}" for moment in upcoming(read_line("0 0 L * *"), NEW_YEAR, 4)]
    assert days == ["01-31", "02-28", "03-31", "04-30"]
    minutes = [moment.minute for moment in upcoming(read_line("5/15 * * * *"), NEW_YEAR, 5)]
    assert minutes == [5, 20, 35, 50, 5]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("0 0 9 * * *", "no seconds and no year"),
        ("0 0 9 * * ? 2027", "no seconds and no year"),
        ("@reboot", "write @hourly"),
        ("@every 5m", "write @hourly"),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "set the schedule's time zone"),
        ("H 9 * * *", "Write a number instead of H"),
        ("0 9 * * 5#3", "8-14 is the second week"),
        ("0 9 * * 5L", "Only L, the last day of the month"),
        ("0 9 L-3 * *", "Only L, the last day of the month"),
        ("0 9 15W * *", "Write the days, and 1-5"),
        ("0~30 9 * * *", "jitter_s"),
        ("? 9 * * *", "Write * instead"),
        ("0 9 * * 8", "between 0 and 7, or be a name such as mon"),
        ("0 9 * 13 *", "between 1 and 12, or be a name such as feb"),
        ("0 9 * * mo", "between 0 and 7, or be a name such as mon"),
        ("0 9 * * monster", "between 0 and 7"),
        ("*/0 * * * *", "is not valid"),
        ("0 24 * * *", "between 0 and 23"),
        ("every 7 minutes", "“every weekday at 9” are understood"),
        ("every day at 25", "“every weekday at 9” are understood"),
        ("whenever you like", "“every weekday at 9” are understood"),
        ("", "five fields"),
    ],
)
def test_it_is_refused_with_what_to_write(line, sentence):
    with pytest.raises(TimingError) as caught:
        read_line(line)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("every weekday at 9", "0 9 * * 1-5"),
        ("Every Weekday at 9:30", "30 9 * * 1-5"),
        ("weekdays at 9am", "0 9 * * 1-5"),
        ("every day at 5:15 pm", "15 17 * * *"),
        ("daily at midnight", "0 0 * * *"),
        ("every day at 12 am", "0 0 * * *"),
        ("every monday at noon", "0 12 * * 1"),
        ("every Monday and Friday at 17:00", "0 17 * * 1,5"),
        ("on saturdays, sundays at 10", "0 10 * * 6,0"),
        ("every weekend at 10", "0 10 * * 0,6"),
        ("every hour", "0 * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every 2 hours", "0 */2 * * *"),
        ("on the 1st of every month at 8", "0 8 1 * *"),
        ("on the last day of the month at 18:00", "0 18 L * *"),
        ("jeden Werktag um 9", "0 9 * * 1-5"),
        ("werktags um 9 Uhr", "0 9 * * 1-5"),
        ("täglich um 9:30 Uhr", "30 9 * * *"),
        ("jeden Tag um 9.30 Uhr", "30 9 * * *"),
        ("montags um 8", "0 8 * * 1"),
        ("jeden Montag und Freitag um 17 Uhr", "0 17 * * 1,5"),
        ("am Wochenende um 10 Uhr", "0 10 * * 0,6"),
        ("stündlich", "0 * * * *"),
        ("alle 15 Minuten", "*/15 * * * *"),
        ("am 1. jedes Monats um 8", "0 8 1 * *"),
        ("am letzten Tag des Monats um 18 Uhr", "0 18 L * *"),
    ],
)
def test_words_become_five_fields(words, line):
    assert " ".join(split_line(words)) == line
