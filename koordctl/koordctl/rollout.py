"""``koordctl rollout``: rollouts of entries of ``pykoord-config``; pause, resume, undo."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from koord_model.times import rfc3339

from koordctl import cluster_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean, count
from koordctl.suggestions import near

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

KEY = "pykoord-config"
_OBSERVED, _ORDERS = "observed", "orders"
_NODES = "nodeStrategies"
_REACH = ("name", "nodeSelector", "nodeNames", "priority", "canary", "until", "paused", "bounds")
"""Fields of an entry that are not its content: undo leaves them."""
_HEADER = ("ENTRY", "VERSION", "CANARY", "NODES", "APPLIED", "FAILED", "STATE")
_MEASURES = ("MEASURE", "WITH", "WITHOUT", "DIFFERENCE", "95 % INTERVAL", "PAIRS", "HOURS", "UNIT")


class Rollouts(NamedTuple):
    """Both ConfigMaps: the configuration with its entries by name, and the state."""

    config: Json
    document: Json
    entries: Mapping[str, Json]
    observed: Mapping[str, Json]
    orders: Mapping[str, Json]
    state: Json


def add_arguments(parser: argparse.ArgumentParser, *, names: str) -> None:
    """The flags of all; ``names`` is "?" if the entry may be left out, "" if it may not."""
    words = "the entry's name" + (" (default: all)" if names else "")
    parser.add_argument("entry", nargs=names or None, default="", metavar="ENTRY", help=words)
    parser.add_argument(
        *("-n", "--namespace"),
        default="koordinator-system",
        metavar="NAMESPACE",
        help="namespace of the ConfigMap (default: %(default)s)",
    )
    parser.add_argument(
        "--config-map",
        default="slo-controller-config",
        metavar="NAME",
        help="the manager's --slo-config-name (default: %(default)s)",
    )
    cluster_client.add_arguments(parser)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the option for a reason."""
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for people")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add the option for a version to go back to."""
    parser.add_argument(
        "--to", default="", metavar="VERSION", help="go back to it (default: the one before)"
    )


def run_status(arguments: argparse.Namespace) -> CommandOutput:
    """Each entry in a line. Raises AskError."""
    found = _ask(arguments)
    names = [_known(found, arguments.entry)] if arguments.entry else sorted(found.entries)
    document = {name: _document(found, name) for name in names}
    return CommandOutput(document, status_lines(found, names))


def run_history(arguments: argparse.Namespace) -> CommandOutput:
    """The versions of an entry, newest first. Raises AskError."""
    found = _ask(arguments)
    name = _known(found, arguments.entry)
    history = list(reversed(found.observed.get(name, {}).get("history") or ()))
    rows = [
        (
            *(clean(str(version.get(key) or UNKNOWN)) for key in ("version", "at", "by")),
            clean(json.dumps(version.get("content"), ensure_ascii=False)),
        )
        for version in history
    ]
    shown = table([("VERSION", "SINCE", "BY", "CONTENT"), *rows], words=range(4))
    return CommandOutput(history, [shown])


def run_report(arguments: argparse.Namespace) -> CommandOutput:
    """Gains and costs of an entry. Raises AskError."""
    found = _ask(arguments)
    name = _known(found, arguments.entry)
    report = found.observed.get(name, {}).get("report") or {}
    return CommandOutput(report, report_lines(name, found.entries[name], report))


def run_pause(arguments: argparse.Namespace) -> CommandOutput:
    """Have an entry's nodes keep what they have. Raises AskError."""
    order = {"paused": True, "why": arguments.reason}

    async def act(api: Client, found: Rollouts, name: str) -> str:
        await _order(api, found, name, order)
        return f'Entry "{name}" is paused: its nodes keep what they have.'

    return _act(arguments, act)


def run_resume(arguments: argparse.Namespace) -> CommandOutput:
    """End a pause; the version is not halted again. Raises AskError."""

    async def act(api: Client, found: Rollouts, name: str) -> str:
        if found.entries[name].get("paused"):
            raise AskError(
                f'entry "{name}" is paused in ConfigMap {_full_name(found.config)}; '
                'remove "paused" there'
            )
        if not _pause(found, name):
            raise AskError(f'entry "{name}" is not paused')
        version = _version(found, name)
        await _order(api, found, name, {"accepted": version})
        return f'Entry "{name}" goes on; version {version} is not judged any more.'

    return _act(arguments, act)


def run_undo(arguments: argparse.Namespace) -> CommandOutput:
    """Give an entry the content that it had before. Raises AskError."""
    return _act(arguments, lambda api, found, name: _undo(api, found, name, arguments.to))


