"""A whole Muster below a path of somebody else's host: a proxy passes /muster/ on, and leaves or removes the prefix.

The files of nginx and Caddy are the shipped ones with the lines changed that docs/howto/production.md names.
"""

import json
import re
from urllib.parse import urljoin, urlsplit
from uuid import uuid4

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from devices.client import pairing
from devices.client.home import Home
from devices.protocol import PATH as DEVICE_PATH
from tests.live import Live, data_directory
from tests.servers import free_port
from tests.supervisor.proxies import PROXIES, proxied

pytestmark = pytest.mark.live
PREFIX = "/muster"
LINK = re.compile(r"""(?:href|src|action|formaction|data-[a-z-]+)=["'](/[^"']*)["']""")
SHOWN = ("", "agents/", "runs/", "playground/", "approvals/", "sessions/", "devices/", "connections/", "collections/",
         "chains/", "functions/", "skills/", "schedules/", "account/", "help/", "clients/", "admin/")  # fmt: skip
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ANSWERS = {"Accept": "application/json, text/event-stream"}  # as MCP asks for


def serve_below_path(shipped):
    """What the guide says: two lines of nginx's file, three of Caddy's."""
    shipped = shipped.replace("location / {", r"location ~ ^/(\.well-known/[a-z-]+/)?muster(/|$) {")
    shipped = shipped.replace("location = /metrics {", "location = /muster/metrics {")
    elsewhere = r"@elsewhere not path_regexp ^/(\.well-known/[a-z-]+/)?muster(/|$)"
    shipped = shipped.replace("error /metrics 404", f"error /muster/metrics 404\n\t{elsewhere}\n\terror @elsewhere 404")
    return keep_port(shipped)


def remove_prefix(shipped):
    shipped = shipped.replace("location / {", "location /muster/ {")
    shipped = shipped.replace("proxy_pass http://muster;", "proxy_pass http://muster/;")
    return keep_port(shipped.replace("error /metrics 404", "uri strip_prefix /muster\n\terror /metrics 404"))


def keep_port(shipped):
    """The site of a test is not at port 443. Caddy keeps the host, and tests.supervisor.proxies must not change it."""
    shipped = shipped.replace("header_up X-Forwarded-For", "header_up x-forwarded-for")
    return shipped.replace("Host $host;", "Host $http_host;")


@pytest.fixture(scope="module")
def port():
    return free_port()


@pytest.fixture(scope="module")
def below(port):
    with data_directory() as folder:
        muster = Live(folder, MUSTER_PUBLIC_URL=f"http://127.0.0.1:{port}{PREFIX}")
        yield muster
        muster.stop()


@pytest.fixture(scope="module", params=PROXIES)
def site(request, below, port, tmp_path_factory):
    """The address of the site: http://127.0.0.1:…/muster."""
    folder = tmp_path_factory.mktemp(request.param)
    with proxied(request.param, below.port, folder, port=port, change=serve_below_path) as url:
        yield url + PREFIX


@pytest.fixture
def client(below, site):
    headers = {"Authorization": f"Bearer {below.key}"}
    with httpx2.Client(base_url=site, headers=headers, timeout=120) as made:
        yield made


@pytest.fixture(scope="module")
def signed_in(below, site):
    with httpx2.Client(base_url=site, timeout=120) as browser:
        yield sign_in(browser, below)


