"""``koordctl why``: what koordlet has decided, and by what arithmetic."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlencode

from koordctl.amounts import UNKNOWN
from koordctl.asking import ask_koordlet
from koordctl.columns import table
from koordctl.observed import Outcome, Past, Standing, StrategyRow, Why, Wished
from koordctl.render import clean

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
    """How much of the past is shown."""
    parser.add_argument(
        "--history",
        type=_number,
        default=10,
        metavar="COUNT",
        help="how many earlier outcomes (%(default)s)",
    )


def add_pod(parser: argparse.ArgumentParser) -> None:
    """A pod's name."""
    parser.add_argument("name", type=_pod, metavar="NAME", help="NAMESPACE/NAME, or NAME alone")
    add_history(parser)


def add_evicted(parser: argparse.ArgumentParser) -> None:
    """A pod's name, or none."""
    words = "NAMESPACE/NAME, or NAME alone (default: all evictions)"
    parser.add_argument("name", type=_pod, nargs="?", metavar="NAME", help=words)
    add_history(parser)


def add_cgroup(parser: argparse.ArgumentParser) -> None:
    """A cgroup's path."""
    words = f"such as kubepods/besteffort, with or without {_CGROUPS}"
    parser.add_argument("path", type=_group, metavar="PATH", help=words)
    add_history(parser)


def run_suppress(arguments: argparse.Namespace) -> Iterable[str]:
    """Why best-effort pods have the CPU that they have. Raises AskError as the others do."""
    body, found = _ask(arguments, strategy=",".join(SUPPRESS))
    if arguments.json:
        return [body]
    nothing = "Nothing is decided about best-effort pods' CPU."
    states = [one for one in found.strategies if one.name in SUPPRESS]
    return why_lines(found, [nothing, *(_off(one) for one in states if _off(one))])


def run_pod(arguments: argparse.Namespace) -> Iterable[str]:
    """What was decided about a pod."""
    body, found = _ask(arguments, pod=arguments.name)
    return [body] if arguments.json else why_lines(found, [_no_pod(arguments.name, found)])


def run_evicted(arguments: argparse.Namespace) -> Iterable[str]:
    """Why a pod was evicted, or which were."""
    name = arguments.name or ""
    body, found = _ask(arguments, evicted=name)
    if arguments.json:
        return [body]
    nothing = f"No eviction of {clean(name)} is known" if name else "No eviction is known"
    runs = f"; {', '.join(map(clean, found.pods))} runs" if found.pods else ""
    return why_lines(found, [f"{nothing}{runs}."])


def run_cgroup(arguments: argparse.Namespace) -> Iterable[str]:
    """Who wished what of a cgroup, and what was decided about it and its neighbours."""
    body, found = _ask(arguments, group=arguments.path)
    return [body] if arguments.json else cgroup_lines(found, arguments.path)


def run_strategies(arguments: argparse.Namespace) -> Iterable[str]:
    """How the strategies fare."""
    body, found = _ask(arguments)
    return [body] if arguments.json else strategy_lines(found)


def why_lines(
    found: Why, nothing: Sequence[str], zone: datetime.tzinfo | None = None
) -> Iterator[str]:
    """A block for each thing decided about; ``nothing`` says so where there is none."""
    if not found.decides:
        yield _decides_nothing(found)
        return
    blocks = [
        *(_standing_block(one, found, zone) for one in found.decisions),
        *(_past_block(one, found, zone) for one in _over(found)),
    ]
    if not blocks:
        yield from nothing
    for number, block in enumerate(blocks):
        if number:
            yield ""
        yield from block


def cgroup_lines(found: Why, path: str, zone: datetime.tzinfo | None = None) -> Iterator[str]:
    """The wishes, then the decisions."""
    if not found.decides:
        yield _decides_nothing(found)
        return
    if found.wishes:
        yield from table([("KNOB", "VALUE", "OWNER", "WHY"), *map(_wish, found.wishes)])
    else:
        yield f"Nobody wishes anything of {clean(path)} now."
    if found.decisions or found.history:
        yield ""
        yield from why_lines(found, [], zone)


def strategy_lines(found: Why, zone: datetime.tzinfo | None = None) -> Iterator[str]:
    """A line a strategy."""
    if not found.decides:
        yield _decides_nothing(found)
        return
    if not found.strategies:
        yield "koordlet has no strategies."
        return
    header = ("STRATEGY", "MODE", "GATE", "ROUNDS", "FAILED", "SLOW", "TOOK", "SINCE", "OUTCOME")
    rows = [_strategy(one, zone) for one in found.strategies]
    yield from table([header, *rows], words=(0, 1, 2, 7, 8))


def _ask(arguments: argparse.Namespace, **asked: str) -> tuple[str, Why]:
    """The page as it came, and as a value."""
    if "history" in arguments:
        asked["history"] = str(arguments.history)
    page = f"/v1/why?{urlencode(asked)}" if asked else "/v1/why"
    body, found = ask_koordlet(arguments.address, page, Why)
    return body.decode().rstrip("\n"), found


def _standing_block(one: Standing, found: Why, zone: datetime.tzinfo | None) -> Iterator[str]:
    yield from _arithmetic(one)
    ago = _span(found.at - one.since)
    yield f"  since {_time(one.since, zone)} ({ago}), numbers of {_time(one.said_at, zone)}"
    earlier = [past for past in found.history if past.about == one.about and past.at != one.since]
    yield from _earlier(earlier, zone)


