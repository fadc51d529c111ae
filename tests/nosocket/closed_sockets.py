"""Close every socket of this interpreter except loopback and Unix sockets.

`install()` adds an audit hook, so it reaches what patching `socket.socket` does not: names imported before it ran,
`_socket` itself, TLS sockets, UDP sent without a connection. The interpreter raises what the hook raises *before* it
makes the call, so nothing leaves the machine, not even a name look-up. A hook cannot be taken away again: the process
stays closed until it ends.

Child processes get the same through PYTHONPATH: with this folder on it, each new interpreter runs `sitecustomize.py`
beside this file, and so do its own children (an interpreter started with -I, -E or -S does not).
"""

from __future__ import annotations

import ipaddress
import socket
import sys

MESSAGE = "tests run with sockets closed except loopback: {host}"

# Wildcard addresses name this machine: as the target of a connection they mean loopback.
_LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "0.0.0.0", "::"})
_WITH_ADDRESS = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
_WITH_NAME = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
_installed = False


def is_loopback(host: object) -> bool:
    """Tell whether a host is this machine's loopback: a name such as `localhost`, 127.0.0.0/8 or ::1."""
    if host is None:
        return True
    name = _text(host).strip("[]").split("%", 1)[0].rstrip(".").lower()
    if name in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


def _text(host: object) -> str:
    return bytes(host).decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else str(host)


def _refuse(host: object) -> None:
    raise OSError(MESSAGE.format(host=_text(host)))


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not event.startswith("socket."):
        return
    if event in _WITH_ADDRESS:
        sock, address = arguments[0], arguments[_WITH_ADDRESS[event]]
        # Only these two families leave a machine by address; Unix, netlink and the like stay on it.
        if getattr(sock, "family", None) not in (socket.AF_INET, socket.AF_INET6):
            return
        # A datagram without an address goes where the socket was connected to, which was checked then.
        if not isinstance(address, tuple) or not address:
            return
        if not is_loopback(address[0]):
            _refuse(address[0])
    elif event in _WITH_NAME or event == "socket.getnameinfo":
        host = arguments[0]
        if isinstance(host, tuple):
            host = host[0]
        # torch.distributed and multiprocessing look up the machine's own name, which stays on the machine.
        if not is_loopback(host) and _text(host) != socket.gethostname():
            _refuse(host)


def install() -> None:
    """Close this process's sockets except loopback and Unix sockets; a second call changes nothing.

    From then on, connecting to, sending to or looking up any other host raises `OSError` with the host's name.
    """
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)
