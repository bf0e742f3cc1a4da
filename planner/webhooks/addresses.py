"""Where a webhook may point: public addresses, and those the operator has named. Decided on the address itself.

A name is resolved once, every address it has is judged, and the connection goes to one of the judged addresses: a name
server that answers differently the second time changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAT64 = ipaddress.ip_network("64:ff9b::/96")
NEVER_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text) for text in ("fec0::/10", "192.0.0.0/24", "192.88.99.0/24", "3fff::/20")
)
"""Site-local, protocol assignments, the old 6to4 relays, documentation: `is_global` of Python 3.11 lets them pass."""
DEFAULT_PORTS = {"https": 443, "http": 80}
MAX_HOST = 253
NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
"""No name on the internet ends in one: such a host is an address, in a spelling of its own that resolvers read."""


class RefusedAddress(ValueError):
    """The text says what is wrong and never what a name resolved to: that would tell a stranger about the network."""


@dataclass(frozen=True, slots=True)
class Target:
    scheme: str
    host: str
    port: int
    path: str
    """With its query."""


def target_of(url: str) -> Target:
    """The parts of a URL. Raises RefusedAddress for anything but a plain http(s) URL without credentials."""
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise RefusedAddress("a URL has printable ASCII characters only, without spaces or backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise RefusedAddress("this is no URL") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise RefusedAddress("the URL starts with https://")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise RefusedAddress("a URL with a user, a password or a fragment is not taken")
    if not parts.hostname or len(parts.hostname) > MAX_HOST or port == 0:
        raise RefusedAddress("the URL names a host, and a port of 1 to 65535 where it names one")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], path)


def allowed_networks() -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in settings.WEBHOOK_NETWORKS)


def check_address(address: Address, scheme: str) -> None:
    """Raises RefusedAddress for an address that is neither public nor named by the operator; http is for the latter."""
    inner = _inside(address)
    if any(inner.version == network.version and inner in network for network in allowed_networks()):
        return
    listed = any(inner.version == network.version and inner in network for network in NEVER_PUBLIC)
    if listed or not inner.is_global or inner.is_multicast or inner.is_reserved:
        raise RefusedAddress("the host is not on the public internet; the operator may allow its network")
    if scheme != "https":
        raise RefusedAddress("outside the operator's own networks only https is used")


def _inside(address: Address) -> Address:
    """The IPv4 address that an IPv6 one carries, where it carries one: the packet ends up there."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


def check_url(url: str) -> Target:
    """What can be said without asking a name server: the form, and the address where the URL spells one out."""
    target = target_of(url)
    try:
        literal = ipaddress.ip_address(target.host)
    except ValueError:
        if f".{target.host.rstrip('.')}".endswith(".localhost"):
            check_address(ipaddress.ip_address("127.0.0.1"), target.scheme)
        if NUMBER.fullmatch(target.host.rstrip(".").rpartition(".")[2]):
            raise RefusedAddress(
                "an IPv4 address is written as four numbers from 0 to 255, as in 93.184.215.14"
            ) from None
        return target
    check_address(literal, target.scheme)
    return target


def resolve(target: Target) -> Sequence[str]:
    """Addresses to connect to, each of them checked. Raises RefusedAddress; OSError where the name is unknown."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for text in addresses:
        check_address(ipaddress.ip_address(text.partition("%")[0]), target.scheme)
    return addresses
