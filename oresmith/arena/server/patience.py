"""Connections that never bring a whole request are closed: 256 of them would otherwise keep everybody else out."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


def patient(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which waits for the head of a request for ever, with an end to it.

    Args:
        seconds: for the first request of a connection to come, and half of what any later one has at most; a request
            that is being read or answered is never disturbed.
    """

    class Patient(H11Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(cast(asyncio.Transport, transport))
            self.loop.call_later(seconds, self._look, None, True)

        def _look(self, before: RequestResponseCycle | None, waited: bool) -> None:
            if self.transport.is_closing():
                return
            now: RequestResponseCycle | None = self.cycle
            waits = now is None or now.response_complete
            if waits and waited and now is before:
                self.transport.close()
            else:
                self.loop.call_later(seconds, self._look, now, waits)

    return Patient
