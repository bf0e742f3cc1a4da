"""Where a webhook may point: decided on addresses, once, and the connection goes where the decision was made."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from planner.webhooks.addresses import RefusedAddress, check_url, resolve, target_of

PRIVATE = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "[::1]", "[::]",
    "[fe80::1]", "[fc00::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "localhost", "a.localhost", "LOCALHOST", "localhost.",
    "[fec0::1]", "192.0.0.8", "192.88.99.1", "[3fff::1]", "[::127.0.0.1]", "[64:ff9b:1::7f00:1]",
]  # fmt: skip
MISSHAPEN = [
    "", "x", "ftp://example.org/", "file:///etc/passwd", "gopher://example.org/", "https://", "https:///x",
    "https://user@example.org/", "https://user:pass@example.org/", "https://example.org/#x", "https://exa mple.org/",
    "https://example.org:0/", "https://example.org:99999/", "https://example.org:x/", "https://ex\tample.org/",
    "https://example.org\\@127.0.0.1/", "https://\u0435xample.org/", "javascript:alert(1)", "https://[::1/",
]  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_private_addresses_are_refused(host: str, scheme: str) -> None:
    with pytest.raises(RefusedAddress):
        check_url(f"{scheme}://{host}/hook")


@pytest.mark.parametrize("url", MISSHAPEN)
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(RefusedAddress):
        check_url(url)


def test_a_public_address_is_taken_over_https_only() -> None:
    assert check_url("https://93.184.215.14/x?y=1").path == "/x?y=1"
    assert check_url("https://hooks.example.org:8443/").port == 8443
    with pytest.raises(RefusedAddress):
        check_url("http://93.184.215.14/")


def test_the_operator_opens_networks(settings: Any) -> None:
    settings.WEBHOOK_NETWORKS = ["10.1.0.0/16", "fd00::/8"]
    assert check_url("http://10.1.2.3/")
    assert check_url("https://[fd00::1]/")
    for still in ("10.2.0.1", "127.0.0.1"):
        with pytest.raises(RefusedAddress):
            check_url(f"https://{still}/")


@pytest.mark.parametrize(
    ("text", "number"), [("2130706433", "127.0.0.1"), ("0x7f000001", "127.0.0.1"), ("127.1", "127.0.0.1")]
)
def test_odd_spellings_are_judged_by_what_they_resolve_to(text: str, number: str) -> None:
    with pytest.raises((RefusedAddress, OSError)):
        resolve(target_of(f"https://{text}/"))


def test_one_private_address_among_public_ones_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, 1, 6, "", (text, 443)) for text in ("93.184.215.14", "10.0.0.1")]

    monkeypatch.setattr("planner.webhooks.addresses.socket.getaddrinfo", found)
    with pytest.raises(RefusedAddress) as caught:
        resolve(target_of("https://rebinding.example.org/"))
    assert "10.0.0.1" not in str(caught.value)
