"""Reading a list by `next` returns each row once."""

from base64 import urlsafe_b64encode

from agents.models import ApiKey

V1 = "/api/v1"


def read_all(api, address):
    """The ids of all pages; stops after more pages than there can be."""
    ids = []
    for _ in range(20):
        page = api.get(address).json()
        ids += [row["id"] for row in page["results"]]
        if page["next"] is None:
            break
        address = page["next"]
    return ids


def test_a_list_is_read_to_its_end_when_many_rows_are_equal_in_the_column_that_orders_them(alice, alice_api):
    keys = [ApiKey(user=alice, name="same", prefix=f"mk_{n}", digest="-", scopes=[]) for n in range(1700)]
    ApiKey.objects.bulk_create(keys)
    for ordering in ("name", "-name"):
        ids = read_all(alice_api, f"{V1}/keys/?limit=300&ordering={ordering}")
        assert len(ids) == len(set(ids)) == ApiKey.objects.filter(user=alice).count()


def test_a_cursor_that_was_changed_is_refused(alice_api):
    for cursor in ("x", "W10=", "WzFd", "WyJhIl0=", "WyJhIiwgImIiXQ==", "W" * 6000):
        answer = alice_api.get(f"{V1}/keys/?ordering=name&cursor={cursor}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_cursor")
    deep = urlsafe_b64encode(b"[" * 4000).decode()
    assert alice_api.get(f"{V1}/keys/?cursor={deep}").status_code == 422


def test_rows_that_come_and_go_between_two_pages_shift_nothing(alice, alice_api):
    keys = [ApiKey(user=alice, name="same", prefix=f"mk_{n}", digest="-", scopes=[]) for n in range(6)]
    ApiKey.objects.bulk_create(keys)
    first = alice_api.get(f"{V1}/keys/?limit=3&ordering=-name").json()
    before = [row["id"] for row in first["results"]]
    ApiKey.objects.create(user=alice, name="same", prefix="mk_new", digest="-", scopes=[])
    ApiKey.objects.filter(pk=before[1]).delete()
    rest = read_all(alice_api, first["next"])
    assert not set(rest) & set(before) and len(rest) == ApiKey.objects.filter(user=alice).count() - 3
