"""``koordctl why``: decisions by koordlet, with formula and inputs."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from koord_service.http_targets import with_query

from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import (
    CurrentDecisionRow,
    DecisionRow,
    DesiredValueRow,
    PastDecisionRow,
    StrategyRow,
    WhyDocument,
)
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean, span, time_text
from koordctl.why_pod import cgroup_lines as pod_cgroup_lines
from koordctl.why_pod import hook_lines, ignored_lines

SUPPRESS = ("cpu_suppress", "pressure_suppress")
"""The strategies that limit best-effort pods' CPU."""

_CGROUPS = "/sys/fs/cgroup/"
_CONTROLLERS = {
    *("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "misc"),
    *("net_cls", "net_prio", "perf_event", "pids", "rdma", "unified", "systemd"),
}
"""Directories of cgroup v1 below which the same groups are."""
_MOST_HISTORY = 500
_LONGEST_VALUE = 60


def add_history(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of past decisions."""
    parser.add_argument(
        "--history",
        type=_number,
        default=10,
        metavar="COUNT",
        help="show at most COUNT earlier decisions (default: %(default)s)",
    )


def add_pod(parser: argparse.ArgumentParser) -> None:
    """A pod's name."""
    parser.add_argument("name", type=_pod, metavar="NAME", help="the pod: NAMESPACE/NAME or NAME")
    add_history(parser)


def add_evicted(parser: argparse.ArgumentParser) -> None:
    """A pod's name, or none."""
    words = "the pod: NAMESPACE/NAME or NAME (default: all pods)"
    parser.add_argument("name", type=_pod, nargs="?", metavar="NAME", help=words)
    add_history(parser)


def add_cgroup(parser: argparse.ArgumentParser) -> None:
    """A cgroup's path."""
    words = f"the cgroup, such as kubepods/besteffort, with or without {_CGROUPS}"
    parser.add_argument("path", type=_group, metavar="PATH", help=words)
    add_history(parser)


def run_suppress(arguments: argparse.Namespace) -> CommandOutput:
    """Explain the CPU of best-effort pods. Raises AskError as the others do."""
    document, found = _ask(arguments, strategy=",".join(SUPPRESS))
    nothing = "No decision about the CPU of best-effort pods."
    states = [strategy for strategy in found.strategies if strategy.name in SUPPRESS]
    shown = why_lines(found, [nothing, *(_off(state) for state in states if _off(state))])
    return CommandOutput(document, shown)


def run_pod(arguments: argparse.Namespace) -> CommandOutput:
    """Explain a pod: hooks' changes, cgroups' values, decisions about it."""
    document, found = _ask(arguments, pod=arguments.name)
    if found.decides and not (found.pods or found.hooks or found.decisions or found.history):
        raise AskError(_no_pod(arguments.name, found))
    return CommandOutput(document, pod_lines(found, arguments.name))


def run_evicted(arguments: argparse.Namespace) -> CommandOutput:
    """Explain the eviction of one pod, or of all."""
    name = arguments.name or ""
    document, found = _ask(arguments, evicted=name)
    nothing = f"No eviction of {clean(name)} is recorded" if name else "No eviction is recorded"
    runs = f"; {', '.join(map(clean, found.pods))} is running" if found.pods else ""
    if found.decides and name and not (found.decisions or found.history):
        raise AskError(f"{nothing}{runs}")
    return CommandOutput(document, why_lines(found, [f"{nothing}{runs}."]))


def run_cgroup(arguments: argparse.Namespace) -> CommandOutput:
    """The desired values of a cgroup, and decisions about it and its neighbours."""
    document, found = _ask(arguments, group=arguments.path)
    return CommandOutput(document, cgroup_lines(found, arguments.path))


def run_strategies(arguments: argparse.Namespace) -> CommandOutput:
    """The state of each strategy."""
    document, found = _ask(arguments)
    return CommandOutput(document, strategy_lines(found))


def pod_lines(
    found: WhyDocument, name: str, zone: datetime.tzinfo | None = None
) -> Iterator[Block]:
    """Hooks, cgroups, decisions."""
    parts = [
        list(hook_lines(found, zone)),
        list(ignored_lines(found)),
        list(pod_cgroup_lines(found.cgroups)),
        list(why_lines(found, [_no_pod(name, found)], zone)),
    ]
    for number, part in enumerate(part for part in parts if part):
        if number:
            yield ""
        yield from part


def why_lines(
    found: WhyDocument, nothing: Sequence[str], zone: datetime.tzinfo | None = None
) -> Iterator[Block]:
    """A block for each thing decided about; ``nothing`` says so where there is none."""
    if not found.decides:
        yield _decides_nothing(found)
        return
    blocks = [
        *(_standing_block(decision, found, zone) for decision in found.decisions),
        *(_past_block(decision, found, zone) for decision in _over(found)),
    ]
    if not blocks:
        yield from nothing
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield from block


def cgroup_lines(
    found: WhyDocument, path: str, zone: datetime.tzinfo | None = None
) -> Iterator[Block]:
    """The desired values, then the decisions."""
    if not found.decides:
        yield _decides_nothing(found)
        return
    if found.wishes:
        yield table([("KNOB", "DESIRED", "OWNER", "REASON"), *map(_desired, found.wishes)])
    else:
        yield f"No value of {clean(path)} is desired."
    if found.decisions or found.history:
        yield ""
        yield from why_lines(found, [], zone)


def strategy_lines(found: WhyDocument, zone: datetime.tzinfo | None = None) -> Iterator[Block]:
    """A line a strategy."""
    if not found.decides:
        yield _decides_nothing(found)
        return
    if not found.strategies:
        yield "koordlet has no strategies."
        return
    header = (
        *("STRATEGY", "MODE", "GATE", "RUNS", "FAILED", "SLOW", "DURATION", "SINCE"),
        "LATEST DECISION",
    )
    rows = [_strategy(strategy, zone) for strategy in found.strategies]
    yield table([header, *rows], words=(0, 1, 2, 7, 8))


def _ask(arguments: argparse.Namespace, **asked: str) -> tuple[Any, WhyDocument]:
    """The page as it came, and as a value."""
    if "history" in arguments:
        asked["history"] = str(arguments.history)
    page = with_query("/v1/why", asked)
    body, found = ask_koordlet(arguments.address, page, WhyDocument)
    return from_page(body, WhyDocument), found


def _standing_block(
    decision: CurrentDecisionRow, found: WhyDocument, zone: datetime.tzinfo | None
) -> Iterator[Block]:
    yield from _arithmetic(decision)
    ago = span(found.at - decision.since)
    since = time_text(decision.since, zone)
    # Not all inputs say when they are of: a VerticalPodAutoscaler does not.
    of = f", inputs of {time_text(decision.said_at, zone)}" if decision.said_at else ""
    yield f"  since {since} ({ago}){of}"
    earlier = [
        past for past in found.history if past.about == decision.about and past.at != decision.since
    ]
    yield from _earlier(earlier, zone)


def _past_block(
    pasts: Sequence[PastDecisionRow], found: WhyDocument, zone: datetime.tzinfo | None
) -> Iterator[Block]:
    """Describe decisions that have ended: the last outcome, and those before."""
    last, *earlier = pasts
    yield from _arithmetic(last)
    until = ""
    if last.until is not None and last.until > last.at:
        until = f", ended {time_text(last.until, zone)}"
    yield f"  decided {time_text(last.at, zone)} ({span(found.at - last.at)} ago){until}"
    yield from _earlier(earlier, zone)


def _arithmetic(decision: DecisionRow) -> Iterator[Block]:
    """The outcome, what it is about, and the formula with its numbers."""
    yield clean(decision.outcome)
    about = " ".join(clean(word) for word in (decision.pod, decision.group) if word) or "the node"
    aspect = f" ({clean(decision.aspect)})" if decision.aspect else ""
    shadow = "" if decision.mode == "on" else f"; mode {clean(decision.mode)}: not carried out"
    yield f"  {clean(decision.strategy)}{aspect}, about {about}{shadow}"
    if decision.formula:
        yield from (f"  {equation}" for equation in clean(decision.formula).split("; "))
    if decision.given:
        rows = [(clean(given.name), *_amount(clean(given.shown))) for given in decision.given]
        yield table(rows, words=(0, 2), indent=4)


def _amount(shown: str) -> tuple[str, str]:
    """A number and its unit, so that numbers stand below each other."""
    number, space, unit = shown.partition(" ")
    return (number, unit) if space and number[-1:].isdigit() else (shown, "")


def _earlier(pasts: Sequence[PastDecisionRow], zone: datetime.tzinfo | None) -> Iterator[Block]:
    if not pasts:
        return
    yield "  earlier"
    for past in pasts:
        shadow = "" if past.mode == "on" else f" ({clean(past.mode)})"
        yield f"    {time_text(past.at, zone)}  {clean(past.outcome)}{shadow}"


def _over(found: WhyDocument) -> list[list[PastDecisionRow]]:
    """The history of what is not decided any more, by what it was about; newest first."""
    standing = {decision.about for decision in found.decisions}
    by_key: dict[tuple[str, str, str, str], list[PastDecisionRow]] = {}
    for decision in found.history:
        if decision.about not in standing:
            by_key.setdefault(decision.about, []).append(decision)
    return list(by_key.values())


def _desired(desired: DesiredValueRow) -> tuple[str, ...]:
    value = UNKNOWN if desired.value is None else clean(str(desired.value)) or '""'
    if len(value) > _LONGEST_VALUE:
        value = f"{value[: _LONGEST_VALUE - 1]}…"
    conflict = f"; conflict: {clean(desired.conflict)}" if desired.conflict else ""
    return clean(desired.knob), value, clean(desired.owner), f"{clean(desired.why)}{conflict}"


def _strategy(strategy: StrategyRow, zone: datetime.tzinfo | None) -> tuple[str, ...]:
    latest = strategy.latest
    outcome = clean(latest.outcome) if latest else ""
    # Why it is off, or failed last: more to the point than what it found before.
    outcome = clean(strategy.reason) or outcome or "no decision"
    if latest and strategy.decisions > 1 and not strategy.reason:
        outcome = f"{outcome} (and {strategy.decisions - 1} more)"
    return (
        clean(strategy.name),
        clean(strategy.mode) if strategy.enabled else "off",
        clean(strategy.gate),
        *(str(number) for number in (strategy.rounds, strategy.failures, strategy.overruns)),
        f"{1000 * strategy.seconds:.1f} ms" if strategy.rounds else UNKNOWN,
        time_text(latest.since, zone) if latest else UNKNOWN,
        outcome,
    )


def _off(strategy: StrategyRow) -> str:
    """Return why a strategy decides nothing, "" if it does."""
    if strategy.enabled and strategy.mode != "off":
        return ""
    reason = f": {clean(strategy.reason)}" if strategy.reason else ""
    return f"{clean(strategy.name)} is off{reason}."


def _no_pod(name: str, found: WhyDocument) -> str:
    pods = dict.fromkeys([*found.pods, *(hook.pod for hook in found.hooks)])
    if pods:
        return f"No strategy has made a decision about {', '.join(map(clean, pods))}."
    return f"No pod {clean(name)} is known here, and no decision about one is recorded."


def _decides_nothing(found: WhyDocument) -> str:
    return clean(found.reason) or "koordlet makes no decisions on this node."


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _MOST_HISTORY):
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a number of decisions; expected 0 to {_MOST_HISTORY}'
        )
    return int(text)


def _pod(text: str) -> str:
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or bool(slash) != bool(namespace):
        raise argparse.ArgumentTypeError(f'"{text}" is not a pod; expected NAMESPACE/NAME or NAME')
    return text


def _group(text: str) -> str:
    """A cgroup as koordlet names it, from that or from a path of a mounted hierarchy."""
    below = text.strip().removeprefix(_CGROUPS).strip("/")
    if text.startswith(_CGROUPS):
        first, _, rest = below.partition("/")
        if set(first.split(",")) <= _CONTROLLERS:
            below = rest
    if not below:
        raise argparse.ArgumentTypeError(f'"{text}" is not a cgroup; expected one below {_CGROUPS}')
    return below
