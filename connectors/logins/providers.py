"""The cloud services: their addresses and the minimum scopes to ask for."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from agents.exceptions import Invalid, NotFound

# Kinds of access, least first.
ACCESS = ("read", "write", "send")


@dataclass(frozen=True, slots=True)
class Scope:
    """One permission, with the sentence shown before the user agrees."""

    scope: str
    access: str
    why: str


@dataclass(frozen=True, slots=True)
class Login:
    """One family of accounts. Addresses are read from settings when needed, so that emulators can
    stand in.
    """

    family: str
    base_scopes: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def client_id(self) -> str:
        return getattr(settings, f"{self.family}_CLIENT_ID")

    @property
    def client_secret(self) -> str:
        return getattr(settings, f"{self.family}_CLIENT_SECRET")

    def hosts_for(self, url: str) -> list[str]:
        """Private hosts that a request may reach: the service's own address comes from the
        settings, so it is allowed.
        """
        host = urlsplit(url).hostname or ""
        return [*settings.PRIVATE_HOSTS_ALLOWED, host]

    def credentials(self) -> tuple[dict[str, str], dict[str, str]]:
        """Form fields and headers of each request."""
        form = {"client_id": self.client_id}
        if self.client_secret:
            form["client_secret"] = self.client_secret
        return form, {}

    def url(self, what: str) -> str:
        """`what` is authorize, token, revoke or device; "" if the service has no such address."""
        if self.family == "GOOGLE":
            base = settings.GOOGLE_OAUTH_URL
            addresses = {
                "authorize": settings.GOOGLE_AUTHORIZE_URL,
                "token": f"{base}/token",
                "revoke": f"{base}/revoke",
                "device": f"{base}/device/code",
            }
        else:
            base = f"{settings.MICROSOFT_LOGIN_URL}/oauth2/v2.0"
            addresses = {
                "authorize": f"{base}/authorize",
                "token": f"{base}/token",
                "revoke": "",
                "device": f"{base}/devicecode",
            }
        return addresses[what]


GOOGLE = Login("GOOGLE", extra=(("access_type", "offline"), ("prompt", "consent")))
MICROSOFT = Login("MICROSOFT", base_scopes=("offline_access", "User.Read"), extra=(("prompt", "select_account"),))


@dataclass(frozen=True, slots=True)
class Service:
    """One cloud service: its login, its scopes, and the setting with the address of its API."""

    provider: str
    title: str
    login: Login
    setting: str
    scopes: tuple[Scope, ...]

    @property
    def base_url(self) -> str:
        return getattr(settings, self.setting)

    @property
    def is_configured(self) -> bool:
        return bool(self.login.client_id)

    def scopes_for(self, access: Iterable[str]) -> list[str]:
        """The minimum scopes for these kinds of access. Raises Invalid for an unknown kind."""
        levels = list(access) or ["read"]
        unknown = [word for word in levels if word not in ACCESS]
        if unknown:
            raise Invalid(f"“{unknown[0]}” is not a kind of access.", hint=f"Choose from {', '.join(ACCESS)}.")
        scopes = [entry.scope for entry in self.scopes if entry.access in levels]
        return [*self.login.base_scopes, *dict.fromkeys(scopes)]

    def described(self) -> dict[str, Any]:
        scopes = [asdict(one) for one in self.scopes]
        return {
            "provider": self.provider,
            "title": self.title,
            "is_configured": self.is_configured,
            "scopes": scopes,
        }


GMAIL_SCOPE = "https://www.googleapis.com/auth/gmail."
SERVICES: dict[str, Service] = {
    "gmail": Service(
        "gmail", "Gmail", GOOGLE, "GMAIL_URL",
        (
            Scope(GMAIL_SCOPE + "readonly", "read", "Read your messages and labels."),
            Scope(GMAIL_SCOPE + "modify", "write", "Set labels on messages, move them and write drafts."),
            Scope(GMAIL_SCOPE + "send", "send", "Send messages as you. Each one needs your approval "
                "unless you decide otherwise."),
        ),
    ),
    "outlook": Service(
        "outlook", "Outlook mail", MICROSOFT, "GRAPH_URL",
        (
            Scope("Mail.Read", "read", "Read your messages and folders."),
            Scope("Mail.ReadWrite", "write", "Move messages, set categories and write drafts."),
            Scope("Mail.Send", "send", "Send messages as you. Each one needs your approval unless you "
                "decide otherwise."),
        ),
    ),
    "teams": Service(
        "teams", "Microsoft Teams", MICROSOFT, "GRAPH_URL",
        (
            Scope("Team.ReadBasic.All", "read", "See which teams you are in."),
            Scope("Channel.ReadBasic.All", "read", "See the channels of your teams."),
            Scope("ChannelMessage.Read.All", "read", "Read the messages of your channels."),
            Scope("Chat.Read", "read", "Read your chats."),
            Scope("ChannelMessage.Send", "send", "Send messages to channels as you."),
            Scope("ChatMessage.Send", "send", "Send messages to chats as you."),
        ),
    ),
}  # fmt: skip


def get_cloud_service(provider: str) -> Service:
    """Raises NotFound for a provider without a login."""
    if service := SERVICES.get(provider):
        return service
    raise NotFound(f"There is no cloud service “{provider[:40]}”.", hint=f"Available: {', '.join(SERVICES)}.")
