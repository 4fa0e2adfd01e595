"""Reports of nodes about the configuration that they have applied. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from koord_model.fields import quantity
from koord_model.quantity import milli

_MARK = b'"rollout"'


class Echo(msgspec.Struct, frozen=True):
    """A node's version and how its pods fare; what is ``None`` is not measured."""

    version: str = ""
    problem: str = ""
    evictions: int = 0
    restarts: int = 0
    psi: float | None = None
    sched_wait: float | None = msgspec.field(default=None, name="schedWait")
    batch_cores: float | None = msgspec.field(default=None, name="batchCores")


class _Pykoord(msgspec.Struct):
    rollout: Echo | None = None


class _Extensions(msgspec.Struct):
    pykoord: _Pykoord | None = None


class _Usage(msgspec.Struct):
    resources: dict[str, Any] = {}


class _Metric(msgspec.Struct):
    node: _Usage | None = msgspec.field(default=None, name="nodeUsage")


class _Status(msgspec.Struct):
    extensions: _Extensions | None = None
    metric: _Metric | None = msgspec.field(default=None, name="nodeMetric")


_STATUS = msgspec.json.Decoder(_Status)


class RolloutReport(msgspec.Struct, frozen=True):
    """An echo, and the cores that the node uses."""

    echo: Echo
    cores: float


def read(status: bytes | None) -> RolloutReport | None:
    """The report in a NodeMetric's status; ``None`` of one that says nothing, or is not valid."""
    if not status or _MARK not in status:
        return None
    try:
        found = _STATUS.decode(status)
        if found.extensions is None or found.extensions.pykoord is None:
            return None
        echo = found.extensions.pykoord.rollout
        used = found.metric.node.resources if found.metric and found.metric.node else {}
        return None if echo is None else RolloutReport(echo, cores(used))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def cores(amounts: Mapping[str, Any]) -> float:
    """The CPUs of a list of resources; 0 where they are not known.

    Raises:
        ValueError: it is not a quantity.
    """
    given = amounts.get("cpu")
    return 0.0 if given is None else milli(quantity(given)) / 1000
