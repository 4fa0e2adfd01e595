"""Writes: defaults, mutating webhooks, the rules of the kind, validating webhooks, the store.

Not here: garbage collection and the controllers that end namespaces and pods; a namespace that
no test has made is taken to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    API_SERVICES,
    DEFINITIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
    Resource,
)

from tests.support.kube_api import (
    admission,
    aggregation,
    bindings,
    definitions,
    evictions,
    object_rules,
    resizes,
)
from tests.support.kube_api.access import Identity
from tests.support.kube_api.admission import Admission, Attributes, Services, Trust
from tests.support.kube_api.definitions import Defined
from tests.support.kube_api.kinds import (
    BUILT_IN,
    NEED_A_VERSION,
    PDBS,
    STATUS_WITH_LABELS,
    WITH_STATUS,
    Causes,
    Key,
    Refused,
    conflict,
    copied,
    grouped,
    invalid,
    not_found,
)
from tests.support.kube_api.store import Change, Store
from tests.support.merge_patch import merged

_LONGEST_BASE = 58  # of a generated name
_TRIES = 5  # how often a patch is applied anew where others were faster


@dataclass
class Write:
    """What a client asks for; a patch may be a strategic one."""

    verb: str
    key: Key
    subresource: str
    body: Any
    who: Identity
    is_strategic: bool = False


class Writes(Store):
    """The store, changed by clients. ``installed`` are the kinds that are served."""

    def __init__(self, installed: Iterable[Resource]) -> None:
        super().__init__()
        self.installed = set(installed)
        self.services: Services = {}
        self._defined: dict[Resource, Defined] = {}
        self._admission = Admission(self._configurations, self._namespace, self.services, Trust())

    # What a test does.

    def put(self, resource: Resource, given: Object, namespace: str = "") -> Object:
        """Create or replace an object with its status; returns it as it is kept.

        Raises:
            Refused: its definition or, of what the server itself works by, its rules forbid it.
        """
        new = copied(given)
        key = Key(resource, namespace, new["metadata"]["name"])
        self._prepare(key, new)
        self._complete(key, new, self._found(key))
        self._check_defined(key, new, None)
        return copied(self._keep(key, new, self._found(key)))

    def with_status(self) -> frozenset[Resource]:
        """Which kinds have the status subresource."""
        theirs = {one for one, defined in self._defined.items() if defined.status}
        return frozenset((WITH_STATUS - self._defined.keys()) | theirs)

    # What a client does; each returns the answer.

    async def _create(self, write: Write) -> Object:
        key, new = write.key, copied(write.body)
        object_rules.check_kind(key.resource, new)
        meta = new.setdefault("metadata", {})
        object_rules.check_namespace(key, new)
        if meta.get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        for one in ("uid", "creationTimestamp", "generation", "deletionTimestamp"):
            meta.pop(one, None)
        if key.resource in self.with_status() and key.resource != NODES:
            new.pop("status", None)
        if key.namespace:
            meta["namespace"] = key.namespace
        object_rules.started(key.resource, new)
        self._prepare(key, new)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = f"{meta['generateName'][:_LONGEST_BASE]}{token_hex(3)[:5]}"
        key = key._replace(name=meta.get("name") or "")
        new = await self._admitted(write, key, new, None)
        if self._found(key) is not None:
            message = f'{grouped(key.resource)} "{key.name}" already exists'
            raise Refused(409, "AlreadyExists", message)
        return self._keep(key, new, None)

    async def _change(self, write: Write) -> Object:
        for _ in range(_TRIES):
            before = self._existing(write.key)
            new = await self._changed(write, before)
            if self._found(write.key) is before:
                kept = self._keep(write.key, new, before)
                if write.key.resource != PODS and _is_ended(new):
                    self._remove(write.key)
                return kept
            if (write.body.get("metadata") or {}).get("resourceVersion"):
                break
        raise conflict(write.key)

    async def _changed(self, write: Write, before: Object) -> Any:
        key = write.key
        new: Object = copied(_patched(write, before) if write.verb == "patch" else write.body)
        object_rules.check_kind(key.resource, new)
        meta = new.setdefault("metadata", {})
        picky = key.resource not in BUILT_IN or key.resource in NEED_A_VERSION
        if picky and not meta.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            raise invalid(grouped(key.resource), key.name, ("metadata.resourceVersion", why))
        object_rules.check_same(key, before, new)
        new = self._split(write, before, new)
        self._prepare(key, new)
        return await self._admitted(write, key, new, before)

    async def _delete(self, write: Write) -> Object:
        key, options = write.key, write.body or {}
        await self._admitted(write, key, None, self._existing(key))
        now = self._existing(key)
        conditions = options.get("preconditions") or {}
        object_rules.check_uid(key, now, conditions.get("uid"))
        if conditions.get("resourceVersion") not in (None, now["metadata"]["resourceVersion"]):
            raise conflict(key, "the ResourceVersion in the precondition does not match")
        ending = evictions.ending(now, options) if key.resource == PODS else None
        if now["metadata"].get("finalizers") and key.resource != PODS:
            ending = copied(now)
            ending["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        if ending is not None:
            return self._keep(key, ending, now)
        self._remove(key)
        return _SUCCESS

    async def _evict(self, write: Write) -> Object:
        key, body = write.key, write.body
        pod = self._existing(key)
        evictions.check_request(key, body)
        budgets = evictions.budgets_of(pod, list(self._kinds.get(PDBS, {}).values()))
        if len(budgets) > 1:
            return evictions.failed_status()
        for budget in budgets:
            spent = evictions.spend(pod, budget)
            if spent is not None:
                self.put(PDBS, spent, key.namespace)
        options = body.get("deleteOptions") or {}
        object_rules.check_uid(key, pod, (options.get("preconditions") or {}).get("uid"))
        ending = evictions.ending(pod, options)
        if ending is None:
            self._remove(key)
        else:
            self._keep(key, ending, pod)
        return {**_SUCCESS, "code": 201}

    def _bind(self, write: Write) -> Object:
        key = write.key
        pod = self._existing(key)
        self._keep(key, bindings.bound(key, pod, write.body, self.time), pod)
        return {**_SUCCESS, "code": 201}

    # The parts of it.

    def _existing(self, key: Key) -> Object:
        found = self._found(key)
        if found is None:
            raise not_found(key)
        return found

    def _prepare(self, key: Key, new: Object) -> None:
        """Add defaults, and drop what is not in the schema."""
        if key.resource in self._defined:
            self._defined[key.resource].schema.complete(new)
        default = _DEFAULTS.get(key.resource)
        if default is not None:
            default(new)

    def _check_defined(self, key: Key, new: Object, before: Object | None) -> None:
        """What a definition forbids, and what the server itself could not work by."""
        check = _CHECKS.get(key.resource)
        causes = check(key, new, before) if check else []
        if key.resource in self._defined:
            causes = self._defined[key.resource].schema.wrong(new)
        if causes:
            raise invalid(key.resource.kind, key.name, *causes)

    async def _admitted(
        self, write: Write, key: Key, new: Object | None, before: Object | None
    ) -> Any:
        """The object as webhooks change it and rules allow it; ``new`` is ``None`` if deleted."""
        operation = "DELETE" if new is None else "CREATE" if before is None else "UPDATE"
        attributes = Attributes(key, write.subresource, operation, new, before, write.who)
        if new is None:
            await self._admission.mutate(attributes)
            await self._admission.validate(attributes)
            return None
        self._prioritize(key, new, before)
        new = await self._admission.mutate(attributes)
        assert new is not None
        object_rules.check_kind(key.resource, new)
        self._prioritize(key, new, before)
        if before is not None:
            new = self._split(write, before, new)
        object_rules.check(key, new)
        if write.subresource == "resize" and before is not None:
            resizes.check(key, before, new)
        self._prepare(key, new)
        if before is None:
            self._complete(key, new, None)
        self._check_defined(key, new, before)
        if key.resource == DEFINITIONS:
            definitions.establish(new, before, self.time)
        await self._admission.validate(replace(attributes, new=new))
        return new

    def _prioritize(self, key: Key, new: Object, before: Object | None) -> None:
        if key.resource == PODS and before is None:
            object_rules.prioritize(new, self._kinds.get(PRIORITY_CLASSES, {}).values())

    def _split(self, write: Write, before: Object, new: Object) -> Object:
        """What a request may change: the status at /status, elsewhere all but the status."""
        resource = write.key.resource
        if resource not in self.with_status():
            return new
        if write.subresource == "resize":
            return resizes.split(before, new)
        if write.subresource != "status":
            kept = {name: one for name, one in new.items() if name != "status"}
            return kept | ({"status": copied(before["status"])} if "status" in before else {})
        kept = copied({name: one for name, one in before.items() if name != "status"})
        if resource in STATUS_WITH_LABELS:
            for name in ("labels", "annotations"):
                kept["metadata"].pop(name, None)
                if name in new["metadata"]:
                    kept["metadata"][name] = new["metadata"][name]
        return kept | ({"status": new["status"]} if "status" in new else {})

    def _on_change(self, event: Change) -> None:
        """A definition makes its kinds served; with it they and their objects go."""
        if event.key.resource != DEFINITIONS:
            return
        for one in definitions.defined(event.before) if event.before is not None else []:
            self.installed.discard(one.resource)
            self._defined.pop(one.resource, None)
            for key in [*self._kinds.get(one.resource, {})] if event.type == "DELETED" else []:
                self._remove(key)
        for one in definitions.defined(event.now) if event.type != "DELETED" else []:
            where = one.resource.path()
            self.installed -= {each for each in self.installed if each.path() == where}
            self.installed.add(one.resource)
            self._defined[one.resource] = one

    def _configurations(self, mutating: bool) -> list[Object]:
        kind = self._kinds.get(MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS, {})
        return [kind[key] for key in sorted(kind, key=lambda one: one.name)]

    def _namespace(self, name: str) -> Object | None:
        return self._found(Key(NAMESPACES, "", name))


def _patched(write: Write, before: Object) -> Any:
    """The object after a patch. Of lists that strategic ones merge, conditions alone are known."""
    new = merged(before, write.body)
    given = (write.body.get("status") or {}).get("conditions")
    if write.is_strategic and given:
        known = {one["type"]: one for one in before.get("status", {}).get("conditions", ())}
        for one in given:
            known[one["type"]] = merged(known.get(one["type"]), one)
        new["status"]["conditions"] = list(known.values())
    return new


_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

_CHECKS: dict[Resource, Callable[[Key, Object, Object | None], Causes]] = {
    DEFINITIONS: definitions.check,
    MUTATING_WEBHOOKS: admission.check,
    VALIDATING_WEBHOOKS: admission.check,
    API_SERVICES: aggregation.check,
}
"""The kinds that the server itself works by: a bad one is refused whoever brings it."""

_DEFAULTS: dict[Resource, Callable[[Object], None]] = {
    DEFINITIONS: definitions.default,
    MUTATING_WEBHOOKS: lambda given: admission.default(given, mutating=True),
    VALIDATING_WEBHOOKS: lambda given: admission.default(given, mutating=False),
    API_SERVICES: aggregation.default,
}


def _is_ended(new: Object) -> bool:
    """Whether nothing keeps an object any more that was deleted."""
    return "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers")