def sign_in(browser, below):
    name, password = re.search(r"login\s+(\S+) / (\S+) ", below.said).groups()
    form = browser.get("/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text).group(1)
    fields = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    origin = f"{form.url.scheme}://{form.url.netloc.decode()}"
    answer = browser.post("/login/", data=fields, headers={"Referer": str(form.url), "Origin": origin})
    assert answer.status_code == 302 and answer.headers["Location"].startswith(f"{PREFIX}/")
    return browser


def make_name(word):
    """A name of its own: the tests run once for each proxy, with one Muster."""
    return f"{word}-{uuid4().hex[:8]}"


def test_every_link_of_every_page_stays_below_the_path(signed_in):
    found = {}
    for path in SHOWN:
        page = signed_in.get(f"/{path}", follow_redirects=True)
        assert page.status_code == 200, path
        assert page.url.path.startswith(f"{PREFIX}/"), path
        found |= dict.fromkeys(LINK.findall(page.text), path)

    assert {link: path for link, path in found.items() if not link.startswith(f"{PREFIX}/")} == {}
    files = [link for link in found if link.startswith(f"{PREFIX}/static/")]
    assert files and all(signed_in.get(urljoin(str(signed_in.base_url), link)).status_code == 200 for link in files)


def test_who_is_not_signed_in_is_sent_to_the_form_and_cookies_stay_below_the_path(site):
    answer = httpx2.get(f"{site}/runs/", timeout=60)
    assert answer.headers["Location"] == f"{PREFIX}/login/?next={PREFIX}/runs/"
    form = httpx2.get(urljoin(site, answer.headers["Location"]), timeout=60)
    assert [part.strip() for part in form.headers["Set-Cookie"].split(";") if "Path" in part] == [f"Path={PREFIX}"]


def test_a_run_names_addresses_that_lead_to_it(client, site, signed_in):
    answer = client.post("/api/v1/agents/assistant/messages", json={"message": "hello", "wait": 60})
    assert answer.status_code == 200, answer.text
    urls = answer.json()["run"]["urls"]

    assert all(url.startswith(f"{PREFIX}/") for url in urls.values())
    assert client.get(urljoin(site, urls["self"])).json()["status"] == "succeeded"
    assert "event: run.finished" in client.get(urljoin(site, urls["stream"])).text
    assert signed_in.get(urljoin(site, urls["page"])).status_code == 200


def test_new_rows_and_pages_of_lists_have_addresses_below_the_path(client, site):
    for name in (make_name("one"), make_name("two")):
        made = client.post("/api/v1/agents/", json={"name": name, "provider": "offline", "system_prompt": "x"})
        assert client.get(urljoin(site, made.headers["Location"])).json()["name"] == name
    following = client.get("/api/v1/agents/?limit=1").json()["next"]
    assert following.startswith(f"{site}/api/v1/agents/") and client.get(following).status_code == 200


def test_the_openapi_document_names_the_path_as_its_server(client):
    schema = client.get("/api/schema/", headers={"Accept": "application/json"}).json()
    assert schema["servers"] == [{"url": PREFIX}]
    assert "/api/v1/agents/" in schema["paths"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "assistant", "messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/responses", {"model": "assistant", "input": "hello"}),
        ("/mcp", INITIALIZE),
        ("/langgraph/threads", {}),
    ],
)
def test_other_protocols_answer(client, path, body):
    answer = client.post(path, json=body, headers=ANSWERS)
    assert answer.status_code == 200, answer.text


def test_an_agent_card_names_an_address_that_answers(client):
    card = client.get("/.well-known/agent-card.json").json()
    url = card["supportedInterfaces"][0]["url"]
    assert url.startswith(str(client.base_url))
    assert client.get(f"{url}/.well-known/agent-card.json").status_code == 200


def test_a_client_of_mcp_finds_where_it_signs_in(site):
    """As the MCP clients ask: the header, the document of the resource, then RFC 8414's address at the root."""
    refused = httpx2.post(f"{site}/mcp", json=INITIALIZE, headers=ANSWERS, timeout=60)
    where = re.search(r'resource_metadata="([^"]+)"', refused.headers["WWW-Authenticate"]).group(1)
    resource = httpx2.get(where, timeout=60).json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{site}/mcp", [site])

    root = site.removesuffix(PREFIX)
    assert httpx2.get(f"{root}/.well-known/oauth-protected-resource{PREFIX}/mcp", timeout=60).json() == resource
    server = httpx2.get(f"{root}/.well-known/oauth-authorization-server{PREFIX}", timeout=60).json()
    assert server["issuer"] == site
    assert server["token_endpoint"].startswith(f"{site}/oauth/")


