"""ctx.http on the host's side, against a real server on loopback that stands for the internet."""

from __future__ import annotations

import json
import socket
import textwrap
import threading
from http.server import BaseHTTPRequestHandler
from time import monotonic, sleep

import pytest

from functions import sandbox
from functions.http import Auth, HttpRefused, Rules, fetch_for_function
from plumbing.http import addresses, outbound
from plumbing.http.addresses import is_allowed, matches
from tests.fakes import LoopbackServer


class Answers(BaseHTTPRequestHandler):
    seen: list[dict] = []

    def do_GET(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append({"path": self.path, "method": self.command, "headers": headers, "body": body})
        status, headers, text = 200, {}, json.dumps(self.seen[-1])
        if self.path.startswith("/redirect?"):
            status, headers = 302, {"location": self.path.partition("?")[2]}
        if self.path == "/large":
            text = "x" * 5000
        if self.path.startswith("/cookie"):
            target = self.path.partition("?")[2]
            status, headers = (302 if target else 200), {"set-cookie": "session=1", "location": target or "/"}
        if self.path.startswith("/charset?"):
            headers, text = {"content-type": f"text/plain; charset={self.path.partition('?')[2]}"}, "a-" * 200_000
        if self.path == "/drip":
            self.drip()
            return
        if self.path == "/loop":
            status, headers = 302, {"location": "/loop"}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def drip(self):
        """Headers without end, each well within the time of one read."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(2400):
                self.wfile.write(b"x-%d: 1\r\n" % number)
                sleep(0.05)  # the slowness is what is tested
        except OSError:
            pass

    do_POST = do_PUT = do_GET

    def log_message(self, *arguments):
        return


@pytest.fixture
def internet():
    Answers.seen = []
    server = LoopbackServer(Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def rules(**changes):
    hosts = ("api.test", "*.example.test")
    open_door = {"hosts": hosts, "plain_http_hosts": hosts, "private_hosts": hosts}
    return Rules(**(open_door | {"resolver": lambda host, within: ["127.0.0.1"]} | changes))


def test_it_fetches_a_listed_host_under_its_own_name(internet):
    records = []
    answer = fetch_for_function({"url": f"http://api.test:{internet}/a?b=1"}, rules(record=records.append))
    assert answer["status"] == 200
    assert json.loads(answer["text"])["headers"]["host"] == f"api.test:{internet}"
    assert (records[0].url, records[0].address) == (f"http://api.test:{internet}/a", "127.0.0.1")


def test_json_params_and_headers_are_sent(internet):
    request = {"url": f"http://api.test:{internet}/", "method": "post", "json": {"a": 1}, "params": {"q": "x y"},
               "headers": {"X-One": "1"}}  # fmt: skip
    seen = json.loads(fetch_for_function(request, rules())["text"])
    assert (seen["method"], seen["body"], seen["headers"]["x-one"]) == ("POST", '{"a": 1}', "1")
    assert seen["path"] in ("/?q=x+y", "/?q=x%20y")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"url": "https://other.test/"}, "not on this function's list"),
        ({"url": "https://example.test.evil.test/"}, "not on this function's list"),
        ({"url": "https://example.test/"}, "not on this function's list"),  # the star stands for a label
        ({"url": "https://user:pass@api.test/"}, "user name"),
        ({"url": "https://api.test@evil.test/"}, "user name"),
        ({"url": "ftp://api.test/"}, "https"),
        ({"url": "file:///etc/passwd"}, "host name"),
        ({"url": "https://api.test\\@evil.test/"}, "host"),
        ({"url": "https://api.test:99999/"}, "the url is not valid"),
        ({"url": 5}, "string"),
        ({"url": "https://api.test/", "method": "CONNECT"}, "method"),
        ({"url": "https://api.test/", "headers": {"Host": "evil.test"}}, "cannot be set"),
        ({"url": "https://api.test/", "headers": {"X": "a\r\nY: b"}}, "line break"),
        ({"url": "https://api.test/", "headers": {"X\n": "a"}}, "not a valid"),
        ({"url": "https://api.test/", "body": "x" * 2_000_000}, "the maximum is"),
        ({"url": "https://api.test/", "auth": "token"}, "no secrets"),
    ],
)
def test_what_may_not_be_asked_is_refused_in_words(request_, words):
    with pytest.raises(HttpRefused, match=words):
        fetch_for_function(request_, rules())


def test_plain_http_needs_an_exception():
    with pytest.raises(HttpRefused, match="only https"):
        fetch_for_function({"url": "http://api.test/"}, rules(plain_http_hosts=()))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
     "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001::1", "::127.0.0.1", "fec0::1",
     "192.0.2.1", "198.18.0.1", "240.0.0.1"],
)  # fmt: skip
def test_private_addresses_are_refused_after_resolution(address):
    assert not is_allowed(address, [])
    with pytest.raises(HttpRefused, match="is not a public internet address"):
        fetch_for_function(
            {"url": "https://api.test/"}, rules(private_hosts=(), resolver=lambda host, within: ["1.1.1.1", address])
        )


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_known(address):
    assert is_allowed(address, [])


def test_the_name_is_resolved_once_so_a_second_answer_gains_nothing(internet):
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    fetch_for_function({"url": f"http://api.test:{internet}/"}, rules(resolver=lambda host, within: answers.pop(0)))
    assert answers == [["10.0.0.1"]]


@pytest.mark.parametrize(
    "target", ["https://evil.test/", "http://169.254.169.254/", "file:///etc/passwd", "//evil.test/"]
)
def test_redirects_are_checked_like_the_first_address(internet, target):
    with pytest.raises(HttpRefused):
        fetch_for_function({"url": f"http://api.test:{internet}/redirect?{target}"}, rules())


def test_redirects_within_the_list_are_followed_to_an_end(internet):
    answer = fetch_for_function({"url": f"http://api.test:{internet}/redirect?/end"}, rules())
    assert answer["url"].endswith("/end")
    with pytest.raises(HttpRefused, match="redirects"):
        fetch_for_function({"url": f"http://api.test:{internet}/loop"}, rules())


def test_a_secret_goes_to_the_hosts_it_is_bound_to_and_no_other(internet):
    token = Auth("Authorization", "Bearer s3cret", ("api.test",))
    given = rules(secret=lambda name: token)
    seen = json.loads(fetch_for_function({"url": f"http://api.test:{internet}/", "auth": "t"}, given)["text"])
    assert seen["headers"]["authorization"] == "Bearer s3cret"
    with pytest.raises(HttpRefused, match="may not be sent"):
        fetch_for_function({"url": f"http://a.example.test:{internet}/", "auth": "t"}, given)


def test_a_redirect_to_another_host_drops_every_header_that_may_be_a_credential(internet):
    token = Auth("Authorization", "Bearer s3cret", ("api.test", "a.example.test"))
    given = rules(secret=lambda name: token)
    headers = {"X-Api-Key": "k3y", "X-Session": "s3ss", "Accept": "text/html"}
    url = f"http://api.test:{internet}/redirect?http://a.example.test:{internet}/"
    seen = json.loads(fetch_for_function({"url": url, "auth": "t", "headers": headers}, given)["text"])["headers"]
    assert seen["accept"] == "text/html"
    assert not {"authorization", "x-api-key", "x-session"} & set(seen)
    stays = fetch_for_function(
        {"url": f"http://api.test:{internet}/redirect?/end", "auth": "t", "headers": headers}, given
    )
    assert json.loads(stays["text"])["headers"]["x-api-key"] == "k3y"


def test_headers_beyond_ascii_are_refused_in_words(internet):
    with pytest.raises(HttpRefused, match="contains non-ASCII"):
        fetch_for_function({"url": f"http://api.test:{internet}/", "headers": {"x-name": "Zoë"}}, rules())
    token = Auth("Authorization", "Bearer gräßlich", ("api.test",))
    with pytest.raises(HttpRefused, match="contains non-ASCII"):
        fetch_for_function({"url": f"http://api.test:{internet}/", "auth": "t"}, rules(secret=lambda name: token))


def test_a_request_ends_when_another_thread_closes_its_sockets(internet):
    sockets = outbound.Sockets()
    timer = threading.Timer(0.3, sockets.close)
    timer.start()
    began = monotonic()
    with pytest.raises(HttpRefused):
        fetch_for_function({"url": f"http://api.test:{internet}/drip"}, rules(sockets=sockets))
    assert monotonic() - began < 60  # its headers would have come for two minutes
    with pytest.raises(HttpRefused):
        fetch_for_function({"url": f"http://api.test:{internet}/"}, rules(sockets=sockets))


def test_headers_that_drip_without_end_are_waited_for_no_longer_than_was_said(internet):
    began = monotonic()
    with pytest.raises(HttpRefused, match="did not answer in time"):
        fetch_for_function({"url": f"http://api.test:{internet}/drip", "timeout": 0.3}, rules())
    assert monotonic() - began < 60  # they would have come for two minutes


def test_size_and_cookies_stay_within_bounds(internet):
    with pytest.raises(HttpRefused, match="larger than"):
        fetch_for_function({"url": f"http://api.test:{internet}/large"}, rules(max_response=1000))
    assert "set-cookie" not in fetch_for_function({"url": f"http://api.test:{internet}/cookie"}, rules())["headers"]


@pytest.mark.parametrize("charset", ["punycode", "idna", "zlib", "unicode_escape", "undefined", "none-such"])
def test_a_charset_that_is_none_costs_nothing(internet, charset):
    """Half a megabyte of punycode took minutes, in which no other thread of the server ran."""
    answer = fetch_for_function({"url": f"http://api.test:{internet}/charset?{charset}"}, rules())
    assert answer["text"] == "a-" * 200_000


def test_a_cookie_of_one_host_is_not_told_to_the_next(internet):
    url = f"http://api.test:{internet}/cookie?http://a.example.test:{internet}/"
    fetch_for_function({"url": url}, rules())
    assert [seen["headers"].get("cookie") for seen in Answers.seen] == [None, None]


def test_proxies_of_the_environment_are_ignored(internet, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert fetch_for_function({"url": f"http://api.test:{internet}/"}, rules())["status"] == 200


def test_a_server_that_is_not_there_is_told_in_words():
    with pytest.raises(HttpRefused, match="could not be fetched"):
        fetch_for_function({"url": "http://api.test:1/"}, rules())


def test_a_function_reaches_it_through_ctx_http(internet):
    class Host:
        def http(self, request):
            return fetch_for_function(request, rules())

    source = textwrap.dedent("""
        def main(ctx, url):
            r = ctx.http(url, method="POST", json={"a": 1})
            return [r.ok, r.json()["body"]]
    """)
    outcome = sandbox.execute(source, {"url": f"http://api.test:{internet}/"}, host=Host())
    assert outcome.result == [True, '{"a": 1}']
    refused = sandbox.execute(source, {"url": "https://evil.test/"}, host=Host())
    assert "not on this function's list" in refused.error.message


def test_patterns_match_whole_labels():
    assert matches("a.example.test", ("*.example.test",))
    assert not matches("xexample.test", ("*.example.test",))
    assert matches("API.test.", ("api.test",))


def test_a_resolver_that_does_not_answer_holds_a_request_no_longer_than_its_time(monkeypatch):
    done = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(60))
    try:
        with pytest.raises(HttpRefused, match="api.test did not answer in time"):
            fetch_for_function({"url": "https://api.test/", "timeout": 0.05}, rules(resolver=None))
    finally:
        done.set()


def test_lookups_that_hang_do_not_become_ever_more(monkeypatch):
    done = threading.Event()
    monkeypatch.setattr(addresses, "LOOKUPS", threading.BoundedSemaphore(1))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(60))
    try:
        for said in ("the resolver took too long", "too many names are being looked up"):
            with pytest.raises(TimeoutError, match=said):
                addresses.resolve("api.test", within=0.05)
    finally:
        done.set()
