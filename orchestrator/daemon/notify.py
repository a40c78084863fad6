"""Telling a supervisor where the daemon stands, by systemd's readiness protocol (`sd_notify(3)`).

A supervisor that wants to know puts the address of a datagram socket into `NOTIFY_SOCKET`. Without one nothing is sent.
"""

import os
import socket
from collections.abc import Mapping


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Sends `READY=1`, `STOPPING=1` or the like; False where nobody wants to know or nobody listens."""
    address = environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            connection.sendto(state.encode(), address)
    except OSError:
        return False
    return True
