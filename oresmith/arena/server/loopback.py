"""The socket of a server on this machine: the arena's, and the embedded Hub's."""

from __future__ import annotations

import socket

from oresmith.errors import OresmithError

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket on this machine alone that already queues connections: nobody has to wait for the server to be up.

    Args:
        port: 0 takes any free one.

    Raises:
        OresmithError: the port is in use or no port.
    """
    # asyncio turns Nagle's delay (40 ms a call on a kept connection) off only where the protocol is named.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        todo = "stop what listens there, or choose another port (0 takes any free one)"
        got = getattr(error, "strerror", None) or str(error)
        raise OresmithError("the port cannot be used", where=f"{HOST}:{port}", got=got, todo=todo) from None
    return listening


def url_of(listening: socket.socket) -> str:
    """The base URL of what answers there."""
    return f"http://{HOST}:{listening.getsockname()[1]}"