async def _undo(api: Client, found: Rollouts, name: str, to: str) -> str:
    version = _previous(found, name, to)
    entries = [
        _with_content(entry, version["content"]) if entry.get("name") == name else entry
        for entry in found.document[_NODES]
    ]
    text = json.dumps({**found.document, _NODES: entries}, indent=2, ensure_ascii=False)
    await _write(api, found.config, KEY, text)
    line = (
        f'Entry "{name}" has the content of version {version["version"]} again. If the ConfigMap '
        "is deployed from a repository, change it there too."
    )
    if found.orders.get(name, {}).get("paused") or found.entries[name].get("paused"):
        line += " The entry is paused: nothing changes on its nodes before it is resumed."
    return line


def _previous(found: Rollouts, name: str, to: str) -> Json:
    """The version to go back to. Raises AskError."""
    history = found.observed.get(name, {}).get("history") or ()
    if to:
        version = next((past for past in reversed(history) if past["version"] == to), None)
        if version is None:
            hint = near(to, [str(past["version"]) for past in history])
            raise AskError(f'entry "{name}" has no version "{to}"{hint}')
    else:
        now = _content(found.entries[name])
        others = [past for past in history if past.get("content") not in (None, now)]
        version = others[-1] if others else None
        if version is None:
            raise AskError(
                f'entry "{name}" has no earlier content; take it out of {KEY} to end it, '
                "and leave {} there if no other is left"
            )
    if version.get("content") is None:
        raise AskError(f"the content of version {version['version']} is too old or too large")
    known: Json = version
    return known


def status_lines(found: Rollouts, names: Sequence[str]) -> Iterator[Block]:
    """A table, then what failed nodes say."""
    if not names:
        yield f"No entry of {KEY} in ConfigMap {_full_name(found.config)} has a name."
    else:
        yield table([_HEADER, *(_row(found, name) for name in names)], words=(0, 1, 2, 6))
    for name in names:
        nodes = found.observed.get(name, {}).get("nodes") or {}
        if nodes.get("failed"):
            failed = f"{count(nodes['failed'], 'node')} cannot apply all of it"
            yield f"{clean(name)}: {failed}, for example {clean(str(nodes.get('problem', '')))}"
    nameless = sum(not entry.get("name") for entry in found.document.get(_NODES) or ())
    if nameless:
        yield f"Without a name, so not followed: {nameless}."


def report_lines(name: str, entry: Json, report: Json) -> Iterator[Block]:
    """The verdict, and each measure with its interval."""
    if not report:
        why = "no data yet" if entry.get("canary") else "it has no canary to compare"
        yield f"{clean(name)}: not enough data: {why}"
        return
    yield f"{clean(name)}: {clean(str(report.get('verdict', '')))}"
    measures: Mapping[str, Json] = report.get("measures") or {}
    if not measures:
        return
    rows = []
    for measure, found in measures.items():
        ends = found.get("interval95")
        interval = f"{ends[0]:g} to {ends[1]:g}" if ends else UNKNOWN
        amounts = (f"{found[key]:g}" for key in ("with", "without", "difference"))
        sizes = str(found["pairs"]), f"{found['hours']:g}"
        rows.append((clean(measure), *amounts, interval, *sizes, clean(found["unit"])))
    yield ""
    yield table([_MEASURES, *rows], words=(0, 4, 7))
    yield "Means of canaries and of nodes like them in the same hours; interval by bootstrap."


def _row(found: Rollouts, name: str) -> tuple[str, ...]:
    followed = found.observed.get(name, {})
    nodes = followed.get("nodes") or {}
    numbers = (str(nodes.get(key, 0)) for key in ("wanted", "echoed", "failed"))
    entry = found.entries[name]
    state = _pause(found, name) or "in force"
    if entry.get("until"):
        state += f"; until {entry['until']}"
    canary = str(entry.get("canary", UNKNOWN))
    return clean(name), _version(found, name) or UNKNOWN, clean(canary), *numbers, clean(state)


def _pause(found: Rollouts, name: str) -> str:
    """The pause of an entry: by whom, since when and why; "" if there is none."""
    if found.entries[name].get("paused"):
        return f"paused in ConfigMap {found.config['metadata']['name']}"
    order, pause = found.orders.get(name, {}), found.observed.get(name, {}).get("paused") or {}
    if order.get("paused"):
        pause = order
    elif pause and order.get("accepted") == pause.get("version"):
        pause = {}
    if not pause:
        return ""
    why = f": {pause['why']}" if pause.get("why") else ""
    return f"paused by {pause.get('by') or 'somebody'} at {pause.get('at')}{why}"


