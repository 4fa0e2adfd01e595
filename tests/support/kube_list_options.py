"""What the double of the API server takes of the options of lists and watches."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.kube_refusal import Refused, invalid

_MATCH, _INITIAL = "resourceVersionMatch", "sendInitialEvents"
_NOT_OLDER = "NotOlderThan"
NO_PROGRESS = Refused(
    500,
    "InternalError",
    "a watch stream was requested by the client but the required storage feature "
    "RequestWatchProgress is disabled",
)
"""Of a server whose etcd cannot tell it how far it is."""


def check_list_options(kind: str, query: Mapping[str, str]) -> None:
    """Refuse a list that asks for what cannot be."""
    match, version = query.get(_MATCH, ""), query.get("resourceVersion", "")
    causes = []
    if match and not version:
        causes.append((_MATCH, _forbidden(f"{_MATCH} is forbidden unless a version is provided")))
    if match and query.get("continue"):
        causes.append((_MATCH, _forbidden(f"{_MATCH} is forbidden when continue is provided")))
    if match not in ("", "Exact", _NOT_OLDER):
        said = f'Unsupported value: "{match}": supported values: "Exact", "{_NOT_OLDER}", ""'
        causes.append((_MATCH, said))
    if match == "Exact" and version == "0":
        causes.append((_MATCH, _forbidden(f'{_MATCH} "exact" is forbidden for version "0"')))
    if query.get(_INITIAL):
        causes.append((_INITIAL, _forbidden(f"{_INITIAL} is forbidden for list")))
    _refuse(kind, causes)


def check_watch_options(kind: str, query: Mapping[str, str], streams_lists: bool) -> None:
    """Refuse a watch that asks for what cannot be."""
    match, initial = query.get(_MATCH, ""), query.get(_INITIAL, "")
    causes = []
    if initial and match != _NOT_OLDER:
        said = f"{_INITIAL} requires setting {_MATCH} to {_NOT_OLDER}"
        causes.append((_MATCH, _forbidden(said)))
    if initial and not streams_lists:
        said = f"{_INITIAL} is forbidden for watch unless the WatchList feature gate is enabled"
        causes.append((_INITIAL, _forbidden(said)))
    if match and not initial:
        said = f"{_MATCH} is forbidden for watch unless {_INITIAL} is provided"
        causes.append((_MATCH, _forbidden(said)))
    if match not in ("", _NOT_OLDER):
        said = f'Unsupported value: "{match}": supported values: "{_NOT_OLDER}"'
        causes.append((_MATCH, said))
    _refuse(kind, causes)


def _forbidden(words: str) -> str:
    return f"Forbidden: {words}"


def _refuse(kind: str, causes: list[tuple[str, str]]) -> None:
    if causes:
        raise invalid(kind, "", *causes)
