"""Parsing of a request's HTTP method and target, as docker's router does it.

The router decodes a path before it looks at it, and redirects from one that is not in
its simplest form, which is then as good as none.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

CREATE, START, UPDATE, STOP, REMOVE = "create", "start", "update", "stop", "remove"

# Docker's own patterns: what stands for an id or a name may contain slashes.
_ROUTES = {
    CREATE: re.compile("POST /containers/(create)"),
    START: re.compile("POST /containers/(.+)/start"),
    UPDATE: re.compile("POST /containers/(.+)/update"),
    STOP: re.compile("POST /containers/(.+)/stop"),
    REMOVE: re.compile("DELETE /containers/(.+)"),
}
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*(?=/)")
"""Scheme and host before the path, where a client names the server as well."""
_VERSION = re.compile(r"/v[0-9.]+(?=/)")
_UNCLEAN = re.compile(r"/(?:\.{0,2}(?=/)|\.{1,2}\Z)")
"""A segment that is empty, or a dot or two; the empty one behind a last slash does not count."""

SHORT = 256
"""Characters of a target without its query that are looked at once."""

_OTHER = "other"
_VERBS = re.compile("DELETE|GET|HEAD|OPTIONS|POST|PUT")
_COLLECTIONS = re.compile(
    "_ping|auth|build|commit|configs|containers|debug|distribution|events|exec|grpc|images|info|"
    "networks|nodes|plugins|secrets|services|session|swarm|system|tasks|version|volumes"
)
_OF_ONE = frozenset({"containers", "exec"})
"""Collections of which is counted what is done to one member."""
_OF_ALL = frozenset({"create", "json", "prune"})
_ACTIONS = re.compile(
    "archive|attach|changes|checkpoints|exec|export|json|kill|logs|pause|rename|resize|restart|"
    "start|stats|stop|top|unpause|update|wait|ws"
)


class DockerTarget(NamedTuple):
    """Call and object of a request.

    ``call`` is empty for one that is merely relayed; ``reference`` is the id or name of
    the container that a call is about; ``label`` is the method and the path without
    version, query and ids: few, whatever is asked for.
    """

    call: str
    reference: str
    label: str


def look(target: str) -> DockerTarget:
    """Look at an HTTP method and a request target, ``POST /v1.41/containers/create?name=x``."""
    route = target.partition("?")[0]
    # What is kept must be small, whatever is asked for.
    return _look(route) if len(route) <= SHORT else _look.__wrapped__(route)


@functools.lru_cache(maxsize=1024)
def _look(target: str) -> DockerTarget:
    method, path = _routed(target)
    label = _label(method, path)
    for call, route in _ROUTES.items():
        found = route.fullmatch(f"{method} {path}")
        if found is not None:
            return DockerTarget(call, found[1], label)
    return DockerTarget("", "", label)


def name_asked_for(target: str) -> str:
    """The name that a create asks for: the first there is counts, even an empty one."""
    query = parse_qs(target.partition("?")[2], keep_blank_values=True)
    return query.get("name", [""])[0]


def _routed(target: str) -> tuple[str, str]:
    """The HTTP method, and the path without the version."""
    method, _, rest = target.partition(" ")
    raw = rest.partition("?")[0]
    origin = _ORIGIN.match(raw)
    path = unquote(raw[origin.end() :] if origin else raw)
    if _UNCLEAN.search(path):
        return method, ""
    version = _VERSION.match(path)
    return method, path[version.end() :] if version else path


def _label(method: str, path: str) -> str:
    collection, _, rest = path[1:].partition("/")
    if not (_VERBS.fullmatch(method) and _COLLECTIONS.fullmatch(collection)):
        return _OTHER
    where = f"{method} /{collection}"
    if collection not in _OF_ONE or not rest:
        return where
    if rest in _OF_ALL:
        return f"{where}/{rest}"
    _, slash, action = rest.rpartition("/")
    if slash and _ACTIONS.fullmatch(action):
        return f"{where}/{{id}}/{action}"
    return f"{where}/{{id}}"
