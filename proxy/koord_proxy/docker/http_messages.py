"""Boundaries of HTTP/1.1 messages in a stream of bytes (RFC 9112 §6.3).

llhttp reports that a head or a chunked body has ended, but not at which byte. Either
ends with an empty line, so never elsewhere than behind a CRLF CRLF. Hence:

1. The parser is fed as bytes come, but with no piece that goes on behind a CRLF CRLF.
2. When it reports an end, that is the end of the piece it was fed.

A body whose length was announced is counted and not parsed.
"""

from __future__ import annotations

import json
from typing import Protocol

from httptools import (
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
    HttpResponseParser,
)

MAX_HEAD = 1 << 18
"""Bytes of a head."""

END = b"\r\n\r\n"
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
"""A request head that brings a parser to the beginning of a chunked body."""

READ = frozenset((b"connection", b"content-length", b"expect", b"transfer-encoding"))
"""The fields of a head that matter here."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpMessageError(Exception):
    """The bytes are not valid HTTP/1; the message is one line."""


class BodyCopy:
    """A copy of what a body contains, up to a size; beyond, nothing of it is kept."""

    __slots__ = ("_limit", "content", "whole")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.content = bytearray()
        self.whole = True

    def add(self, data: bytes) -> None:
        if len(self.content) + len(data) > self._limit:
            self.whole = False
            self.content.clear()
        elif self.whole:
            self.content += data


class Body(Protocol):
    """The bytes behind a head that belong to its message.

    ``size`` is what is known of its bytes on the wire; ``copy`` gets what it contains.
    """

    size: int
    copy: BodyCopy | None

    @property
    def complete(self) -> bool:
        """Its last byte was taken."""

    def take(self, data: bytes, start: int) -> int:
        """Take what belongs to it; returns where that ends."""


class CountedBody:
    """A body of a length that is known beforehand, perhaps none."""

    __slots__ = ("_left", "copy", "size")

    def __init__(self, size: int = 0) -> None:
        self.size = self._left = size
        self.copy: BodyCopy | None = None

    @property
    def complete(self) -> bool:
        return not self._left

    def take(self, data: bytes, start: int) -> int:
        end = min(start + self._left, len(data))
        self._left -= end - start
        if self.copy is not None:
            self.copy.add(data[start:end])
        return end


class ChunkedBody:
    """A body in chunks, with the trailers behind them."""

    __slots__ = ("_events", "_parsed", "copy", "size")

    def __init__(self) -> None:
        self.size = 0
        self.copy: BodyCopy | None = None
        self._events = _ChunkEvents()
        parser = HttpRequestParser(self._events)
        parser.feed_data(CHUNKED_HEAD)
        self._parsed = _Parsed(parser, self._events)

    @property
    def complete(self) -> bool:
        return self._events.complete

    def take(self, data: bytes, start: int) -> int:
        self._events.copy = self.copy
        end = self._parsed.take(data, start)
        self.size += end - start
        return end


class HttpMessage:
    """One message in one direction; ``body`` is known once the head is complete."""

    def __init__(self, parser: type[HttpRequestParser | HttpResponseParser]) -> None:
        self.body: Body | None = None
        self.head_size = 0
        self._events = _HeadEvents()
        self._parser = parser(self._events)
        self._parsed = _Parsed(self._parser, self._events)

    @property
    def complete(self) -> bool:
        """Its last byte was taken."""
        return self.body is not None and self.body.complete

    def take(self, data: bytes, start: int) -> int:
        """Take what belongs to the head or, once it is complete, to the body.

        Returns where that ends.

        Raises:
            HttpMessageError: the bytes are not valid HTTP/1.
        """
        if self.body is not None:
            return self.body.take(data, start)
        end = self._parsed.take(data, start)
        self.head_size += end - start
        if self.head_size > MAX_HEAD:
            raise HttpMessageError(f"a head of more than {MAX_HEAD} bytes")
        if self._events.complete:
            self.body = self._announced()
        return end

    def _announced(self) -> Body:
        """The body that the head announces."""
        version, fields = self._parser.get_http_version(), self._events.fields
        if not version.startswith("1."):
            raise HttpMessageError(f"HTTP/{version}")
        coding = fields.get(b"transfer-encoding")
        if coding is None:
            return CountedBody(int(fields.get(b"content-length", 0)))
        if version == "1.0":
            raise HttpMessageError("Transfer-Encoding in HTTP/1.0")
        return ChunkedBody()


class EngineRequest(HttpMessage):
    """A request; what its head says is there once ``body`` is."""

    _parser: HttpRequestParser

    def __init__(self) -> None:
        super().__init__(HttpRequestParser)

    @property
    def method(self) -> str:
        return self._parser.get_method().decode("ascii")

    @property
    def target(self) -> str:
        """The request line's target, verbatim."""
        return self._events.target.decode("latin-1")

    @property
    def last(self) -> bool:
        """The client will ask no more on this connection."""
        options = self._events.fields.get(b"connection", b"").lower().split(b",")
        old = self._parser.get_http_version() == "1.0"
        return old or b"close" in map(bytes.strip, options)

    @property
    def expects_continue(self) -> bool:
        """The client waits for 100 Continue before it sends the body."""
        old = self._parser.get_http_version() == "1.0"
        return not old and self._events.fields.get(b"expect", b"").lower() == b"100-continue"


