"""Secrets by name. A function names one; the server adds it to requests to allowed hosts; it cannot
be read back.
"""

from django.db import models

from agents.exceptions import Invalid
from agents.fields import EncryptedTextField

from .team import Owned, OwnedQuerySet, check_name, one_name_per_owner


class Secret(Owned):
    name = models.CharField(max_length=64, validators=[check_name])
    value = EncryptedTextField(blank=True, help_text="Write-only: it is never shown again.")
    hosts = models.JSONField(
        default=list, blank=True, help_text='Hosts it may be sent to, such as ["api.example.com"].'
    )
    header = models.CharField(max_length=64, default="Authorization", help_text="The request header that carries it.")
    template = models.CharField(
        max_length=100, default="Bearer {secret}", help_text="The header's value; {secret} is replaced."
    )

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("secret")

    def __str__(self) -> str:
        return self.name

    def needs_value(self, hosts: list[str], header: str, template: str) -> bool:
        """Would these send the value elsewhere or in another form? Then it must be entered again."""
        own_hosts = {str(host).lower() for host in self.hosts}
        is_wider = any(str(host).lower() not in own_hosts for host in hosts)
        return is_wider or (header, template) != (self.header, self.template)

    def header_for(self, host: str) -> tuple[str, str] | None:
        """(header, value) when this host is bound to the secret and a value is stored, else None."""
        bound_hosts = {str(bound).lower() for bound in self.hosts}
        if not self.value or host.lower() not in bound_hosts:
            return None
        return self.header, self.template.replace("{secret}", self.value)


def valueless(secret: Secret) -> Invalid:
    """Its hosts or its template were changed, which cleared the value."""
    return Invalid(
        f"The secret “{secret}” has no value.", code="secret_empty", hint="Its owner must enter the value again."
    )
