"""A lock of a node, an annotation: who has it, and until when it counts. No IO.

HAMi's, which device plugins of vendors and Koordinator know: "TIME,NAMESPACE,NAME" of a pod. The
device plugin removes it once it has given that pod its devices.
"""

from __future__ import annotations

from koord_model.excerpt import excerpt
from koord_model.times import from_rfc3339, rfc3339

LOCK_SECONDS = 300.0
"""Time for which a lock counts, whatever became of its pod."""


def written_lock(pod: str, now: float) -> str:
    """The lock of a pod, by its namespace/name, from ``now`` on (seconds since the epoch)."""
    return ",".join((rfc3339(now), *pod.split("/", 1)))


def lock_owner(lock: str) -> str:
    """The pod that a lock names, by its namespace/name; "" if it names none."""
    _, _, owner = lock.partition(",")
    return owner.replace(",", "/") if owner.count(",") == 1 else ""


def is_expired(lock: str, now: float) -> bool:
    """True if a lock is too old to count.

    Raises:
        ValueError: it does not begin with a time.
    """
    text = lock.partition(",")[0]
    try:
        since = from_rfc3339(text)
    except ValueError:
        expected = "TIME,NAMESPACE,NAME of a pod; remove it if nothing uses it"
        raise ValueError(f"is {excerpt(lock)}; expected {expected}") from None
    return now - since > LOCK_SECONDS
