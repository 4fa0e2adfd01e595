"""Batch resources: what high-priority pods leave of a node, for many nodes at once. No IO.

The formulas are Koordinator's (noderesource's ``CalculateBatchResourceByPolicy``). Arrays are
whole numbers with CPU (millicores) and memory (bytes) along the last axis; the axes before are
nodes, or nodes and their zones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koord_manager.slo_config.core.colocation import CalculatePolicy

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

POLICIES = tuple(CalculatePolicy)
"""Their places are their numbers in arrays."""
_REQUEST = POLICIES.index(CalculatePolicy.REQUEST)
_MAX_USAGE_REQUEST = POLICIES.index(CalculatePolicy.MAX_USAGE_REQUEST)
NO_LIMIT = -1


class BatchInputs(NamedTuple):
    """Input of the formulas; ``reclaim`` and ``limit`` are percent of ``capacity``.

    ``policy`` is by ``POLICIES``, for CPU never that of requests.
    """

    capacity: Numbers
    reserved: Numbers
    system: Numbers
    used: Numbers
    request: Numbers
    max_used_request: Numbers
    reclaim: Numbers
    policy: Numbers
    limit: Numbers


class BatchTerms(NamedTuple):
    """Terms of the result: ``amount`` is ``capacity - margin - kept - high``, within ``limit``.

    It is never less than nothing. ``ceiling`` is what it would be if no pod were there and the
    system used no more than is reserved for it.
    """

    amount: Numbers
    margin: Numbers
    kept: Numbers
    high: Numbers
    limit: Numbers
    ceiling: Numbers


def batch(given: BatchInputs) -> BatchTerms:
    """The terms of all nodes, or zones."""
    capacity = given.capacity
    margin = portion(capacity, 100 - np.clip(given.reclaim, 0, 100))
    by_request = given.policy == _REQUEST
    kept = np.where(by_request, given.reserved, np.maximum(given.system, given.reserved))
    high = np.where(
        by_request,
        given.request,
        np.where(given.policy == _MAX_USAGE_REQUEST, given.max_used_request, given.used),
    )
    percent = np.where(given.limit == NO_LIMIT, 100, np.clip(given.limit, 0, 100))
    limit = portion(capacity, percent)
    amount = np.clip(capacity - margin - kept - high, 0, limit)
    ceiling = np.clip(capacity - margin - given.reserved, 0, limit)
    return BatchTerms(amount, margin, kept, high, limit, ceiling)


def portion(amounts: Numbers, percent: Numbers) -> Numbers:
    """So many percent, in floating point and cut off: to the byte what Koordinator comes to."""
    return (amounts * (percent / 100)).astype(np.int64)


def times(amounts: Numbers, ratio: NDArray[np.float64]) -> Numbers:
    """CPU times the ratio of a node's CPUs to the reference; memory as it is.

    By Koordinator's steps: cut off to a thousandth of a millicore, then rounded up to a whole one.
    """
    scaled = amounts.copy()
    shape = (-1,) + (1,) * (amounts.ndim - 2)
    exact = amounts[..., 0] * 1000 * ratio.reshape(shape)
    # More is some typing error's, and no int64.
    parts = np.minimum(exact, 2.0**62).astype(np.int64)
    scaled[..., 0] = -(-parts // 1000)
    return scaled


def within(zones: Numbers, node: Numbers) -> Numbers:
    """The zones' amounts (nodes × zones × 2), cut in proportion to what the node has of them.

    They sum up to what the node has, or less.
    """
    sums = zones.sum(axis=1, keepdims=True)
    whole = node[:, None, :]
    ratio = np.divide(whole, sums, out=np.ones(sums.shape), where=sums > whole)
    # By running totals, so that what is lost to rounding does not add up to more than there is.
    running = np.minimum(np.floor(zones.cumsum(axis=1) * ratio).astype(np.int64), whole)
    cut = np.diff(running, axis=1, prepend=0)
    return np.where(sums > whole, np.minimum(cut, zones), zones)
