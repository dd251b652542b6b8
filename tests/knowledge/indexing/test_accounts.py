"""Messages of accounts as documents: read once, read again when changed, and erased with the account."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents import membership
from agents.models import Membership, StoredFile
from connectors.models import Connection
from knowledge.collections.search import search_collection
from knowledge.indexing import accounts, work
from knowledge.models import AccountItem, Chunk, Collection, CollectionAccount, Document
from tests.connectors.fake_gmail import coded
from tests.connectors.loopback import Fault

pytestmark = pytest.mark.django_db
URL = "/api/v1/collections/papers/accounts/"


@pytest.fixture
def papers(alice, team):
    return Collection.objects.create(owner=alice, team=team, name="papers")


@pytest.fixture
def mails(alice, papers, gmail, connect):
    connect(alice, "gmail")
    return accounts.add_collection_account(papers, alice, "gmail", "label:contracts")[0]


def read(account):
    """As the worker does, when it is due."""
    CollectionAccount.objects.update(read_after=timezone.now() - timedelta(seconds=1))
    done = accounts.read_next_account()
    work.index_waiting_documents()
    account.refresh_from_db()
    return done


def found(papers, question):
    papers.refresh_from_db()
    return [(one.chunk.document, one.chunk.text) for one in search_collection(papers, question, limit=5)]


def test_messages_become_documents_once_and_later_ones_follow(papers, mails, gmail):
    gmail.deliver("Rent of the shop", "The rent is due on Mondays.")
    gmail.deliver("Rent of the shop", "The rent of the cellar is due on Fridays.")
    assert read(mails) == 2
    [(document, text), _] = found(papers, "rent due mondays")
    assert "Subject: Rent of the shop" in text and "From: Dora" in text and "Mondays" in text
    assert (document.source, document.untrusted) == ("connector", True)
    read_before = gmail.count("/messages/")
    assert read(mails) == 0 and papers.documents.count() == 2, "what is known is not read again"
    assert gmail.count("/messages/") - read_before == 2, "only its headline"
    gmail.deliver("Insurance", "The insurance ends in June.")
    assert read(mails) == 1 and len(found(papers, "insurance june")) == 1
    assert mails.read_after > timezone.now() + timedelta(seconds=60) and mails.error == ""


def test_a_message_that_changed_replaces_its_document(papers, mails, gmail):
    id = gmail.deliver("Plan", "Open on Mondays.")
    read(mails)
    gmail.messages[id]["labelIds"].append("STARRED")
    assert read(mails) == 0, "labels are not text"
    gmail.messages[id] |= {"snippet": "Open on Sundays."}
    gmail.messages[id]["payload"]["body"] = {"data": "T3BlbiBvbiBTdW5kYXlzLg==", "size": 16}
    assert read(mails) == 1
    assert "Sundays" in found(papers, "open")[0][1] and len(found(papers, "open")) == 1


def test_a_message_that_cannot_be_read_has_an_error_and_is_tried_again(papers, mails, gmail, monkeypatch, alice_api):
    gmail.deliver("Good", "Good words.")
    bad = gmail.deliver("Bad", "Bad words.")
    message = accounts.CONNECTORS["gmail"].message

    def broken(self, id, max_chars):
        if id == bad:
            raise accounts.ToolError("This message is broken.", code="broken")
        return message(self, id, max_chars)

    with monkeypatch.context() as fault:
        fault.setattr(accounts.CONNECTORS["gmail"], "message", broken)
        assert read(mails) == 1 and mails.error == ""
    [shown] = alice_api.get(URL).json()["results"]
    assert (shown["messages"], shown["failed"][0]["error"]) == (1, "This message is broken.")
    assert read(mails) == 1 and alice_api.get(URL).json()["results"][0]["failed"] == []


def test_an_account_that_is_away_is_an_error_and_its_documents_stay(papers, mails, gmail, alice):
    gmail.deliver("Rent", "The rent is due.")
    read(mails)
    accounts.Connection.objects.update(access_token="", refresh_token="")
    assert read(mails) == 0 and "not connected" in mails.error and len(found(papers, "rent")) == 1


def test_an_account_is_read_only_while_its_owner_owns_it_and_may_change_the_collection(
    papers, mails, gmail, bob, alice, connect, team
):
    gmail.deliver("Rent", "The rent is due.")
    accounts.Connection.objects.update(owner=bob)
    assert read(mails) == 0 and "not connected" in mails.error
    accounts.Connection.objects.update(owner=alice)
    Membership.objects.filter(user=alice).delete()
    Collection.objects.update(owner=bob)
    assert read(mails) == 0 and "may not change" in mails.error and not papers.documents.exists()


@pytest.mark.parametrize("gone", ["deactivated", "handed over", "disconnected"])
def test_a_turn_ends_with_the_right_to_it(papers, mails, gmail, alice, bob, monkeypatch, gone):
    """One turn reads for minutes."""
    gmail.deliver("One", "First words.")
    gmail.deliver("Two", "Second words.")
    message = accounts.CONNECTORS["gmail"].message

    def meanwhile(self, id, max_chars):
        found = message(self, id, max_chars)
        if gone == "deactivated":
            type(alice).objects.filter(pk=alice.pk).update(is_active=False)
        elif gone == "handed over":
            Collection.objects.update(owner=bob)
        else:
            Connection.objects.update(enabled=False)
        return found

    monkeypatch.setattr(accounts.CONNECTORS["gmail"], "message", meanwhile)
    read(mails)
    assert papers.documents.count() == 1 and mails.error


def test_the_documents_go_with_the_collection_of_who_leaves_the_team(papers, mails, gmail, alice, bob_api):
    gmail.deliver("Rent", "The rent is due on Mondays.")
    read(mails)
    search_it = ("/api/v1/collections/papers/search", {"query": "rent"})
    assert len(bob_api.post(*search_it).json()["results"]) == 1
    membership.end_membership(Membership.objects.get(user=alice))
    gmail.deliver("Rent again", "The rent is due on Fridays.")
    assert bob_api.post(*search_it).status_code == 404
    assert read(mails) == 1 and mails.error == "", "it is hers, and nobody else reads it"


def test_a_collection_of_the_site_keeps_the_documents_and_reads_no_more(papers, mails, gmail, alice):
    """Of a superuser who added an account, and is none any more."""
    Collection.objects.update(owner=None, team=None)
    type(alice).objects.filter(pk=alice.pk).update(is_superuser=True)
    gmail.deliver("Rent", "The rent is due on Mondays.")
    assert read(mails) == 1
    type(alice).objects.filter(pk=alice.pk).update(is_superuser=False)
    gmail.deliver("Rent again", "The rent is due on Fridays.")
    assert read(mails) == 0 and "may not change" in mails.error and papers.documents.count() == 1


def test_removing_the_account_erases_what_was_made_of_it_and_nothing_else(alice_api, papers, mails, gmail, alice):
    gmail.deliver("Rent", "The rent is due.")
    read(mails)
    again, _ = accounts.add_collection_account(papers, alice, "gmail", "other")
    gmail.deliver("Rent", "Only of the second.")
    read(again)
    first = AccountItem.objects.filter(account=mails).count()
    assert alice_api.delete(f"{URL}{again.pk}").status_code == 204
    assert papers.documents.count() == first
    assert alice_api.delete(f"{URL}{mails.pk}").status_code == 204
    assert not Document.objects.exists() and not Chunk.objects.exists() and not StoredFile.objects.exists()


def test_only_the_owner_of_an_account_adds_it_and_others_see_only_the_documents(
    alice_api, bob_api, charlie_api, papers, gmail, connect, alice, monkeypatch
):
    connect(alice, "gmail")
    body = {"account": "gmail", "query": "label:contracts"}
    assert bob_api.post(URL, body).status_code in (403, 422) and charlie_api.post(URL, body).status_code == 404
    made = alice_api.post(URL, body)
    assert made.status_code == 201, made.json()
    assert (made.json()["account"], made.json()["query"]) == ("gmail", "label:contracts")
    assert alice_api.post(URL, body).status_code == 200
    assert alice_api.post(URL, {**body, "account": "mine"}).json()["error"]["code"] == "unknown_account"
    assert bob_api.get(URL).json()["results"] == [] and charlie_api.get(URL).status_code == 404
    for stranger in (bob_api, charlie_api):
        assert stranger.delete(f"{URL}{made.json()['id']}").status_code == 404
    monkeypatch.setattr(accounts, "MAX_ACCOUNTS", 1)
    assert alice_api.post(URL, {**body, "query": "b"}).json()["error"]["code"] == "too_many_accounts"


@pytest.mark.parametrize("provider", ["outlook", "teams"])
def test_outlook_and_teams_are_read_with_their_own_search(provider, papers, graph, connect, alice):
    connect(alice, provider)
    account, _ = accounts.add_collection_account(papers, alice, provider, "rent")
    if provider == "outlook":
        graph.deliver("Rent", "The rent is due on Mondays.")
    else:
        graph.post("The rent is due on Mondays.", place="19:chat@unq.gbl.spaces", id="1")
    assert read(account) >= 1, account.error
    assert "Mondays" in found(papers, "rent mondays")[0][1]


def test_the_page_says_who_can_read_the_messages(alice, signed_in, papers, gmail, connect):
    connect(alice, "gmail")
    browser = signed_in(alice)
    assert "Everyone who may use this collection can read them" in browser.get("/collections/papers/").content.decode()
    browser.post("/collections/papers/accounts", {"account": "gmail", "query": "label:contracts"})
    [account] = CollectionAccount.objects.all()
    assert "label:contracts" in browser.get("/collections/papers/").content.decode()
    browser.post(f"/collections/papers/accounts/{account.pk}/remove")
    assert not CollectionAccount.objects.exists()


def test_a_message_with_half_a_character_or_nul_does_not_stop_the_account(papers, mails, gmail, monkeypatch):
    """Some programs cut a text in the middle of an emoji; everybody can send such a message."""
    gmail.deliver("Good", "Good words of the harbour.")
    bad = gmail.deliver("Bad", "Bad words of the lighthouse.")
    message = accounts.CONNECTORS["gmail"].message

    def hostile(self, id, max_chars):
        found = message(self, id, max_chars)
        if id == bad:
            return found | {"subject": "Bad \ud83d\0", "from": "Dora\0", "text": f"{found['text']} \ud83d\0"}
        return found

    monkeypatch.setattr(accounts.CONNECTORS["gmail"], "message", hostile)
    assert read(mails) == 2 and mails.error == ""
    assert found(papers, "lighthouse") and found(papers, "harbour")


def test_messages_that_the_service_never_gives_stop_no_other(alice, papers, graph, connect):
    connect(alice, "outlook")
    account = accounts.add_collection_account(papers, alice, "outlook", "rent")[0]
    for number in range(4):
        bad = graph.deliver(f"bad {number}", "rent")
        graph.faults += [Fault(f"/messages/{bad}", status=500, times=9999)]
    graph.deliver("good", "rent")
    assert read(account) == 1
    assert account.items.exclude(error="").count() == 4 and account.error == ""


def test_a_document_says_what_its_message_lost(papers, mails, gmail):
    page = "<p>Rent is due</p><img src=a width=600 height=400><p hidden>obeythis</p>"
    gmail.deliver("Rent", payload={"mimeType": "text/html", "body": {"data": coded(page.encode()), "size": len(page)}})
    assert read(mails) == 1
    [(_, text)] = found(papers, "rent due")
    assert "[left out: pictures" in text and "[left out: hidden text" in text and "obeythis" not in text
