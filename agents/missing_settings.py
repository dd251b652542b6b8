"""Settings of an earlier start that this start lacks, such as the permission to call a local model server."""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from agents.models import Provider
from plumbing.http.addresses import url_refusal


def list_missing_settings() -> list[str]:
    """A sentence for each thing that worked with other settings and cannot work with these."""
    missing = [find_lost_field_key()]
    for provider in Provider.objects.defer("api_key").filter(enabled=True).exclude(base_url="").order_by("name"):
        missing.append(find_refused_address(provider))
    return [sentence for sentence in missing if sentence]


def find_refused_address(provider: Provider) -> str:
    """A private address that was allowed when the provider was added."""
    if not url_refusal(provider.base_url, settings.PRIVATE_HOSTS_ALLOWED, must_resolve=False):
        return ""
    host = urlsplit(provider.base_url).hostname
    return (
        f"The provider “{provider.name}” cannot be called: {host} is a private address. "
        f"Set MUSTER_PRIVATE_HOSTS={host}, as at the start that added it."
    )


def find_lost_field_key() -> str:
    """Secrets are read one by one, so a single one tells whether their key is there."""
    try:
        Provider.objects.exclude(api_key="").order_by("-pk").values_list("api_key", flat=True).first()
    except ImproperlyConfigured as error:
        return str(error)
    return ""
