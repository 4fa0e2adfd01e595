"""Flags of the Go programs that have no meaning here: accepted, so that their manifests work.

Go's ``flag`` takes one dash or two, and the value after "=" or as the next word; a boolean
takes its value only after "=". ``pflag`` agrees, and takes ``-v4`` too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from koord_service.logs import EventLog

DEBUG_FROM = 5
"""klog's verbosity from which the log level is debug."""

_SHORT = re.compile(r"-v([0-9]+)")


class GoFlagError(ValueError):
    """A Go flag without its value, or with a wrong one; the message is one line."""


@dataclass(frozen=True, slots=True)
class GoFlags:
    """Flag names without leading dashes; ``switches`` are the boolean ones."""

    values: frozenset[str] = field(default_factory=frozenset)
    switches: frozenset[str] = field(default_factory=frozenset)

    def __or__(self, other: GoFlags) -> GoFlags:
        return GoFlags(self.values | other.values, self.switches | other.switches)

    @property
    def names(self) -> frozenset[str]:
        return self.values | self.switches

    def split(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """The arguments that are settings here, and the names of the flags that are not.

        klog's ``-v`` is a setting: from 5 on it means ``--log-level=debug``, unless that flag
        follows.

        Raises:
            GoFlagError: a flag's value is missing, or that of "-v" is not a number.
        """
        ours: list[str] = []
        ignored: dict[str, None] = {}
        level: list[str] = []
        words = iter(arguments)
        for word in words:
            name, value = _name_and_value(word)
            if name == "v" and "v" in self.values:
                level = _level(value if value is not None else _next(words, word))
            elif name in self.names:
                if name in self.values and value is None:
                    _next(words, word)
                ignored[f"--{name}"] = None
            else:
                ours.append(word)
        return level + ours, list(ignored)

    def report(self, log: EventLog, arguments: Sequence[str] | None = None) -> None:
        """Log the ignored flags in one line; by default those of this process."""
        _, ignored = self.split(sys.argv[1:] if arguments is None else arguments)
        if ignored:
            log.warning("flags ignored, they have no meaning here", flags=" ".join(ignored))


def go_flags(*, values: Iterable[str] = (), switches: Iterable[str] = ()) -> GoFlags:
    """The flags of one Go program, beside klog's."""
    return GoFlags(frozenset(values), frozenset(switches)) | KLOG


KLOG = GoFlags(
    frozenset(
        {
            "v",
            "vmodule",
            "log-backtrace-at",
            "log-dir",
            "log-file",
            "log-file-max-size",
            "stderrthreshold",
        }
    ),
    frozenset(
        {
            "add-dir-header",
            "alsologtostderr",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
        }
    ),
)
"""The flags of k8s.io/klog; it spells some with "_", and programs take "-" as well."""


def _name_and_value(word: str) -> tuple[str, str | None]:
    """A flag's name as in ``GoFlags``, and the value after "="; "" if it is not a flag."""
    if short := _SHORT.fullmatch(word):
        return "v", short[1]
    if not word.startswith("-") or word.startswith("---"):
        return "", None
    name, given, value = word.lstrip("-").partition("=")
    return name.replace("_", "-"), value if given else None


def _next(words: Iterator[str], flag: str) -> str:
    try:
        return next(words)
    except StopIteration:
        raise GoFlagError(f"{flag} needs a value") from None


def _level(verbosity: str) -> list[str]:
    if not re.fullmatch("-?[0-9]{1,9}", verbosity):
        raise GoFlagError(f'-v is "{verbosity}"; expected a whole number')
    return ["--log-level=debug"] if int(verbosity) >= DEBUG_FROM else []
