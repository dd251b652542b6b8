"""Signatures of webhooks, in and out: HMAC-SHA256 over id, time and body (the Standard Webhooks scheme). Plain Python.

webhook-id: msg_…          unique; a receiver keeps it to refuse replays
webhook-timestamp: 1700000000
webhook-signature: v1,<base64 of HMAC-SHA256(secret, "{id}.{timestamp}.{body}")>
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# For clocks that are fast.
TOLERATED_AHEAD_S = 60


class BadSignature(ValueError):
    """The headers are missing, too old, or do not match the body; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers that sign a body."""
    signature = compute_signature(secret, message_id, timestamp, body)
    return {ID: message_id, TIMESTAMP: str(timestamp), SIGNATURE: f"v1,{signature}"}


def compute_signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    code = hmac.new(decode_secret(secret), signed, hashlib.sha256)
    return base64.b64encode(code.digest()).decode()


def decode_secret(secret: str) -> bytes:
    """`whsec_` marks a secret and is not part of it; the rest is base64, as the scheme requires."""
    text = secret.removeprefix("whsec_")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode()


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float, window_s: int) -> str:
    """The message's id if one of its signatures is valid. Raises BadSignature."""
    message_id = headers.get(ID, "")
    stamp = headers.get(TIMESTAMP, "")
    signatures = headers.get(SIGNATURE, "")
    if not message_id or not stamp or not signatures:
        raise BadSignature("unsigned", f"The headers {ID}, {TIMESTAMP} and {SIGNATURE} are required.")
    is_number = stamp.isascii() and stamp.isdigit() and len(stamp) <= 12
    if len(message_id) > 128 or not is_number:
        raise BadSignature("unsigned", f"{ID} can have at most 128 characters; {TIMESTAMP} must be seconds since 1970.")
    age = now - int(stamp)
    if age > window_s or age < -TOLERATED_AHEAD_S:
        raise BadSignature("stale", f"The message is {round(age)} seconds old; {window_s} are allowed.")
    expected = compute_signature(secret, message_id, int(stamp), body).encode()
    # A sender that changes its secret signs with the old and the new one; eight bound the work.
    candidates = [part[3:].encode() for part in signatures.split()[:8] if part.startswith("v1,")]
    is_valid = False
    for candidate in candidates:
        # Compare all of them: how long it takes must not tell which one is right.
        is_valid |= hmac.compare_digest(expected, candidate)
    if not is_valid:
        raise BadSignature("bad_signature", "The signature is not valid.")
    return message_id
