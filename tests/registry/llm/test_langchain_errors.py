"""What a run shows of an error of a provider's package: a code and the server's reason, not the exception."""

import json

import pytest

from registry.llm.langchain_models import classify_langchain_error


class Response:
    headers = {"retry-after": "7"}

    def __init__(self, content):
        self.content = content


class BadRequestError(Exception):
    def __init__(self, status, content):
        super().__init__(f"Error code: {status} - <object at 0x7f> in /srv/app/secret.py")
        self.status_code = status
        self.response = Response(content)


@pytest.mark.parametrize(
    ("status", "content", "code", "message"),
    [
        (400, json.dumps({"error": {"message": "no such model"}}).encode(), "model_refused",
         "The model server answered 400: no such model"),
        (401, b"", "model_key_refused", "The model server answered 401: no reason"),
        (429, b'{"error": "slow down"}', "model_rate_limited", "The model server answered 429: slow down"),
    ],
)  # fmt: skip
def test_the_server_s_reason_is_shown_and_not_the_exception(status, content, code, message):
    failed = classify_langchain_error(BadRequestError(status, content))
    assert (failed.code, failed.message) == (code, message)


def test_an_exception_without_an_answer_is_only_in_the_log():
    failed = classify_langchain_error(ValueError("[Errno 13] /srv/app/secret.py"))
    assert failed.code == "model_error" and "secret" not in failed.message
