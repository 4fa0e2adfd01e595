"""Claims, slices and classes of the cluster, and which devices are in use. No IO."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import msgspec
from koord_model.quantity import nano

from koord_scheduler.plugins.dynamic_resources.extended_resources import backing_classes
from koord_scheduler.plugins.dynamic_resources.objects import (
    AllocatedDevice,
    Allocation,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode, DeviceId
from koord_scheduler.plugins.dynamic_resources.pools import Pool, PoolId, PoolSlice, gather_pools
from koord_scheduler.plugins.dynamic_resources.requests import UsedDevices

Document = dict[str, Any]


def _nobody(name: str) -> None:
    pass


class _InFlight(NamedTuple):
    """Pending allocation of a claim: for ``pods`` of a ``group``, or for one of none, by uid."""

    allocation: Allocation
    document: Document
    group: str
    pods: frozenset[str]


class DeviceObjects:
    """Objects by key, and what is allocated here and not yet written (*in flight*).

    ``node_changed`` is called with the name of a node when a device of its own changes.
    ``shared_version`` changes with everything else that decides which devices nodes can have:
    classes, and devices that several nodes can use. ``follows_nodes``: whether that depends on
    labels of nodes. ``backing_classes`` are the names of classes by the extended resource that
    they back, ``extended_claims`` the keys of claims that were made for such, by the pod's uid.
    """

    def __init__(self, node_changed: Callable[[str], None] = _nobody) -> None:
        self.shared_version = 0
        self.classes: dict[str, DeviceClass] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.backing_classes: dict[str, str] = {}
        self.extended_claims: dict[str, str] = {}
        self._node_changed = node_changed
        self._stamps: Counter[str] = Counter()
        self._versions: Counter[str] = Counter()
        self._in_flight: dict[str, _InFlight] = {}
        self._slices: dict[str, PoolSlice] = {}
        self._by_node: dict[str, dict[str, PoolSlice]] = defaultdict(dict)
        self._by_pool: dict[PoolId, list[PoolSlice]] = defaultdict(list)
        self._exclusive: Counter[DeviceId] = Counter()
        self._consumed: dict[DeviceId, Counter[str]] = defaultdict(Counter)
        self.used = UsedDevices(self._exclusive, self._consumed)

    # ---- objects of the API

    def set_claim(self, key: str, claim: ResourceClaim) -> None:
        """A claim is so; what is older than what is known is ignored."""
        before = self.claims.get(key)
        is_same = before is not None and before.metadata.uid == claim.metadata.uid
        if before is not None and is_same and _version(claim) < _version(before):
            return
        self._change(key, lambda: self.claims.__setitem__(key, claim))
        if uid := claim.extended_resources_of:
            self.extended_claims[uid] = key

    def remove_claim(self, key: str) -> None:
        """A claim is gone."""
        claim = self.claims.get(key)
        if claim is None:
            return
        self._change(key, lambda: self.claims.pop(key))
        if self.extended_claims.get(claim.extended_resources_of) == key:
            del self.extended_claims[claim.extended_resources_of]

    def set_slice(self, name: str, given: ResourceSlice) -> None:
        """A slice is so."""
        self._drop_slice(name)
        made = self._slices[name] = PoolSlice(given)
        self._by_node[made.node][name] = made
        self._by_pool[made.pool].append(made)
        self._pool_changed(made.pool)

    def remove_slice(self, name: str) -> None:
        """A slice is gone."""
        pool = self._slices[name].pool
        self._pool_changed(pool)
        self._drop_slice(name)

    def set_class(self, name: str, given: DeviceClass) -> None:
        """A class is so."""
        self.classes[name] = given
        self._classes_changed()

    def remove_class(self, name: str) -> None:
        """A class is gone."""
        del self.classes[name]
        self._classes_changed()

    # ---- what is decided here

    def is_in_flight(self, uid: str, but_for: str = "") -> bool:
        """True if the claim with this uid was allocated here, and that is not written yet.

        ``but_for`` is the uid of a group that may have it nevertheless.
        """
        found = self._in_flight.get(uid)
        return found is not None and (not found.group or found.group != but_for)

    def in_flight(self, uid: str, group: str) -> Document | None:
        """Return the pending allocation of a claim for pods of a group."""
        found = self._in_flight.get(uid)
        return found.document if found is not None and group and found.group == group else None

    def with_allocation(self, claim: ResourceClaim, group: str) -> ResourceClaim:
        """A claim as it will be once what pods of a group were given is written."""
        uid, status = claim.metadata.uid, claim.status
        if status.allocation is not None or self.in_flight(uid, group) is None:
            return claim
        allocation = self._in_flight[uid].allocation
        status = msgspec.structs.replace(status, allocation=allocation)
        return msgspec.structs.replace(claim, status=status)

    def assume(
        self, claim: ResourceClaim, allocation: Document, pod: str = "", group: str = ""
    ) -> None:
        """A claim gets devices: no other claim may. Pods of the ``group`` share them."""
        uid = claim.metadata.uid
        others = self._in_flight[uid].pods if self.in_flight(uid, group) is not None else ()
        pods = frozenset((pod, *others))
        made = _InFlight(msgspec.convert(allocation, Allocation), allocation, group, pods)
        self._change(claim.key, lambda: self._in_flight.__setitem__(uid, made))

    def release(self, claim: ResourceClaim, pod: str = "") -> None:
        """Release a pod's assumption about a claim that is written, or will not be; repeatable."""
        self._change(claim.key, lambda: self._release(claim.metadata.uid, pod))

    def _release(self, uid: str, pod: str) -> None:
        found = self._in_flight.get(uid)
        if found is None:
            return
        if others := found.pods - {pod}:
            self._in_flight[uid] = found._replace(pods=others)
        else:
            del self._in_flight[uid]

    # ---- what the allocator asks

    @property
    def follows_nodes(self) -> bool:
        """True if labels of nodes decide about devices."""
        return bool(self._by_node.get(""))

    def pools(self, node: ClaimingNode) -> list[Pool]:
        """The pools that a node can use."""
        return gather_pools(node, self.slices(node), self._by_pool)

    def slices(self, node: ClaimingNode) -> tuple[PoolSlice, ...]:
        """The slices that may concern a node."""
        own, shared = self._by_node.get(node.name, {}), self._by_node.get("", {})
        return (*own.values(), *shared.values())

    def node_stamp(self, node: str) -> Hashable:
        """Something that becomes another when devices of a node, or shared ones, change."""
        return self._stamps[node], self.shared_version

    def claim_stamps(self, claims: Iterable[str]) -> Hashable:
        """Something that becomes another when one of these claims changes."""
        return tuple(map(self._versions.__getitem__, claims))

    def _classes_changed(self) -> None:
        self.backing_classes = backing_classes(self.classes)
        self.shared_version += 1

    def _change(self, key: str, act: Callable[[], object]) -> None:
        """Do something with a claim, and count the devices that it has anew."""
        self._count(key, -1)
        act()
        self._count(key, 1)
        self._versions[key] += 1
        if key not in self.claims:
            self._versions[key] += 1  # never 0 again: it may have been asked about

    def _count(self, key: str, sign: int) -> None:
        claim = self.claims.get(key)
        if claim is None:
            return
        in_flight = self._in_flight.get(claim.metadata.uid)
        allocation = claim.status.allocation or (in_flight and in_flight.allocation)
        for one in allocation.devices.results if allocation is not None else ():
            if not one.admin_access:
                self._count_device(one, sign)
                self._pool_changed(PoolId(one.driver, one.pool))

    def _count_device(self, allocated_device: AllocatedDevice, sign: int) -> None:
        device = DeviceId(allocated_device.driver, allocated_device.pool, allocated_device.device)
        if allocated_device.share_id is None:
            self._exclusive[device] += sign
            if not self._exclusive[device]:
                del self._exclusive[device]
            return
        consumed = self._consumed[device]
        for name, amount in (allocated_device.consumed_capacity or {}).items():
            consumed[name] += sign * nano(amount)
        if not any(consumed.values()):
            del self._consumed[device]

    def _drop_slice(self, name: str) -> None:
        known = self._slices.pop(name, None)
        if known is not None:
            self._pool_changed(known.pool)
            del self._by_node[known.node][name]
            self._by_pool[known.pool].remove(known)

    def _pool_changed(self, pool: PoolId) -> None:
        nodes = {one.node for one in self._by_pool.get(pool, ())}
        if len(nodes) == 1 and "" not in nodes:
            node = nodes.pop()
            self._stamps[node] += 1
            self._node_changed(node)
        else:
            self.shared_version += 1


def _version(claim: ResourceClaim) -> int:
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else 0