def test_sockets_open_below_the_path(below, site, client):
    session = client.post("/api/v1/agents/assistant/messages", json={"message": "hello", "wait": 60}).json()["session"]
    address = f"{site.replace('http', 'ws', 1)}/ws/sessions/{session}/"
    with connect(address, additional_headers={"Authorization": f"Bearer {below.key}"}, open_timeout=60) as line:
        line.send(json.dumps({"type": "message", "text": "hello again"}))
        events = [json.loads(line.recv(timeout=60))["type"]]
        while events[-1] != "run.finished":
            events.append(json.loads(line.recv(timeout=60))["type"])
    assert "run.queued" in events


def test_the_program_of_a_device_pairs_and_connects_below_the_path(below, site, client, tmp_path):
    made = client.post("/api/v1/devices/pairings", json={})
    assert made.status_code == 201, made.text
    identity = pairing.pair_device(Home(tmp_path / "home"), f"{site}/devices/", made.json()["code"], "laptop")
    assert identity.server == site

    opened = refuse_credential(identity.server), refuse_credential(below.url)
    assert opened[0] == opened[1]


def refuse_credential(server):
    """How the socket of devices refuses one that is not paired."""
    headers = {"Authorization": "Bearer wrong"}
    try:
        with connect(
            server.replace("http", "ws", 1) + DEVICE_PATH, additional_headers=headers, open_timeout=60
        ) as line:
            line.recv(timeout=60)
    except InvalidStatus as refusal:
        return refusal.response.status_code, refusal.response.body
    except ConnectionClosed as refusal:
        return refusal.rcvd.code, refusal.rcvd.reason


def test_the_script_of_an_embed_and_a_hook_have_public_addresses(client, site):
    script = client.get("/embed.js")
    assert script.status_code == 200 and '"./static/muster/embed/widget.js"' in script.text
    trigger = {"name": make_name("hook"), "kind": "webhook", "agent": "assistant", "text": "hello"}
    made = client.post("/api/v1/triggers/", json=trigger)
    assert made.status_code == 201, made.text
    assert made.json()["url"].startswith(f"{site}/api/v1/hooks/")


def test_figures_are_not_shown_to_the_outside_and_probes_need_no_prefix(below, site):
    assert httpx2.get(f"{site}/metrics", timeout=60).status_code == 404
    assert httpx2.get(f"{below.url}/readyz", timeout=60).status_code == 200
    root = site.removesuffix(PREFIX)
    for path in ("/api/v1/agents/", "/musterix/", "/.well-known/agent-card.json"):
        assert httpx2.get(f"{root}{path}", timeout=60).status_code == 404


def test_the_path_may_be_written_without_its_last_slash(site):
    assert httpx2.get(site, timeout=60).headers["Location"] == f"{PREFIX}/login/?next={PREFIX}/"


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_may_remove_the_prefix(below, tmp_path, proxy):
    with proxied(proxy, below.port, tmp_path, change=remove_prefix) as url:
        headers = {"Authorization": f"Bearer {below.key}"}
        answer = httpx2.get(f"{url}{PREFIX}/api/v1/agents/assistant", headers=headers, timeout=60)
        assert answer.json()["name"] == "assistant"
        assert httpx2.get(f"{url}{PREFIX}/runs/", timeout=60).headers["Location"].startswith(f"{PREFIX}/login/")


@pytest.mark.browser
def test_somebody_chats_below_the_path(below, site, signed_in, browser):
    lost, complaints = [], []
    cookies = [{"name": one.name, "value": one.value, "url": f"{site}/"} for one in signed_in.cookies.jar]
    root = site.removesuffix(PREFIX)  # where another program of this host has cookies
    cookies += [{"name": name, "value": "another's", "url": root} for name in ("sessionid", "csrftoken")]
    context = browser.new_context()
    context.add_cookies(cookies)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.on("response", lambda one: lost.append(f"{one.status} {one.url}") if one.status >= 400 else None)
    page.on("request", lambda one: None if urlsplit(one.url).path.startswith(f"{PREFIX}/") else lost.append(one.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    page.goto(f"{site}/playground/?agent=assistant")
    page.fill("#text", "What is 17 * 23?")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Run page").click()
    page.get_by_role("heading").first.wait_for()

    assert urlsplit(page.url).path.startswith(f"{PREFIX}/runs/")
    assert (lost, complaints) == ([], [])
    context.close()
