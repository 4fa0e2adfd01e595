"""The answer to a request for a page: who is served what. No IO of its own."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from koord_service.addresses import is_loopback
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log
from koord_service.page_paths import find_page
from koord_service.pages import MakePage, Query, QueryError, StatusPage, Update

if TYPE_CHECKING:
    import ssl

_PORT = re.compile(r":[0-9]*$")
_LOG = get_log("status")
_LOGGED = LogDeduplicator()


@dataclass(frozen=True, slots=True)
class Access:
    """Access to pages: for whom, and how.

    All of it is about those who ask from another machine: over loopback and unix sockets
    everybody gets every page, with or without TLS. ``public`` are the pages for the others,
    ``None``: all. ``tls`` is asked at each connection for what to serve it with. ``admit`` gets
    a request's header "Authorization" and its path, and answers with a refusal, or with None.
    """

    public: Mapping[str, MakePage] | None = None
    tls: Callable[[], ssl.SSLContext] | None = None
    admit: Callable[[str, str], StatusPage | None] | None = None


EVERYTHING = Access()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request. ``target`` is its path and query, ``peer`` its sender's address.

    The peer is "" over a unix socket; ``host`` is the header, ``None`` without one.
    """

    target: str
    peer: str
    host: str | None = None
    authorization: str = ""
    accept: str = ""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def is_from_here(self) -> bool:
        """Return whether it comes from this machine, and under no other name.

        A browser may ask over TCP for a page of elsewhere whose name now leads here.
        """
        return is_loopback(self.peer) and self.names_this_machine()

    def names_this_machine(self) -> bool:
        if self.host is None:
            return True
        return is_loopback(self.host.rpartition(":")[0] if _PORT.search(self.host) else self.host)


class PageAnswers:
    """Answers from ``pages`` and ``updates``; with ``network`` also to clients elsewhere."""

    def __init__(
        self,
        pages: Mapping[str, MakePage],
        updates: Mapping[str, Update],
        network: bool,
        access: Access,
    ) -> None:
        self._pages = pages
        self._updates = updates
        self._network = network
        self._access = access

    def is_bounded(self, peer: str) -> bool:
        """Return whether a client may have only its share of connections."""
        return self._network and not is_loopback(peer)

    def get(self, request: PageRequest) -> StatusPage:
        """Answer GET and HEAD."""
        access, elsewhere = self._access, self.is_bounded(request.peer)
        public = access.public if elsewhere else None
        if public is None and not self._may_see_all(request):
            return error_page(403, "asked under a name; ask 127.0.0.1, [::1] or localhost")
        if elsewhere and access.admit is not None:
            refusal = access.admit(request.authorization, request.path)
            if refusal is not None:
                return refusal
        return _page(self._pages if public is None else public, request)

    def put(self, request: PageRequest, body: Callable[[], str]) -> StatusPage | None:
        """Answer PUT; ``None`` where there is nothing to change."""
        update = self._updates.get(request.path)
        if update is None:
            return None
        if not request.is_from_here():
            return error_page(403, "changed from this machine alone; ask 127.0.0.1 or localhost")
        return _made(request.path, lambda: update(body()))

    def _may_see_all(self, request: PageRequest) -> bool:
        everybody = self._network and self._access.public is None
        return everybody or not request.peer or request.names_this_machine()


def _page(pages: Mapping[str, MakePage], request: PageRequest) -> StatusPage:
    try:
        make, parts = find_page(pages, request.path)
    except KeyError:
        known = "".join(f"  {name}\n" for name in sorted(pages))
        return StatusPage(f"404 no such page; there are:\n{known}".encode(), status=404)

    def page() -> StatusPage:
        asked = Query.parse(request.query, request.accept)
        return make(replace(asked, values={**asked.values, **parts}))

    return _made(request.path, page)


def _made(path: str, make: Callable[[], StatusPage]) -> StatusPage:
    """The page, or why there is none."""
    try:
        return make()
    except QueryError as error:
        return error_page(error.status, f"{path}: {error}")
    except TimeoutError as error:  # the program is starting, stopping or busy: not a defect
        return error_page(500, f"{path}: TimeoutError: {error}")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        where = "".join(traceback.format_exception(error))
        if _LOGGED.is_new(path, where):  # a browser asks every few seconds
            _LOG.error("page failed", page=path, error=reason, traceback=where)
        return error_page(500, f"{path}: {reason}")


def error_page(status: int, message: str) -> StatusPage:
    """One line of text, whatever was in the message."""
    line = " ".join(message.split())
    shown = "".join(letter if letter.isprintable() else "�" for letter in line)
    return StatusPage(f"{status} {shown}\n".encode(errors="replace"), status=status)
