"""The page of clients: the address that each program needs, and this person's API keys."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as known
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from agents.models import ApiKey, AuditEvent
from agents.models.key import DECIDE, EVERYTHING
from plumbing.texts import translate_name

from ..base import redirect_unless_posted, render_shell_page, require_login

TALKS = ("messages:read", "messages:write")
KEYS = 200
# The resources that scopes name.
RESOURCES = (
    known("agents"), known("functions"), known("tools"), known("chains"), known("runs"), known("messages"),
    known("sessions"), known("schedules"), known("devices"), known("records"), known("connections"),
    known("providers"), known("budgets"), known("teams"), known("secrets"), known("audit"), known("triggers"),
    known("webhooks"), known("workers"), known("keys"), known("memory"), known("skills"), known("collections"),
    known("approvals"), known("prompts"), known("account"), known("people"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Client:
    """A kind of program. `address` is below this site, `text` what to paste, with {address} and {key}."""

    word: str
    title: str
    examples: str
    path: str
    text: str
    help: str
    scopes: tuple[str, ...] = TALKS

    @property
    def address(self) -> str:
        return settings.PUBLIC_URL.rstrip("/") + self.path

    def pasted(self, key: str) -> str:
        return self.text.replace("{address}", self.address).replace("{key}", key)


CLIENTS = (
    Client(
        "openai", known("OpenAI's API"), known("Open WebUI, LibreChat, the OpenAI SDKs"), "/v1",
        "OPENAI_BASE_URL={address}\nOPENAI_API_KEY={key}",
        known("Your agents are the models. In Open WebUI add both under Admin settings, Connections, OpenAI API."),
    ),
    Client(
        "mcp", "MCP", "Claude, VS Code, Cursor", "/mcp",
        'claude mcp add --transport http muster {address} --header "Authorization: Bearer {key}"',
        known("Your agents, chains and functions are its tools."),
        (*TALKS, "runs:read", "runs:write", "functions:execute"),
    ),
    Client(
        "langgraph", "LangGraph", known("Agent Chat UI, the LangGraph SDKs"), "/langgraph",
        "Deployment URL: {address}\nAPI key: {key}",
        known("Your agents are the assistants. Enter the name of one as its id."),
        (*TALKS, "agents:read", "sessions:read", "sessions:write", "runs:read", "runs:write"),
    ),
    Client(
        "ag-ui", "AG-UI", "CopilotKit, assistant-ui", "/agui/NAME",
        'new HttpAgent({ url: "{address}", headers: { Authorization: "Bearer {key}" } })',
        known("Replace NAME with the name of an agent."),
    ),
    Client(
        "a2a", "A2A", known("other agents"), "/a2a/NAME",
        "Agent card: {address}/.well-known/agent-card.json\nAuthorization: Bearer {key}",
        known("Replace NAME with the name of an agent."),
    ),
    Client(
        "muster", known("muster on the command line"), known("your terminal, and Python programs"), "",
        "MUSTER_URL={address}\nMUSTER_API_KEY={key}",
        known("The program and the Python client read both from the environment."),
        ("*",),
    ),
)  # fmt: skip


@require_login
def client_list(request: HttpRequest) -> HttpResponse:
    return render_clients(request)


@never_cache
@redirect_unless_posted("page:clients")
@require_login(writes="keys:write")
def create_client_key(request: HttpRequest, word: str) -> HttpResponse:
    """Create a key for this kind of client and show it, this once."""
    clients = {client.word: client for client in CLIENTS}
    client = clients.get(word)
    if client is None:
        raise Http404("There is no such kind of client.")
    scopes = list(client.scopes)
    if request.POST.get("decides"):
        scopes.append(DECIDE)
    key, secret = ApiKey.make(request.user, scopes, name=client.title)
    AuditEvent.record("apikey.created", key, actor=request.user, scopes=scopes)
    return render_clients(request, client=client, secret=secret)


@require_POST
@require_login(writes="keys:write")
def revoke_key(request: HttpRequest, pk: int) -> HttpResponse:
    key = ApiKey.objects.visible_to(request.user).filter(pk=pk).first()
    if key is None:
        raise Http404("There is no such key of yours.")
    key.revoke()
    AuditEvent.record("apikey.revoked", key, actor=request.user)
    messages.success(request, _("The key “%(key)s” is revoked.") % {"key": key})
    return redirect("page:clients")


def render_clients(request: HttpRequest, client: Client | None = None, secret: str = "") -> HttpResponse:
    """The page; `secret` is the new key of this client, which no later page can show."""
    entries = []
    for shown_client in CLIENTS:
        is_made = shown_client == client
        text = shown_client.pasted(secret if is_made else "YOUR_KEY")
        entries.append({"client": shown_client, "text": text, "is_made": is_made})
    keys = list(ApiKey.objects.visible_to(request.user).order_by("-created_at", "-pk")[:KEYS])
    for key in keys:
        key.may = describe_key_scopes(key.scopes)
    return render_shell_page(request, "clients.html", _("API keys"), entries=entries, keys=keys)


def describe_key_scopes(scopes: list[str]) -> str:
    """What a key with these scopes may do: `["*"]` → everything except deciding approvals."""
    if EVERYTHING in scopes:
        return _("everything") if DECIDE in scopes else _("everything except deciding approvals")
    parts: list[str] = []
    readable = join_resources(scopes, ("read", "*"))
    if readable:
        parts.append(_("read: %(what)s") % {"what": readable})
    writable = join_resources(scopes, ("write", "*"))
    if writable:
        parts.append(_("write: %(what)s") % {"what": writable})
    executable = join_resources(scopes, ("execute",))
    if executable:
        parts.append(_("execute: %(what)s") % {"what": executable})
    if DECIDE in scopes:
        parts.append(_("decide approvals"))
    return "; ".join(parts) or _("nothing")


def join_resources(scopes: list[str], verbs: tuple[str, ...]) -> str:
    """The resources, in the person's language, with which the key may do one of these."""
    names = []
    for scope in scopes:
        resource, _colon, verb = scope.partition(":")
        if verb in verbs:
            names.append(translate_name(resource))
    return ", ".join(names)
