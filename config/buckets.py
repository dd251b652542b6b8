"""Files in S3, or in a service with the same API: reads the address when a program starts."""

from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django.core.exceptions import ImproperlyConfigured

OPTIONS = {"endpoint": "endpoint_url", "region": "region_name"}


def storage(url: str) -> dict[str, Any]:
    """The entry of `STORAGES` for s3://bucket/prefix?endpoint=…&region=…; raises ImproperlyConfigured."""
    parts = urlsplit(url)
    more = dict(parse_qsl(parts.query))
    is_address = parts.scheme == "s3" and parts.hostname and not parts.username
    if not is_address or more.keys() - OPTIONS.keys():
        raise ImproperlyConfigured(
            "MUSTER_S3_URL must be s3://bucket/prefix, with endpoint and region as parameters if they are needed. "
            "Credentials are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    if find_spec("storages") is None or find_spec("boto3") is None:
        raise ImproperlyConfigured("MUSTER_S3_URL needs `pip install -r requirements-s3.txt`.")
    options = {
        "bucket_name": parts.hostname,
        "location": parts.path.strip("/"),
        "file_overwrite": False,
        "default_acl": None,  # the bucket's own rules
    }
    for name, value in more.items():
        options[OPTIONS[name]] = value
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}
