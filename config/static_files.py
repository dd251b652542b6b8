"""Static files over slow lines: texts are sent compressed, whether or not a proxy stands in front."""

import gzip
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware

from .schema import accepts_gzip

TEXTS = ("text/", "image/svg+xml", "application/json")
# A packet of the network holds less: compressing saves nothing.
SMALL = 1000


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise compresses only what `collectstatic` prepared; this serves the files from where they are."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        response = WhiteNoiseMiddleware.serve(static_file, request)
        if not is_compressible(response):
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        is_whole = request.method == "GET" and response.status_code == 200
        if not is_whole or not accepts_gzip(request.headers.get("Accept-Encoding", "")):
            return response
        response.file_to_stream.close()
        path = static_file.alternatives[-1][1]
        content = compress_file(path, response["ETag"])
        headers = {**response.headers, "Content-Encoding": "gzip", "Content-Length": str(len(content))}
        return HttpResponse(content, headers=headers)


def is_compressible(response: HttpResponse) -> bool:
    is_text = response.get("Content-Type", "").startswith(TEXTS)
    return is_text and int(response.get("Content-Length", "0")) > SMALL and "Content-Encoding" not in response


@lru_cache(maxsize=500)
def compress_file(path: str, etag: str) -> bytes:
    """Its content for gzip. The tag changes with the content."""
    return gzip.compress(Path(path).read_bytes(), mtime=0)