class EngineResponse(HttpMessage):
    """A response; ``copy`` gets what its body contains."""

    _parser: HttpResponseParser

    def __init__(self, method: str, copy: BodyCopy | None = None) -> None:
        """``method`` is that of the request."""
        super().__init__(HttpResponseParser)
        self.endless = False
        """True if the rest of the connection belongs to this message: a body, or no HTTP at all."""
        self._method = method
        self._copy = copy

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    @property
    def interim(self) -> bool:
        """Another response follows this one."""
        return self.status < 200 and not self.endless

    def _announced(self) -> Body:
        status, fields = self.status, self._events.fields
        body = super()._announced()
        connected = self._method == "CONNECT" and 200 <= status < 300
        if status == 101 or connected:
            self.endless = True
        elif self._method == "HEAD" or status < 200 or status in (204, 304):
            return CountedBody()
        else:
            coding = fields.get(b"transfer-encoding")
            counted = coding is None and b"content-length" in fields
            self.endless = not (counted or (coding is not None and _ends_chunked(coding)))
        body.copy = self._copy
        return body


def without_expect(head: bytes) -> bytes:
    """The head of a request without ``Expect``: its client no longer waits."""
    return _without((b"expect",), head)


def with_length(head: bytes, length: int) -> bytes:
    """The head of a request that gets another body."""
    fields = (b"content-length", b"transfer-encoding", b"trailer", b"expect")
    return _without(fields, head).removesuffix(b"\r\n") + b"Content-Length: %d\r\n\r\n" % length


def _without(names: tuple[bytes, ...], head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if line.partition(b":")[0].lower() not in names)


def error_response(status: str, message: str, method: str, *, last: bool) -> bytes:
    """An error as the engine's clients read it; ``method`` is that of the request.

    ``last`` says that the connection ends behind it.
    """
    body = json.dumps({"message": message}).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    if last:
        lines.append("Connection: close")
    head = "\r\n".join((*lines, "", "")).encode()
    return head if method == "HEAD" else head + body


class _ParserEvents(Protocol):
    complete: bool


class _HeadEvents:
    """Receives a head from llhttp."""

    __slots__ = ("complete", "fields", "target")

    def __init__(self) -> None:
        self.complete = False
        self.target = b""
        self.fields: dict[bytes, bytes] = {}

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in READ:
            value = value.strip()
            before = self.fields.get(name)
            self.fields[name] = value if before is None else before + b"," + value

    def on_headers_complete(self) -> None:
        self.complete = True


class _ChunkEvents:
    """Receives a chunked body from llhttp."""

    __slots__ = ("complete", "copy")

    def __init__(self) -> None:
        self.complete = False
        self.copy: BodyCopy | None = None

    def on_body(self, data: bytes) -> None:
        if self.copy is not None:
            self.copy.add(data)

    def on_message_complete(self) -> None:
        self.complete = True


class _Parsed:
    """A part of a message that llhttp reads: the algorithm above."""

    __slots__ = ("_events", "_parser", "_tail")

    def __init__(
        self, parser: HttpRequestParser | HttpResponseParser, events: _ParserEvents
    ) -> None:
        self._parser = parser
        self._events = events
        self._tail = b""
        """The last bytes behind a cut: what follows may make a CRLF CRLF of them."""

    def take(self, data: bytes, start: int) -> int:
        """Feed bytes up to the part's end; returns where that is.

        Raises:
            HttpMessageError: the bytes are not valid HTTP/1.
        """
        while start < len(data) and not self._events.complete:
            end = self._cut(data, start)
            try:
                self._parser.feed_data(data[start:end])
            except HttpParserUpgrade:
                # A request only asks for it, and a response's status shows it.
                pass
            except HttpParserError as error:
                raise HttpMessageError(str(error)) from error
            start = end
        return start

    def _cut(self, data: bytes, start: int) -> int:
        """Behind the next CRLF CRLF, or the end of the data."""
        tail, self._tail = self._tail, b""
        if tail:
            found = (tail + data[start : start + 3]).find(END)
            if found >= 0:
                return start + found + len(END) - len(tail)
        found = data.find(END, start)
        if found >= 0:
            return found + len(END)
        self._tail = (tail + data[max(start, len(data) - 3) :])[-3:]
        return len(data)


def _ends_chunked(coding: bytes) -> bool:
    return coding.rpartition(b",")[2].strip().lower() == b"chunked"
