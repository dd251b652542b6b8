"""Web push: the message encrypted for one browser (RFC 8291), and the site's signature (VAPID, RFC 8292).

The site's key is derived from `SECRET_KEY`, so that all its processes and hosts have the same one.
After a change of `SECRET_KEY` people subscribe again.
"""

import base64
import time
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import http_ece
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

from plumbing import clock
from runs.models import PushSubscription

SIGNED_FOR_S = 6 * 3600
LONGEST_S = 24 * 3600
# The order of the curve P-256: private keys are the numbers from 1 to below it.
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def message(
    subscription: PushSubscription, content: bytes, *, topic: str, until: datetime
) -> tuple[bytes, dict[str, str]]:
    """(body, headers). The push service keeps it until then, and replaces an earlier one of the same topic."""
    # Each message has a key of its own, as RFC 8291 demands.
    message_key = ec.generate_private_key(ec.SECP256R1())
    browser_key = from_text(subscription.p256dh)
    secret = from_text(subscription.auth)
    body = http_ece.encrypt(content, private_key=message_key, dh=browser_key, auth_secret=secret, version="aes128gcm")
    remaining_s = int((until - clock.near()).total_seconds())
    kept_s = min(max(remaining_s, 0), LONGEST_S)
    headers = {
        "Authorization": authorization(subscription.endpoint),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(kept_s),
        "Topic": topic,
        "Urgency": "high",
    }
    return body, headers


def authorization(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    # Whom the push service can turn to: the site, or its address of mail.
    contact = f"mailto:{settings.EMAIL_FROM}"
    if settings.PUBLIC_URL.startswith("https:"):
        contact = settings.PUBLIC_URL
    claims: dict[str, Any] = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(time.time()) + SIGNED_FOR_S,
        "sub": contact,
    }
    token = jwt.encode(claims, private_key(settings.SECRET_KEY), algorithm="ES256")
    return f"vapid t={token}, k={public_key()}"


def public_key() -> str:
    """What a browser needs to subscribe, as base64url."""
    public = private_key(settings.SECRET_KEY).public_key()
    return to_text(public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


@lru_cache(maxsize=2)
def private_key(secret: str) -> ec.EllipticCurvePrivateKey:
    derived = HKDF(SHA256(), length=48, salt=None, info=b"muster web push").derive(secret.encode())
    # More bytes than the order has: so every key is as probable as any other.
    number = int.from_bytes(derived, "big") % (ORDER - 1) + 1
    return ec.derive_private_key(number, ec.SECP256R1())


def to_text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """Raises ValueError."""
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True)


def is_point(text: str) -> bool:
    """Whether this is a public key of the curve P-256, as browsers send it."""
    try:
        point = from_text(text)
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    # Not the compressed form, which browsers do not send.
    return len(point) == 65
