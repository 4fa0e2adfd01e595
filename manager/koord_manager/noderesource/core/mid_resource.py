"""Mid resources: what prod pods request but hardly use, for many nodes at once. No IO.

The formulas are Koordinator's (noderesource's midresource). Arrays are as in ``batch``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from koord_manager.noderesource.core.batch_resource import Flags, Numbers, portion

UNKNOWN = -1


class MidInputs(NamedTuple):
    """Input of the formulas; ``limit``, ``unallocated`` and ``static`` are in percent.

    ``node_used`` and ``reclaimable`` are ``UNKNOWN`` if not reported. ``by_percentage`` is for
    each node whether its mode is static.
    """

    capacity: Numbers
    reserved: Numbers
    system: Numbers
    prod_request: Numbers
    node_used: Numbers
    reclaimable: Numbers
    limit: Numbers
    unallocated: Numbers
    static: Numbers
    by_percentage: Flags


class MidTerms(NamedTuple):
    """Terms of the result: ``amount`` is ``min(reclaimable, unused) + share`` within ``limit``.

    In static mode ``static`` within ``limit``. ``share`` is of what is not allocated.
    """

    amount: Numbers
    reclaimable: Numbers
    unused: Numbers
    unallocated: Numbers
    share: Numbers
    static: Numbers
    limit: Numbers


def mid(given: MidInputs) -> MidTerms:
    """The terms of all nodes."""
    capacity = given.capacity
    known = given.node_used != UNKNOWN
    unused = np.where(known, np.maximum(capacity - given.node_used, 0), 0)
    reclaimable = np.maximum(given.reclaimable, 0)
    kept = np.maximum(given.system, given.reserved)
    unallocated = np.maximum(capacity - kept - given.prod_request, 0)
    share = portion(unallocated, np.clip(given.unallocated, 0, 100))
    static = portion(capacity, np.clip(given.static, 0, 100))
    limit = portion(capacity, np.clip(given.limit, 0, 100))
    left = np.where(given.by_percentage, static, np.minimum(reclaimable, unused) + share)
    amount = np.minimum(left, limit)
    return MidTerms(amount, reclaimable, unused, unallocated, share, static, limit)
