"""``koordctl descheduler``: what the descheduler would move, did move, and why a pod stays."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from koordctl import leader_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.leader_client import DESCHEDULER_LEADER, ask_leader
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean, count

Json = Mapping[str, Any]

_MOVES = ("POD", "FROM", "TO", "PLUGIN", "REASON")
_STAYS = ("POD", "NODE", "PLUGIN", "RULE", "WHY")
_MOST_REFUSALS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the descheduler's address."""
    leader_client.add_arguments(parser, DESCHEDULER_LEADER)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add those of a plan."""
    parser.add_argument(
        "--all", action="store_true", help=f"show all pods that stay, not {_MOST_REFUSALS}"
    )
    add_arguments(parser)


def add_why(parser: argparse.ArgumentParser) -> None:
    """Add those about a pod."""
    parser.add_argument("pod", type=_pod, metavar="NAMESPACE/POD", help="the pod")
    add_arguments(parser)


def run_plan(arguments: argparse.Namespace) -> CommandOutput:
    """The next round, which is not carried out. Raises AskError."""
    found = _ask(arguments, "/v1/plan")
    return CommandOutput(found, plan_lines(found, shows_all=arguments.all))


def run_why(arguments: argparse.Namespace) -> CommandOutput:
    """Explain why a pod was moved, or stays. Raises AskError."""
    found = _ask(arguments, "/v1/why", {"pod": arguments.pod})
    is_known = found["state"] in ("stays", "to move") or bool(found["moved"])
    return CommandOutput(found, why_lines(found), None if is_known else "")


def plan_lines(found: Json, *, shows_all: bool = False) -> Iterator[Block]:
    """The moves of a round with their reasons, then the pods that stay."""
    if found.get("reason"):
        yield f"No round can be planned: {clean(found['reason'])}."
        return
    moves, refusals = found["moves"], found["refusals"]
    refused = sum(found["refused"].values())
    yield f"{count(len(moves), 'move')}, {count(refused, 'pod')} that would move and stay."
    if moves:
        yield ""
        yield table([_MOVES, *map(_move_row, moves)], words=range(5))
    if refusals:
        shown = refusals if shows_all else refusals[:_MOST_REFUSALS]
        yield ""
        yield table([_STAYS, *map(_stay_row, shown)], words=range(5))
        if len(shown) < refused:
            more = refused - len(shown)
            rules = ", ".join(f"{rule} {number}" for rule, number in found["refused"].items())
            hint = "" if shows_all else "; --all shows more"
            yield f"… and {more} more (by rule: {clean(rules)}{hint})"
    for about, note in found["notes"].items():
        yield ""
        yield f"{clean(about)}: {_plain(note)}"


def why_lines(found: Json) -> Iterator[Block]:
    """The state of a pod in the last round, and its last move."""
    pod, state = clean(found["pod"]), found["state"]
    if state == "stays":
        refusal = found["refusal"]
        yield f"{pod} stays on {clean(refusal['node'])}: {clean(refusal['why'])}"
        at, plugin = clean(refusal["at"]), clean(refusal["plugin"])
        yield f"  {plugin} wanted to move it at {at}; rule {clean(refusal['rule'])}"
    elif state == "to move":
        yield from _move_lines(pod, found["move"], "is to move")
    elif not found["moved"]:
        yield f"{pod}: {clean(found['reason'])}."
    moved = found["moved"]
    if moved:
        if "refusal" in found or "move" in found:
            yield ""
        yield from _move_lines(pod, moved, f"was moved at {clean(moved['at'])}")
        why = f": {clean(moved['why'])}" if moved["why"] else ""
        yield f"  result: {clean(moved['result'])}{why}"
    for job in found.get("jobs", ()):
        target = f" to {clean(job['to'])}" if job["to"] else ""
        state = ": ".join(filter(None, (job["phase"], job["reason"], job["message"])))
        yield f"  PodMigrationJob {clean(job['name'])}{target}: {clean(state)}"


def _move_lines(pod: str, move: Json, words: str) -> Iterator[Block]:
    target = f" to {clean(move['to'])}" if move["to"] else ""
    yield f"{pod} {words} from {clean(move['from'])}{target}"
    yield f"  {clean(move['plugin'])}: {clean(move['reason'])}"
    rows = [(clean(name), _plain(value)) for name, value in move["arithmetic"].items()]
    yield table(rows, words=(0, 1), indent=4)


def _move_row(move: Json) -> tuple[str, ...]:
    names = ("pod", "from", "to", "plugin", "reason")
    return tuple(clean(str(move[name]) or UNKNOWN) for name in names)


def _stay_row(refusal: Json) -> tuple[str, ...]:
    return tuple(clean(str(refusal[name])) for name in ("pod", "node", "plugin", "rule", "why"))


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{clean(str(name))} {_plain(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value))
    return clean(f"{value:g}" if isinstance(value, float) else str(value))


def _ask(arguments: argparse.Namespace, page: str, query: Mapping[str, str] | None = None) -> Json:
    body = ask_leader(arguments, DESCHEDULER_LEADER, page, query or {})
    try:
        found: Json = from_page(body)
        return found
    except ValueError as error:
        raise AskError(f"koord-descheduler's answer cannot be read: {error}") from None


def _pod(text: str) -> str:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f'"{text}" is not a pod; expected NAMESPACE/POD')
    return text
