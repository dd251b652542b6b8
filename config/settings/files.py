"""Files that people upload and runs make."""

from pathlib import Path
from typing import Any

from config import buckets
from config.settings.environment import DATA_DIR, env

# Directory of the files that people upload and runs make.
FILES_DIR = Path(env.str("MUSTER_FILES_DIR", default=str(DATA_DIR / "files")))
FILE_BYTES = env.int("MUSTER_FILE_BYTES", default=10 << 20)  # bytes of one file
FILE_BYTES_PER_PERSON = env.int("MUSTER_FILE_BYTES_PER_PERSON", default=1 << 30)  # bytes of all files of one person
# Scanner of files: clamd://host:3310, clamd:///path/to/socket, or a command line; empty: files are not scanned
FILE_SCANNER = env.str("MUSTER_FILE_SCANNER", default="")
# S3 or a service like it for files, in place of a directory; credentials as boto3 finds them
S3_URL = env.str("MUSTER_S3_URL", default="")  # s3://bucket/prefix?endpoint=https://minio:9000&region=eu-west-1
STORAGES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "files": buckets.storage(S3_URL)
    if S3_URL
    else {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": FILES_DIR, "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    },
}
