"""The guard of tests/transactions.py sees what it must see."""

import socket

import pytest
from django.contrib.auth.hashers import make_password
from django.db import transaction

from plumbing.http import addresses
from tests.transactions import slow_work


def connect():
    with socket.create_server(("127.0.0.1", 0)) as line, socket.create_connection(line.getsockname()):
        pass


WORK = {
    "resolving": lambda: addresses.resolve("127.0.0.1"),
    "hashing": lambda: make_password("x"),
    "a connection": connect,
}


@pytest.mark.django_db
@pytest.mark.parametrize("what", WORK)
def test_slow_work_is_noticed_inside_a_transaction_alone(what):
    WORK[what]()
    assert slow_work == []
    with transaction.atomic():
        WORK[what]()
    assert [one.partition(" in a transaction")[0] for one in slow_work] == [what]
