"""The approval card in a host: a real browser shows it in a sandboxed frame, and a running Muster answers."""

import json

import pytest

from connectors.mcp.messages import LEGACY
from gateway.mcp import cards
from gateway.mcp.protocol import APPS, MIME
from tests.fakes import calls, says
from tests.gateway.live_agents import new_key
from tests.gateway.mcp.site import messages, result
from tests.journeys.browser import AXE, DESKTOP, PHONE, picture, serious

pytestmark = [pytest.mark.live]
ABLE = {"extensions": {APPS: {"mimeTypes": [MIME]}}}
CALL = {"name": "careful", "arguments": {"task": "Add"}}
HOST = """
<!doctype html><html lang="en"><title>Host</title><main><h1>Host</h1>
<iframe title="Card" sandbox="allow-scripts" style="width:100%;height:40px;border:0"></iframe></main>
<script>
  const frame = document.querySelector("iframe"), heard = [];
  const post = (message) => frame.contentWindow.postMessage({jsonrpc: "2.0", ...message}, "*");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  addEventListener("message", async ({source, data}) => {
    if (source !== frame.contentWindow) return;
    heard.push(data);
    if (data.method === "ui/initialize") post({id: data.id, result: {
      protocolVersion: "2026-01-26", hostInfo: {name: "t", version: "1"}, hostCapabilities: {serverTools: {}},
      hostContext: {theme: dark ? "dark" : "light"}}});
    else if (data.method === "ui/notifications/initialized") {
      post({method: "ui/notifications/tool-input", params: {arguments: {}}});
      post({method: "ui/notifications/tool-result", params: JSON.parse(await window.first())});
    } else if (data.method === "ui/notifications/size-changed") frame.style.height = data.params.height + "px";
    else if (data.method === "tools/call")
      post({id: data.id, result: JSON.parse(await window.call(JSON.stringify(data.params)))});
    else if (data.id !== undefined && data.method) post({id: data.id, result: {}});
  });
  window.load = (html) => { frame.srcdoc = html; };
  window.heard = heard;
</script></html>
"""


def call(site, params, key=None):
    return result(site.modern("tools/call", params, capabilities=ABLE, key=key))


def decision(card, decision="approve"):
    [one] = card["_meta"][cards.META]["open"]
    return {"name": cards.TOOL, "arguments": {"approval": one["id"], "token": one["token"], "decision": decision}}


def test_a_call_ends_with_the_card_and_goes_on_with_the_decision(site, model):
    model.script(calls(("calculate", {"expression": "2 + 2"})), says("Four."))
    card = call(site, CALL)
    [one] = card["_meta"][cards.META]["open"]
    assert (one["tool"], json.loads(one["arguments"]), one["may_decide"]) == (
        "calculate",
        {"expression": "2 + 2"},
        True,
    )
    assert call(site, decision(card, "wait"))["_meta"][cards.META]["open"][0]["id"] == one["id"]
    assert call(site, decision(card))["structuredContent"]["reply"] == "Four."
    assert call(site, decision(card))["isError"] is True
    assert call(site, decision(card, "wait"))["structuredContent"]["reply"] == "Four."


def test_a_denied_call_is_not_made_and_the_earlier_version_has_the_card_too(site, model):
    model.script(calls(("calculate", {"expression": "2 + 9"})), says("Then not."))
    info = {"clientInfo": {"name": "raw", "version": "1"}}
    hello = site.post(
        {"method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": ABLE, **info}, "id": 0}
    )
    headers = {"Mcp-Session-Id": hello.headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}
    card = messages(site.post({"method": "tools/call", "params": CALL, "id": 1}, headers))[-1]["result"]
    no = site.post({"method": "tools/call", "params": decision(card, "deny"), "id": 2}, headers)
    assert messages(no)[-1]["result"]["structuredContent"]["reply"] == "Then not."
    assert "denied" in json.dumps(model.requests[-1]["messages"])


@pytest.mark.browser
@pytest.mark.parametrize("device", [DESKTOP, PHONE])
def test_a_person_approves_in_the_card(chromium, site, model, device):
    hostile = "<img src=x onerror='parent.broken=1'> 6 * 7"
    model.script(calls(("calculate", {"expression": hostile})), says("Forty-two."))
    [page_of_card] = result(site.modern("resources/read", {"uri": cards.URI}))["contents"]
    page, requests = opened(chromium, site, device, page_of_card["text"], site.key)
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Allow “calculate”?").wait_for()
    assert "onerror" in frame.get_by_role("region", name="Arguments").inner_text()
    picture(page, f"mcp-card-{device['viewport']['width']}")
    assert serious(page) == []
    frame.get_by_label("Note for the agent").fill("Fine")
    frame.get_by_role("button", name="Approve").click()
    frame.get_by_text("The run has ended: succeeded.").wait_for()
    assert "Forty-two." in frame.locator("pre").inner_text()
    page.wait_for_function("heard.some((one) => one.method === 'ui/update-model-context')")
    assert requests == [] and page.evaluate("window.broken") is None


@pytest.mark.browser
def test_without_the_scope_the_card_links_to_muster(chromium, site, model):
    model.script(calls(("calculate", {"expression": "8 * 7"})), says("Fifty-six."))
    owner = site.live.http.get("/v1/models/plain").json()["owned_by"]
    page, _ = opened(chromium, site, DESKTOP, cards.PAGE.read_text(), new_key(site.live, owner, "*"))
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="Open Muster").click()
    page.wait_for_function("heard.some((one) => one.method === 'ui/open-link')")
    link = page.evaluate("heard.find((one) => one.method === 'ui/open-link').params.url")
    assert link.endswith("/approvals/") and frame.get_by_role("button", name="Approve").count() == 0
    page.context.close()


def opened(chromium, site, device, html, key):
    """A host's page with the card, and what the page requested from anywhere."""
    context = chromium.new_context(**device)
    context.add_init_script(path=AXE)
    page, requests = context.new_page(), []
    page.set_default_timeout(60_000)
    page.expose_function("first", lambda: json.dumps(call(site, CALL, key)))
    page.expose_function("call", lambda params: json.dumps(call(site, json.loads(params), key)))
    page.set_content(HOST)
    page.on("request", lambda one: requests.append(one.url) if one.url.startswith("http") else None)
    page.evaluate("html => load(html)", html)
    return page, requests
