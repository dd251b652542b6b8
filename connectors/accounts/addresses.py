"""Mail addresses that somebody writes to: one by one, with names, as mail servers take them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import idna

from agents.tools import RetryTool
from connectors.content import split_addresses

ADDRESS = re.compile(r'([^\s@<>()\[\]:;,"\\]+|"[^"\\\r\n]+")@([^\s@<>()\[\]:;,"\\]+|\[[0-9A-Fa-f:.]+\])')
NAMED = re.compile(r"\s*([^<>\r\n]*?)\s*<\s*([^<>\s]+)\s*>\s*")


@dataclass(frozen=True, slots=True)
class Recipient:
    """A person and an address in ASCII."""

    name: str
    address: str

    @property
    def key(self) -> str:
        """Equal for one mailbox: nobody tells mailboxes apart by the case of letters."""
        return self.address.casefold()


def read_recipients(entries: Iterable[str]) -> list[Recipient]:
    """Each recipient once. An entry is an address or “Name <address>”. Raises RetryTool if mail cannot be sent to one
    of them.
    """
    recipients: dict[str, Recipient] = {}
    for entry in entries:
        for one in read_entry(entry):
            recipients.setdefault(one.key, one)
    return list(recipients.values())


def read_receivers(to: Iterable[str], cc: Iterable[str]) -> tuple[list[Recipient], list[Recipient]]:
    """Those that a mail is sent to, and those that get a copy: nobody gets it twice. Raises RetryTool."""
    receivers = read_recipients(to)
    keys = {one.key for one in receivers}
    copies = read_recipients(cc)
    others = [one for one in copies if one.key not in keys]
    return receivers, others


def read_entry(entry: str) -> list[Recipient]:
    if re.search(r"[\r\n\0]", entry):
        raise RetryTool(f"“{entry[:100]}” has a line break, so no mail can be sent to it.")
    # Names first: a comma in “Last, First <address>” divides nothing.
    if match := NAMED.fullmatch(entry):
        address = check_address(match[2], entry)
        return [Recipient(unquote_name(match[1]), address)]
    if "," not in entry and ";" not in entry:
        return [Recipient("", check_address(entry.strip(), entry))]
    pairs = split_addresses(entry.replace(";", ","))
    if not pairs:
        raise refuse(entry)
    return [Recipient(unquote_name(name), check_address(address, entry)) for name, address in pairs]


def unquote_name(name: str) -> str:
    name = name.strip()
    is_quoted = len(name) > 1 and name[0] == name[-1] == '"'
    if not is_quoted:
        return name
    # Within the quotes a backslash protects the character after it.
    return re.sub(r"\\(.)", r"\1", name[1:-1])


def check_address(address: str, entry: str) -> str:
    """The address with its domain as servers know it. Raises RetryTool."""
    match = ADDRESS.fullmatch(address)
    if not match or "=?" in address or len(address) > 320:
        raise refuse(entry)
    mailbox, domain = match[1], match[2]
    if not mailbox.isascii():
        raise RetryTool(
            f"“{entry[:100]}” has letters outside ASCII before the @; such mail is not sent. Ask for another address."
        )
    if domain.isascii():
        return address
    try:
        return f"{mailbox}@{idna.encode(domain, uts46=True).decode()}"
    except UnicodeError:
        raise refuse(entry) from None


def refuse(entry: str) -> RetryTool:
    return RetryTool(
        f"“{entry[:100]}” is no mail address. Write each one as name@example.org or Name <name@example.org>."
    )


def find_reachable(addresses: Iterable[str]) -> list[Recipient]:
    """The people of a received message, each once; addresses that mail cannot be sent to are passed over."""
    recipients: dict[str, Recipient] = {}
    for address in addresses:
        try:
            people = read_entry(address)
        except RetryTool:
            continue
        for one in people:
            recipients.setdefault(one.key, one)
    return list(recipients.values())


def is_own(recipient: Recipient, own: Iterable[str]) -> bool:
    """Whether this is one of the account's addresses, also with a tag (me+list@example.org)."""
    own_keys = {strip_tag(address.casefold()) for address in own}
    return strip_tag(recipient.key) in own_keys


def strip_tag(address: str) -> str:
    mailbox, _, domain = address.rpartition("@")
    person, _, _ = mailbox.partition("+")
    return f"{person}@{domain}"
