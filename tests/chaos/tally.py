"""What became of calls and containers, and what is held against a run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import grpc
from koordctl.output.tables import plain, table

Code = grpc.StatusCode


class Result(StrEnum):
    """What became of a call."""

    ANSWERED = "answered"
    REFUSED = "refused: its hook server was away (policy Fail)"
    LOST = "lost: proxy or runtime went away"
    GONE = "its pod or container had gone with the runtime"
    HUNG = "hung"
    UNEXPLAINED = "failed, unexplained"


class Fate(StrEnum):
    """How a container that was started turned out."""

    HOOKED = "hooked"
    REPAIRED = "made past the proxy, named, and repaired"
    GONE = "gone with the runtime before anybody looked"
    UNHOOKED = "unhooked"


def result_of(error: grpc.RpcError) -> Result:
    """What an error of a call means."""
    code, details = error.code(), error.details() or ""
    if code is Code.DEADLINE_EXCEEDED:
        return Result.HUNG
    if code is Code.UNAVAILABLE:
        return Result.REFUSED if "policy is Fail" in details else Result.LOST
    # gRPC's word for a connection that ended amid an answer.
    if code is Code.CANCELLED or (code is Code.UNKNOWN and details == "Stream removed"):
        return Result.LOST
    # containerd's word for a start that is not over.
    if details == "server is not initialized yet":
        return Result.LOST
    if code is Code.NOT_FOUND or "not found" in details:
        return Result.GONE
    return Result.UNEXPLAINED


@dataclass
class Tally:
    """Counts of one run; for any thread."""

    results: Counter[Result] = field(default_factory=Counter)
    methods: Counter[str] = field(default_factory=Counter)
    fates: Counter[Fate] = field(default_factory=Counter)
    havoc: Counter[str] = field(default_factory=Counter)
    evidence: list[str] = field(default_factory=list)
    """A line for each thing that must not be."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def called(self, method: str, result: Result, details: str = "") -> None:
        with self._lock:
            self.results[result] += 1
            self.methods[method] += 1
            if result in (Result.HUNG, Result.UNEXPLAINED):
                self.evidence.append(f"{method}: {result}: {details}")

    def started(self, fate: Fate, details: str) -> None:
        with self._lock:
            self.fates[fate] += 1
            if fate is Fate.UNHOOKED:
                self.evidence.append(f"{fate}: {details}")

    def did(self, havoc: str) -> None:
        with self._lock:
            self.havoc[havoc] += 1


@dataclass(frozen=True)
class Usage:
    """What the proxy holds."""

    megabytes: float
    descriptors: int


@dataclass(frozen=True)
class Report:
    """What a run came to."""

    seed: int
    seconds: float
    tally: Tally
    before: Usage
    after: Usage
    left_over: int
    tracebacks: int

    def lines(self) -> Iterator[str]:
        """The figures, for people."""
        tally = self.tally
        yield f"{sum(tally.results.values())} calls in {self.seconds:.0f} s (SEED={self.seed})"
        yield ""
        rows = [("CALLS", "")]
        rows += [(f"  {one}", str(tally.results[one])) for one in Result]
        rows += [("CONTAINERS STARTED", str(sum(tally.fates.values())))]
        rows += [(f"  {one}", str(tally.fates[one])) for one in Fate]
        rows += [("LEFT", "")]
        rows += [("  records of pods and containers that are gone", str(self.left_over))]
        rows += [("  tracebacks and defects in logs", str(self.tracebacks))]
        before, after = self.before, self.after
        rows += [("  MB of the proxy", f"{before.megabytes:.1f} → {after.megabytes:.1f}")]
        rows += [("  its descriptors", f"{before.descriptors} → {after.descriptors}")]
        rows += [("HAVOC", str(sum(tally.havoc.values())))]
        rows += [(f"  {name}", str(number)) for name, number in sorted(tally.havoc.items())]
        yield from plain([table(rows)])
        yield from tally.evidence