def _past_block(pasts: Sequence[Past], found: Why, zone: datetime.tzinfo | None) -> Iterator[str]:
    """What no longer stands: its last outcome, and those before."""
    last, *earlier = pasts
    yield from _arithmetic(last)
    until = ""
    if last.until is not None and last.until > last.at:
        until = f", over since {_time(last.until, zone)}"
    yield f"  decided {_time(last.at, zone)} ({_span(found.at - last.at)} ago){until}"
    yield from _earlier(earlier, zone)


def _arithmetic(one: Outcome) -> Iterator[str]:
    """The outcome, what it is about, and the formula with its numbers."""
    yield clean(one.outcome)
    about = " ".join(clean(word) for word in (one.pod, one.group) if word) or "the node"
    aspect = f" ({clean(one.aspect)})" if one.aspect else ""
    shadow = "" if one.mode == "on" else f"; {clean(one.mode)}: only shown, not done"
    yield f"  {clean(one.strategy)}{aspect}, about {about}{shadow}"
    if one.formula:
        yield f"  {clean(one.formula)}"
    if one.given:
        rows = [(clean(given.name), *_amount(clean(given.shown))) for given in one.given]
        yield from (f"    {line}" for line in table(rows, words=(0, 2)))


def _amount(shown: str) -> tuple[str, str]:
    """A number and its unit, so that numbers stand below each other."""
    number, space, unit = shown.partition(" ")
    return (number, unit) if space and number[-1:].isdigit() else (shown, "")


def _earlier(pasts: Sequence[Past], zone: datetime.tzinfo | None) -> Iterator[str]:
    if not pasts:
        return
    yield "  before"
    for one in pasts:
        shadow = "" if one.mode == "on" else f" ({clean(one.mode)})"
        yield f"    {_time(one.at, zone)}  {clean(one.outcome)}{shadow}"


def _over(found: Why) -> list[list[Past]]:
    """The history of what is not decided any more, by what it was about; newest first."""
    standing = {one.about for one in found.decisions}
    by_key: dict[tuple[str, str, str, str], list[Past]] = {}
    for one in found.history:
        if one.about not in standing:
            by_key.setdefault(one.about, []).append(one)
    return list(by_key.values())


def _wish(one: Wished) -> tuple[str, ...]:
    value = UNKNOWN if one.value is None else clean(str(one.value)) or '""'
    if len(value) > _LONGEST_VALUE:
        value = f"{value[: _LONGEST_VALUE - 1]}…"
    conflict = f"; conflict: {clean(one.conflict)}" if one.conflict else ""
    return clean(one.knob), value, clean(one.owner), f"{clean(one.why)}{conflict}"


def _strategy(one: StrategyRow, zone: datetime.tzinfo | None) -> tuple[str, ...]:
    latest = one.latest
    outcome = clean(latest.outcome) if latest else ""
    # Why it is off, or failed last: more to the point than what it found before.
    outcome = clean(one.reason) or outcome or "nothing decided"
    if latest and one.decisions > 1 and not one.reason:
        outcome = f"{outcome} (and {one.decisions - 1} more)"
    return (
        clean(one.name),
        clean(one.mode) if one.enabled else "off",
        clean(one.gate),
        *(str(number) for number in (one.rounds, one.failures, one.overruns)),
        f"{1000 * one.seconds:.1f} ms" if one.rounds else UNKNOWN,
        _time(latest.since, zone) if latest else UNKNOWN,
        outcome,
    )


def _off(one: StrategyRow) -> str:
    """Why a strategy decides nothing, "" if it does."""
    if one.enabled and one.mode != "off":
        return ""
    reason = f": {clean(one.reason)}" if one.reason else ""
    return f"{clean(one.name)} is off{reason}."


def _no_pod(name: str, found: Why) -> str:
    if found.pods:
        return f"Nothing is or was decided about {', '.join(map(clean, found.pods))}."
    return f"No pod {clean(name)} is known here, and nothing was decided about one."


def _decides_nothing(found: Why) -> str:
    return clean(found.reason) or "koordlet decides nothing on this node."


def _time(seconds: float, zone: datetime.tzinfo | None) -> str:
    try:
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return f"{when:%Y-%m-%d %H:%M:%S}"


def _span(seconds: float) -> str:
    """How long ago, in its two greatest units."""
    rest = max(round(seconds), 0)
    words = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number:
            words.append(f"{number} {name}")
    return " ".join(words[:2]) or "0 s"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= _MOST_HISTORY):
        raise argparse.ArgumentTypeError(
            f'"{text}" is no number of outcomes; expected 0 to {_MOST_HISTORY}'
        )
    return int(text)


def _pod(text: str) -> str:
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or bool(slash) != bool(namespace):
        raise argparse.ArgumentTypeError(f'"{text}" is no pod; expected NAMESPACE/NAME or NAME')
    return text


def _group(text: str) -> str:
    """A cgroup as koordlet names it, from that or from a path of a mounted hierarchy."""
    below = text.strip().removeprefix(_CGROUPS).strip("/")
    if text.startswith(_CGROUPS):
        first, _, rest = below.partition("/")
        if set(first.split(",")) <= _CONTROLLERS:
            below = rest
    if not below:
        raise argparse.ArgumentTypeError(f'"{text}" is no cgroup; expected one below {_CGROUPS}')
    return below