def _version(found: Rollouts, name: str) -> str:
    history = found.observed.get(name, {}).get("history") or ()
    return clean(str(history[-1]["version"])) if history else ""


def _document(found: Rollouts, name: str) -> Json:
    followed = found.observed.get(name, {})
    return {
        "version": _version(found, name),
        "canary": found.entries[name].get("canary"),
        "until": found.entries[name].get("until"),
        "nodes": followed.get("nodes") or {},
        "paused": _pause(found, name),
        "order": found.orders.get(name),
    }


def _content(entry: Json) -> Json:
    return {key: value for key, value in entry.items() if key not in _REACH}


def _with_content(entry: Json, content: Json) -> Json:
    return {**{key: value for key, value in entry.items() if key in _REACH}, **content}


async def _order(api: Client, found: Rollouts, name: str, order: Json) -> None:
    """Write what people want of an entry; orders for entries that are gone go, too."""
    given = {**order, "at": rfc3339(time.time()), "by": os.environ.get("USER", "")}
    kept = {key: value for key, value in found.orders.items() if key in found.entries}
    text = json.dumps({**kept, name: {key: value for key, value in given.items() if value}})
    await _write(api, found.state, _ORDERS, text)


async def _write(api: Client, config_map: Json, key: str, text: str) -> None:
    """Set a key of a ConfigMap as it was read. Raises ConflictError if it has changed since."""
    from koord_kube.protocol.resources import CONFIG_MAPS

    meta = config_map["metadata"]
    name, version = meta["name"], meta["resourceVersion"]
    await api.patch(CONFIG_MAPS, name, {"data": {key: text}}, meta["namespace"], version=version)


_Action = Callable[["Client", Rollouts, str], Any]


def _act(arguments: argparse.Namespace, act: _Action) -> CommandOutput:
    """Do something to an entry; once more if somebody else has written meanwhile."""
    from koord_kube.protocol.api import ConflictError

    async def question(api: Client) -> tuple[str, str]:
        for last in (False, False, True):
            found = await _read(api, arguments)
            name = _known(found, arguments.entry)
            try:
                return name, await act(api, found, name)
            except ConflictError:
                if last:
                    raise
        raise AssertionError

    name, line = cluster_client.ask_cluster(arguments, question)
    return CommandOutput({"entry": name, "message": line}, [clean(line)])


def _ask(arguments: argparse.Namespace) -> Rollouts:
    return cluster_client.ask_cluster(arguments, lambda api: _read(api, arguments))


async def _read(api: Client, arguments: argparse.Namespace) -> Rollouts:
    from koord_kube.protocol.api import NotFoundError
    from koord_kube.protocol.resources import CONFIG_MAPS

    config = await api.get(CONFIG_MAPS, arguments.config_map, arguments.namespace)
    try:
        name = f"{arguments.config_map}-rollout"
        state = await api.get(CONFIG_MAPS, name, arguments.namespace)
    except NotFoundError:
        raise AskError(
            f"ConfigMap {arguments.namespace}/{arguments.config_map}-rollout does not exist; "
            "koord-manager keeps it with --feature-gates=RolloutGuard=true"
        ) from None
    return rollouts(config, state)


def rollouts(config: Json, state: Json) -> Rollouts:
    """Both ConfigMaps, read. Raises AskError."""
    document = _decoded(config, KEY)
    entries = {
        str(entry["name"]): entry for entry in document.get(_NODES) or () if entry.get("name")
    }
    return Rollouts(
        config, document, entries, _decoded(state, _OBSERVED), _decoded(state, _ORDERS), state
    )


def _decoded(config_map: Json, key: str) -> dict[str, Any]:
    try:
        found = json.loads((config_map.get("data") or {}).get(key) or "{}")
        if isinstance(found, dict):
            return found
        reason = "expected an object"
    except ValueError as error:
        reason = str(error)
    raise AskError(f"ConfigMap {_full_name(config_map)}: {key} cannot be read: {reason}")


def _known(found: Rollouts, name: str) -> str:
    if name not in found.entries:
        raise AskError(
            f'{KEY} in ConfigMap {_full_name(found.config)} has no entry "{clean(name)}"'
            f"{near(name, list(found.entries))}"
        )
    return name


def _full_name(config_map: Json) -> str:
    return f"{config_map['metadata'].get('namespace', '')}/{config_map['metadata']['name']}"
