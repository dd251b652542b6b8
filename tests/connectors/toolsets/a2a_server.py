"""A remote A2A agent as a program of its own, for tests that kill it: `python a2a_server.py PORT FOLDER`.

What it was asked is in FOLDER/calls, one line each. A task is in FOLDER/task and is completed when FOLDER/done is there.
With FOLDER/hang it takes a message and does not answer. Without FOLDER/keep a new process knows no task of the former.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Agent(BaseHTTPRequestHandler):
    folder: Path
    tasks: set[str]

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = f"http://127.0.0.1:{self.server.server_port}/agent"
        binding = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        self.answer({"name": "travel", "version": "1", "description": "Books.", "supportedInterfaces": [binding]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with (self.folder / "calls").open("a") as calls:
            calls.write(body["method"] + "\n")
        if body["method"] == "SendMessage":
            while (self.folder / "hang").exists():
                time.sleep(0.05)
            (self.folder / "task").write_text("t1")
            self.tasks.add("t1")
            return self.answer({"jsonrpc": "2.0", "id": 1, "result": {"task": self.task()}})
        if body["params"]["id"] not in self.tasks:
            return self.answer({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task not found"}})
        self.answer({"jsonrpc": "2.0", "id": 1, "result": self.task()})

    def task(self):
        is_done = (self.folder / "done").exists()
        artifacts = [{"artifactId": "a", "parts": [{"text": "Booked."}]}] if is_done else []
        state = "TASK_STATE_COMPLETED" if is_done else "TASK_STATE_WORKING"
        return {"id": "t1", "contextId": "c1", "status": {"state": state}, "artifacts": artifacts}

    def answer(self, body):
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    port, Agent.folder = int(sys.argv[1]), Path(sys.argv[2])
    Agent.tasks = {"t1"} if (Agent.folder / "task").exists() and (Agent.folder / "keep").exists() else set()
    ThreadingHTTPServer.allow_reuse_address = True
    server = ThreadingHTTPServer(("127.0.0.1", port), Agent)
    (Agent.folder / "port").write_text(str(server.server_port))
    server.serve_forever()
