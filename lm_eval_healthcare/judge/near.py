"""Whether an address is this machine: what decides if credentialed text may be sent there."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

NAME = "localhost"
"""The one name that is this machine; the back end connects to the loopback address without looking it up."""
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]%:@]+)(:\d*)?")
"""A host with its port, as every program reads it."""


def is_loopback(url: str) -> bool:
    """Return whether an http or https URL is at 127.0.0.0/8, at ::1, or at the name `localhost`.

    No name is looked up. Everything that programs read differently is taken for another machine: numbers that are not
    written as four decimals (`127.1`, `2130706433`, `0x7f.0.0.1`), percent signs, backslashes, spaces and signs beyond
    ASCII in the host, a second `@`. So are `0.0.0.0` and `::`, which are no addresses to connect to, and names below
    `localhost`, which a name server may answer for. Write 127.0.0.1 instead.

    Args:
        url: The whole URL, scheme included.
    """
    if not url.isascii() or not url.isprintable() or any(sign in url for sign in " \\"):
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or host is None or port == 0:
        return False
    if parts.netloc.count("@") > 1 or not HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        return False
    if host.removesuffix(".") == NAME:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
