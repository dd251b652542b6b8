"""An address that cannot work is refused when a program starts, in one sentence."""

import os
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import brokers
from runs.queue import carriers

EMBEDDED = "redis+socket:///var/valkey.sock?virtual_host=0"


def test_the_names_are_those_of_the_carriers():
    assert set(brokers.CARRIERS) == set(carriers.CARRIERS)


@pytest.mark.parametrize("url", ["redis://broker:6379/0", "amqp://guest@rabbit//", EMBEDDED, "memory://"])
def test_celery_may_use_any_broker_that_it_knows(url):
    assert brokers.broker_url(url) == url


@pytest.mark.parametrize("url", ["", "localhost:6379", "carrier-pigeon://roof"])
def test_a_broker_that_celery_does_not_know_is_refused(url):
    with pytest.raises(ImproperlyConfigured, match="BROKER_URL names no broker"):
        brokers.broker_url(url)


@pytest.mark.parametrize(
    ("given", "broker", "found"),
    [
        ("", EMBEDDED, "unix:///var/valkey.sock?db=0"),
        ("", "rediss://broker:6379/0", "rediss://broker:6379/0"),
        ("redis://queue:6379/3", "amqp://rabbit//", "redis://queue:6379/3"),
        ("", "amqp://rabbit//", ""),
    ],
)
def test_the_list_is_on_the_broker_if_that_speaks_redis(given, broker, found):
    assert brokers.queue_url(given, broker) == found


@pytest.mark.parametrize(
    ("name", "queue", "is_postgres", "reason"),
    [
        ("lists", "redis://queue", True, "MUSTER_CARRIER is “lists”: use one of list, postgres"),
        ("", "redis://queue", True, "MUSTER_CARRIER is “”"),
        ("postgres", "redis://queue", False, "needs PostgreSQL"),
        ("list", "", True, "set QUEUE_URL"),
        ("list", "amqp://rabbit", True, "set QUEUE_URL"),
    ],
)
def test_a_carrier_that_cannot_work_is_refused(name, queue, is_postgres, reason):
    with pytest.raises(ImproperlyConfigured, match=reason):
        brokers.check_carrier_setting(name, queue=queue, is_postgres=is_postgres)


def test_the_program_says_it_in_one_line():
    wrong = {**os.environ, "MUSTER_CARRIER": "pigeon"}
    done = subprocess.run([sys.executable, "manage.py", "check"], env=wrong, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "muster: MUSTER_CARRIER is “pigeon”: use one of list, postgres, celery, temporal.\n"
