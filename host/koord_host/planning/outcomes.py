"""Outcomes of desired values, and the rule for refusals by the kernel."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple

from koord_host.knobs.forms import Value
from koord_host.planning.arbiter import ValueConflict
from koord_host.planning.desired_values import Target


class Outcome(StrEnum):
    """Outcome for one target in one round."""

    WRITTEN = "written"  # changed, and read back as desired
    UNCHANGED = "unchanged"  # it was so already
    GONE = "gone"  # the group or process has ended
    UNSUPPORTED = "unsupported"  # this kernel has no such file
    INVALID = "invalid"  # out of range: never written
    REFUSED = "refused"  # the kernel said no, or kept something else
    YIELDED = "yielded"  # somebody else's value stays
    WAITING = "waiting"  # the kubelet has set it; ours follows once it is computed from that
    OVERRIDDEN = "overridden"  # another knob of the place leaves no room for it


class Result(NamedTuple):
    """One target's outcome. ``old`` and ``new`` are ``None`` where not known.

    ``news`` is whether it has not been reported before: the same problem, round after
    round, is news once. ``alert`` is whether a person should look at it.
    """

    target: Target
    outcome: Outcome
    old: Value | None = None
    new: Value | None = None
    owner: str = ""
    why: str = ""
    pod: str = ""
    reason: str = ""
    errno: int = 0
    news: bool = True
    alert: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """Results of one call of the executor; ``conflicts`` are the new ones."""

    results: tuple[Result, ...] = ()
    conflicts: tuple[ValueConflict, ...] = ()

    @property
    def news(self) -> tuple[Result, ...]:
        """Results that deserve a line in the log."""
        return tuple(result for result in self.results if result.news)


def joined(*rounds: Round) -> Round:
    """Join the results of several calls, as if they had been one."""
    return Round(
        tuple(result for part in rounds for result in part.results),
        tuple(conflict for part in rounds for conflict in part.conflicts),
    )


class Retry(Enum):
    """Time of the next attempt after a refusal; a new desired value is always tried at once.

    SOON      after 1, 2, 4 … seconds, at most the refresh interval: what is in the
              way (tasks, pages, children, room) comes and goes.
    REFRESH   with the next refresh: only a change of something else can help.
    NEVER     the place is gone: dropped silently. It is tried again with the
              next refresh, in case it comes back.
    """

    SOON = "soon"
    REFRESH = "refresh"
    NEVER = "never"


RETRIES = {
    # cpuset: a child has CPUs the parent would lose; memory: pages cannot be freed.
    errno.EBUSY: Retry.SOON,
    # memory.reclaim could not free enough; a signal or a lock came in between.
    errno.EAGAIN: Retry.SOON,
    errno.EINTR: Retry.SOON,
    errno.ENOMEM: Retry.SOON,
    # cpuset: tasks would have no CPU; resctrl: no group is left.
    errno.ENOSPC: Retry.SOON,
    # No such value here, or not within what groups above and below have.
    errno.EINVAL: Retry.REFRESH,
    errno.ERANGE: Retry.REFRESH,
    errno.EOVERFLOW: Retry.REFRESH,
    # cpuset on v1: not within the parent's CPUs. Elsewhere: this process may not.
    errno.EACCES: Retry.REFRESH,
    errno.EPERM: Retry.REFRESH,
    errno.EROFS: Retry.REFRESH,
    errno.EOPNOTSUPP: Retry.REFRESH,
    # The group or process has ended, perhaps between two system calls.
    errno.ENOENT: Retry.NEVER,
    errno.ENOTDIR: Retry.NEVER,
    errno.ENODEV: Retry.NEVER,
    errno.ESRCH: Retry.NEVER,
}
"""The rule, by errno; what is not here is ``REFRESH``. No refusal stops other writes."""


def retry(code: int) -> Retry:
    """Return when a write that failed with this errno is tried again."""
    return RETRIES.get(code, Retry.REFRESH)


EMPTY = Round()
"""A round in which nothing was due."""
