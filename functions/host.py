"""Operations that a running function can request from the host: log, progress, values of its run,
and allowed web addresses.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from typing import Any, AnyStr

from django.conf import settings

from agents import storage
from agents.models import Secret
from agents.models.secret import valueless
from agents.models.team import is_open
from functions import sandbox
from functions.http import Auth, Fetched, Rules, fetch_for_function
from functions.models import StoredFunction
from plumbing.http.outbound import Sockets

# Seconds of one request, at most.
HTTP_S = 20.0
# Characters of the names that replace secrets in one text.
ROOM_FOR_NAMES = 1 << 20
# Values of a call or of a run, at most.
MAX_VALUE_KEYS = 1000
# Bytes of all values together, as JSON.
MAX_VALUE_BYTES = 1 << 20


@dataclass(slots=True)
class Host:
    """The host of one call. `emit(type, data)` and `values` belong to the run; without a run,
    values last as long as the call.
    """

    user: Any = None
    # The stored function that runs; None: a draft of the user.
    function: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    emit: Callable[[str, dict[str, Any]], None] | None = None
    values: Any = None
    # Stores a file of the run.
    files: Callable[[str, bytes, str], dict[str, Any]] | None = None
    call_id: str = ""
    used: dict[str, str] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    # As JSON: parsed values use twenty times as much memory.
    own_values: dict[str, bytes] = field(default_factory=dict)
    deadline: float = math.inf
    sockets: Sockets = field(default_factory=Sockets)

    def begin(self, deadline: float) -> None:
        """Begin a call, which must end by this deadline (time.monotonic())."""
        self.deadline, self.sockets = deadline, Sockets()

    def end(self) -> None:
        """End the call; requests that are still in progress are ended too."""
        self.sockets.close()

    def log(self, message: str, level: str = "info", fields: dict[str, Any] | None = None) -> None:
        if self.emit is None:
            return
        facts = {"id": self.call_id, "message": message, "level": level, "fields": fields or {}}
        self.emit("tool.log", self.clean(facts))

    def progress(self, done: Any = None, total: Any = None, message: str = "") -> None:
        if self.emit is None:
            return
        fraction = compute_fraction(done, total)
        facts = {"id": self.call_id, "message": message, "fraction": fraction}
        self.emit("tool.progress", self.clean(facts))

    def kv_get(self, key: str) -> Any:
        if self.values is not None:
            return self.values.get(key)
        data = self.own_values.get(key)
        if data is None:
            return None
        return json.loads(data)

    def kv_set(self, key: str, value: Any) -> None:
        if len(key) > 200:
            raise ValueError("a key can have at most 200 characters")
        value = self.clean(value)
        if self.values is not None:
            self.values.set(key, value)
            return
        data = json.dumps(value).encode()
        other_sizes = [len(kept) for name, kept in self.own_values.items() if name != key]
        check_room(len(other_sizes), sum(other_sizes), len(data), "call")
        self.own_values[key] = data

    def save_file(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        """ctx.save_file. Without a run nothing is stored, and the answer has no id."""
        if not name.strip():
            raise ValueError("a file needs a name")
        name = str(self.clean(name))
        secrets = {secret_name: secret.encode() for secret_name, secret in self.used.items()}
        content = replace_secrets(content, secrets)
        if self.files is not None:
            return self.files(name, content, media_type)
        if len(content) > settings.FILE_BYTES:
            raise ValueError(f"a file can have at most {settings.FILE_BYTES >> 20} MB")
        return {
            "file": None,
            "name": storage.clean_name(name),
            "media_type": storage.detect_type(content, media_type),
            "size": len(content),
        }

    def http(self, request: dict[str, Any]) -> dict[str, Any]:
        """ctx.http: https requests to the function's hosts, if the site allows them. Secrets in the
        response are removed before the child sees it.
        """
        private = tuple(settings.PRIVATE_HOSTS_ALLOWED)
        hosts = tuple(host for host in self.allowed_hosts if is_on_site(host))
        remaining_s = self.deadline - time.monotonic()
        rules = Rules(
            hosts=hosts,
            secret=self.auth,
            record=self.note,
            private_hosts=private,
            plain_http_hosts=private,
            max_timeout_s=max(min(HTTP_S, remaining_s), 0.01),
            sockets=self.sockets,
        )
        response = fetch_for_function(request, rules)
        answer: dict[str, Any] = self.clean(response)
        return answer

    def auth(self, name: str) -> Auth:
        secret = self.secret(name)
        value = secret.template.replace("{secret}", secret.value)
        hosts = tuple(map(str, secret.hosts))
        return Auth(header=secret.header, value=value, hosts=hosts)

    def note(self, fetched: Fetched) -> None:
        self.requests.append(self.clean(asdict(fetched)))

    def redacted(self, outcome: sandbox.Outcome) -> sandbox.Outcome:
        """The outcome with the sent secrets removed, as a server may have echoed one."""
        if not self.used:
            return outcome
        error = outcome.error
        if error is not None:
            error = replace(error, message=self.clean(error.message))
        result = self.clean(outcome.result)
        printed = self.clean(outcome.printed)
        return replace(outcome, result=result, printed=printed, error=error)

    def clean(self, value: Any) -> Any:
        """The same value with each used secret replaced by its name."""
        if not self.used:
            return value
        if isinstance(value, str):
            return replace_secrets(value, self.used)
        if isinstance(value, list | tuple):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(key): self.clean(item) for key, item in value.items()}
        return value

    def secret(self, name: str) -> Secret:
        """A secret that this function may name, and that both the user it runs for and the
        function's owner may use.

        Raises PermissionError, NotFound, Forbidden, Invalid.
        """
        if name not in self.secret_names:
            names = ", ".join(self.secret_names) or "none"
            raise PermissionError(f"the secret “{name}” is not granted to this function (granted: {names})")
        secret: Secret = Secret.objects.for_use(self.user, name)
        if not self.is_lent(secret):
            raise PermissionError(f"the secret “{name}” is not shared with the owner of this function")
        if not secret.value:
            raise valueless(secret)
        self.used[name] = secret.value
        return secret

    def is_lent(self, secret: Secret) -> bool:
        """The owner of a function can change it, so it may only use secrets that the owner may use
        as well.
        """
        owner_id = None
        if self.function:
            rows = StoredFunction.objects.filter(pk=self.function)
            owner_id = rows.values_list("owner_id", flat=True).first()
        if owner_id is None or owner_id == self.user.pk:
            return True
        return is_open(secret.owner_id, secret.team_id, owner_id)


def check_room(keys: int, size: int, more: int, whose: str) -> None:
    """Checks that a value of `more` bytes fits next to `keys` others with `size` bytes in total.
    Raises ValueError.
    """
    if keys >= MAX_VALUE_KEYS:
        raise ValueError(f"a {whose} can have at most {MAX_VALUE_KEYS} values")
    if size + more > MAX_VALUE_BYTES:
        raise ValueError(f"the values of a {whose} can have at most {MAX_VALUE_BYTES >> 10} kB of JSON in total")


def replace_secrets(text: AnyStr, secrets: Mapping[str, AnyStr]) -> AnyStr:
    """The text or the bytes with each secret replaced by its name.

    What was inserted is not read again: names of secrets of one letter would multiply with every secret. Where the
    names would take more room than that, a star stands for a secret.
    """
    # A secret may contain another one, whose mark would leave the rest of it readable.
    longest_first = sorted(secrets.items(), key=lambda pair: -len(pair[1]))
    marks = []
    room = 0
    for name, secret in longest_first:
        mark = like(text, f"[secret {name}]")
        marks.append((secret, mark))
        room += text.count(secret) * len(mark)
    if room <= ROOM_FOR_NAMES:
        return replace_marks(text, marks)
    star = like(text, "*")
    for secret, _ in marks:
        text = text.replace(secret, star)
    return text


def like(text: AnyStr, mark: str) -> AnyStr:
    if isinstance(text, str):
        return mark
    return mark.encode()


def replace_marks(text: AnyStr, marks: list[tuple[AnyStr, AnyStr]]) -> AnyStr:
    if not marks:
        return text
    (secret, mark), *others = marks
    pieces = [replace_marks(piece, others) for piece in text.split(secret)]
    return mark.join(pieces)


def compute_fraction(done: Any, total: Any) -> float | None:
    """None where it is no number, or none that can be stored."""
    if not (is_number(done) and is_number(total) and total):
        return None
    try:
        fraction = float(done / total)
    except OverflowError:
        return None
    return fraction if math.isfinite(fraction) else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_on_site(host: str) -> bool:
    """The hosts of the function that the site still allows; the site's list may have changed since
    the version was published.
    """
    host = host.lower()
    return any(fnmatch(host, pattern.lower()) for pattern in settings.FUNCTION_HOSTS)
