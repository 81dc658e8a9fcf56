"""Where large files come and go: a server of its own beside the API, as on the Hub.

It blocks in threads: a file is read from the socket, hashed and written in one place, at half the cost of an event
loop. What may be done here is said by the signature of the address; a token has no business here.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from oresmith.release.hub import names
from oresmith.release.hub.git import GitError
from oresmith.release.hub.hook import Hook, Instead
from oresmith.release.hub.hub import GUARDED, IMAGES, Hub, span
from oresmith.release.hub.log import RequestLog
from oresmith.release.hub.refusal import Refusal
from oresmith.release.hub.repository import Repository

logger = logging.getLogger(__name__)
_ADDRESS = re.compile(
    r"/objects/(models|datasets)/([^/]+)/([^/]+)/([0-9a-f]{64})(?:/parts/([0-9a-f]{16})/([1-9][0-9]{0,4}))?", re.ASCII
)
_CONNECTIONS = 256
_IDLE_S = 60
_DRAINED = 8 << 20


@contextmanager
def storing(listening: socket.socket, hub: Hub, log: RequestLog, hook: Hook) -> Iterator[None]:
    """Serve large files on a socket for as long as the context lasts."""
    server = _Server(listening, hub, log, hook)
    thread = threading.Thread(target=server.serve_forever, args=[0.05], name="hub-storage", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.part()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, hub: Hub, log: RequestLog, hook: Hook) -> None:
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.hub, self.log, self.hook = hub, log, hook
        self._open: set[socket.socket] = set()
        self._places = threading.BoundedSemaphore(_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection where there is a place for it."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Give its place away."""
        if request in self._open:
            self._open.discard(request)
            self._places.release()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke off is the client's affair; all else is a fault of the server."""
        if not isinstance(sys.exception(), OSError):
            logger.exception("the storage server failed")

    def part(self) -> None:
        """End every connection: their threads wait for requests that nobody will answer."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the request log has it."""

    def version_string(self) -> str:
        """No version of anything."""
        return "oresmith"

    def do_PUT(self) -> None:
        """Take a file, or a part of one."""
        self._exchange(self._put)

    def do_GET(self) -> None:
        """Give a file."""
        self._exchange(self._get)

    do_HEAD = do_GET  # noqa: N815 (of the base class)

    def _exchange(self, work: Any) -> None:
        """Do the work within hook, log and refusals."""
        self._began, self._noted, self._unread = time.time(), False, self._length()
        path, hook = self.path.partition("?")[0], self.server.hook
        try:
            if instead := hook.before(self.command, path):
                self._instead(instead)
                return
            try:
                work(path)
            except Refusal as refusal:
                self._answer(refusal.status, {}, json.dumps({"error": refusal.message}).encode())
            except (OSError, GitError):
                if not self._noted:
                    self._answer(500, {}, b'{"error": "the Hub failed"}')
                self.close_connection = True
        finally:
            self._note(0)

    def _note(self, status: int) -> None:
        """Note the request, once: before the answer goes out, so that whoever has the answer finds it in the log."""
        if not self._noted:
            self._noted = True
            length, path = self.headers.get("content-length", "0"), self.path
            self.server.log.note("storage", self._began, self.command, path=path, status=status, length=length)

    def _put(self, path: str) -> None:
        repository, oid, upload, number = self._addressed(path)
        if "content-length" not in self.headers:
            raise Refusal(411, "MissingContentLength")
        size = self._number("size")
        hub, uid = self.server.hub, repository.settings.uid
        if upload:
            hub.require_signed(self._query("signature"), "part", uid, upload, number, size)
        else:
            hub.require_signed(self._query("signature"), "put", uid, oid, size)
        if self._unread != size:
            raise Refusal(400, "IncompleteBody: another length than announced")
        etag = oid
        if upload:
            etag = repository.objects.receive_part(self._read, upload, number, size)
        else:
            repository.objects.receive(self._read, oid, size)
        self._answer(200, {"ETag": f'"{etag}"'})

    def _get(self, path: str) -> None:
        repository, oid, upload, _ = self._addressed(path)
        self.server.hub.require_signed(self._query("signature"), "get", repository.settings.uid, oid)
        size = None if upload else repository.objects.size(oid)
        if size is None:
            raise Refusal(404, "No such object")
        start, end = span(self.headers.get("range"), size)
        media = IMAGES.get(self._query("media"), "application/octet-stream")
        headers = {"ETag": f'"{oid}"', "Accept-Ranges": "bytes", "Content-Type": media, **GUARDED}
        if (start, end) != (0, size):
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        headers["Content-Length"] = str(end - start)
        with repository.objects.path(oid).open("rb") as file:
            given = self._answer(206 if "Content-Range" in headers else 200, headers)
            if given and self.command == "GET" and end > start:
                self.connection.sendfile(file, start, end - start)

    def _addressed(self, path: str) -> tuple[Repository, str, str, int]:
        """Of an address: the repository, the oid, and upload and number of a part ("" and 0 for a whole file)."""
        match = _ADDRESS.fullmatch(path)
        if match is None:
            raise Refusal(404, "No such address")
        if "authorization" in self.headers:
            raise Refusal(400, "A token came to the storage server, where only signed addresses are known")
        plural, owner, name, oid, upload, number = match.groups()
        repository = self.server.hub.addressed(names.kind_of(plural), owner, name)
        return repository, oid, upload or "", int(number or 0)

    def _read(self, buffer: memoryview) -> int:
        count = self.rfile.readinto(buffer[: self._unread]) if self._unread else 0
        self._unread -= count
        return int(count)

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> bool:
        """Send the answer; False where the hook gave another one."""
        path = self.path.partition("?")[0]
        self._drain()
        if instead := self.server.hook.after(self.command, path):
            self._instead(instead)
            return False
        self._note(status)
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")
        return True

    def _instead(self, instead: Instead) -> None:
        self._drain()
        self._note(instead.status)
        self.close_connection = True
        if instead.status:
            self.send_response(instead.status)
            for name, value in {**instead.headers, "Content-Length": "0", "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()

    def _drain(self) -> None:
        """Read what is left of a short body: a connection closed on unread bytes takes the answer with it."""
        buffer, left = memoryview(bytearray(1 << 16)), _DRAINED
        with suppress(OSError):
            while self._unread and left > 0 and (count := self._read(buffer)):
                left -= count
        self.close_connection = self.close_connection or self._unread > 0

    def _length(self) -> int:
        """Bytes of the body; where nobody knows, what follows is no request."""
        text = self.headers.get("content-length", "0")
        known = re.fullmatch(r"[0-9]{1,16}", text) and "transfer-encoding" not in self.headers
        self.close_connection = self.close_connection or not known
        return int(text) if known else 0

    def _query(self, name: str) -> str:
        try:
            return parse_qs(self.path.partition("?")[2], max_num_fields=20).get(name, [""])[0]
        except ValueError:
            raise Refusal(400, "Too many parameters") from None

    def _number(self, name: str) -> int:
        text = self._query(name)
        if not re.fullmatch(r"[0-9]{1,16}", text):
            raise Refusal(403, "SignatureDoesNotMatch")
        return int(text)
