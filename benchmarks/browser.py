"""What a person's browser sees: the first token in the playground, and what each page weighs.

`python -m benchmarks.browser` · a whole Muster of its own, a stub of a model server that notes when it sent the first
piece of each answer, and a headless Chromium that notes when that piece stood on the page and when it was painted.
"""

import gzip
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.page import write_section
from tests.live import Live

MESSAGES, PIECES, BETWEEN_S = 15, 6, 0.06
PAGES = {
    "dashboard": "/",
    "playground": "/playground/?agent=talker",
    "runs": "/runs/",
    "run": "",
    "sessions": "/sessions/",
    "approvals": "/approvals/",
    "schedules": "/schedules/",
    "agents": "/agents/",
    "agent": "/agents/talker/",
    "chains": "/chains/",
    "chain": "/chains/digest/",
    "records": "/records/",
    "memory": "/memory/",
    "files": "/files/",
    "providers": "/providers/",
    "teams": "/teams/",
    "account": "/account/",
    "functions": "/functions/",
    "workbench": "/functions/add_to_date/",
    "devices": "/devices/",
    "connections": "/connections/",
    "audit": "/audit/",
    "first steps": "/start/",
    "admin: agents": "/admin/agents/agent/",
}
WATCH = """
window.shown = [];
addEventListener("DOMContentLoaded", () => {
  const seen = new WeakSet();
  const now = () => performance.timeOrigin + performance.now();
  new MutationObserver(() => {
    for (const bubble of document.querySelectorAll(".say.assistant")) {
      if (seen.has(bubble) || !bubble.textContent) continue;
      seen.add(bubble);
      const at = { shown: now() };
      window.shown.push(at);
      requestAnimationFrame(() => { const after = new MessageChannel(); after.port1.onmessage = () => { at.painted = now(); }; after.port2.postMessage(0); });
    }
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
});
"""
RECORD = """async () => {
  const largest = await new Promise((resolve) => {
    const watch = new PerformanceObserver((list) => resolve(list.getEntries().at(-1).startTime));
    watch.observe({ type: "largest-contentful-paint", buffered: true });
    setTimeout(() => resolve(null), 2000);
  });
  const load = performance.getEntriesByType("navigation")[0];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return { paint: paint ? paint.startTime : null, largest, server: load.responseStart - load.requestStart,
    ready: load.domContentLoadedEventEnd, nodes: document.getElementsByTagName("*").length };
}"""


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    directory.chmod(0o755)
    with talker() as (address, sent):
        muster = Live(directory, "--no-greeting", MUSTER_PRIVATE_HOSTS="127.0.0.1")
        try:
            prepare(muster, address)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
                context = signed_in(browser, muster)
                lines = [*first_tokens(context, sent), "", *weights(context, muster)]
                browser.close()
        finally:
            muster.stop()
            shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(lines))
    when = f"{datetime.now(UTC):%d %B %Y}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    text = f"`python -m benchmarks.browser`, {when}. Each page is opened with an empty cache.\n\n"
    write_section("The pages in a browser", text + "\n".join(lines))


def chromium() -> str:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("There is no Chromium on this machine; install it, then try again.")
    return program


# -- the model's side ---------------------------------------------------------------------------------------------------


@contextmanager
def talker() -> Iterator[tuple[str, list[float]]]:
    """An OpenAI-compatible server that streams, and when (epoch, seconds) it sent each answer's first piece."""
    sent: list[float] = []

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.piece({"role": "assistant", "content": ""}, body["model"])
            time.sleep(BETWEEN_S)
            sent.append(time.time())
            for number in range(PIECES):
                self.piece({"content": f"word{number} "}, body["model"])
                time.sleep(BETWEEN_S)
            self.piece({}, body["model"], "stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def piece(self, delta: dict[str, str], model: str, why: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": why}
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", sent
    finally:
        server.shutdown()


def prepare(muster: Live, address: str) -> None:
    provider = {"name": "stub", "kind": "openai-compatible", "base_url": address, "api_key": "none"}
    agent = {"name": "talker", "description": "Talks.", "provider": "stub", "model_name": "stub"}
    for path, body in (("providers/", provider), ("agents/", agent), ("agents/talker/publish", {})):
        muster.http.post(f"/api/v1/{path}", json=body).raise_for_status()
    answer = muster.http.post("/api/v1/agents/talker/messages", json={"message": "Hello"})
    answer.raise_for_status()
    PAGES["run"] = f"/runs/{answer.json()['run']['id']}/"


def signed_in(browser: Any, muster: Live) -> Any:
    context = browser.new_context(base_url=muster.url, viewport={"width": 1280, "height": 860})
    page = context.new_page()
    name, password = re.search(r"login\s+(\S+) / (\S+) ", muster.said).groups()  # type: ignore[union-attr]
    page.goto("/login/")
    page.fill("#id_username", name)
    page.fill("#id_password", password)
    page.click("button.primary")
    page.get_by_role("heading", name=re.compile("First steps|Dashboard|Chat")).wait_for()
    page.close()
    return context


# -- what is measured -----------------------------------------------------------------------------------------------------


def first_tokens(context: Any, sent: list[float]) -> list[str]:
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto("/playground/?agent=talker")
    sent.clear()
    for number in range(MESSAGES):
        page.fill("#text", f"Say something, {number}")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Run page").nth(number).wait_for()
    stamps = page.evaluate("window.shown")
    page.close()
    assert len(stamps) == len(sent) == MESSAGES, (len(stamps), len(sent))
    shown = sorted(at["shown"] - began * 1000 for at, began in zip(stamps, sent, strict=True))
    painted = sorted(at["painted"] - began * 1000 for at, began in zip(stamps, sent, strict=True))
    return [
        f"First token of {MESSAGES} messages, from the provider's sending it: on the page after {median(shown):.0f} ms "
        f"(median; best {shown[0]:.0f}, worst {shown[-1]:.0f}), painted after {median(painted):.0f} ms."
    ]


def weights(context: Any, muster: Live) -> list[str]:
    head = "| page | requests | KB gzip | first contentful paint ms | largest paint ms | ready ms | server ms | elements | complaints |"
    lines = [head, "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, path in PAGES.items():
        values = record(context, muster.url, path)
        lines.append(f"| {name} | {' | '.join(str(value) for value in values)} |")
    return lines


def record(context: Any, base: str, path: str) -> list[Any]:
    """One page with an empty cache: requests, weight, times, elements; errors and requests to elsewhere are complaints."""
    page, answers, complaints = context.new_page(), [], []
    page.on("response", lambda answer: answers.append(answer))  # Playwright cannot mark a method of a list
    page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: complaints.append(request.url) if not request.url.startswith((base, "data:")) else None,
    )
    context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(path)
    page.wait_for_load_state("networkidle")
    times = page.evaluate(RECORD)
    weight = sum(len(gzip.compress(answer.body())) for answer in answers if answer.status == 200) / 1024
    for complaint in complaints:
        print(f"{path}: {complaint}")
    page.close()
    paints = [round(times[name]) if times[name] else "–" for name in ("paint", "largest")]
    figures = [len(answers), f"{weight:.0f}", *paints, round(times["ready"]), round(times["server"])]
    return [*figures, times["nodes"], len(complaints)]


if __name__ == "__main__":
    main()
