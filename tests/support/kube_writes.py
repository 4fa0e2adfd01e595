"""What a client may change, and what comes of it: the way of a write through the server.

Defaults, mutating webhooks, the rules of the kind, validating webhooks, and then the store,
if nobody was faster. Not here: garbage collection, so that what is owned stays, and the
controllers that end namespaces and pods; a namespace that no test has made is taken to be
there.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    API_SERVICES,
    DEFINITIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
    Resource,
)

from tests.support import (
    kube_aggregation,
    kube_definitions,
    kube_evictions,
    kube_rules,
    kube_webhooks,
)
from tests.support.kube_access import Identity
from tests.support.kube_admission import Admission
from tests.support.kube_definitions import Defined
from tests.support.kube_deletion import check_preconditions, grace, success, waiting
from tests.support.kube_evictions import PDBS, EvictionRefused
from tests.support.kube_json import copied
from tests.support.kube_kinds import (
    ANSWER_WITH_THE_DELETED,
    BUILT_IN,
    MADE_BY_UPDATE,
    NEED_A_VERSION,
    STATUS_AT_CREATION,
    STATUS_WITH_LABELS,
    WITH_STATUS,
    grouped,
    qualified,
)
from tests.support.kube_outgoing import Services, Trust
from tests.support.kube_patching import patched
from tests.support.kube_priority import prioritize
from tests.support.kube_refusal import Refused, bad_request, conflict, invalid, not_found
from tests.support.kube_schemas import Validated
from tests.support.kube_selecting import Key, Selection
from tests.support.kube_store import Happening, Store
from tests.support.kube_webhooks import Attributes

_TRIES = 5  # how often a patch is applied anew where others were faster
_RANDOM = "bcdfghjklmnpqrstvwxz2456789"


@dataclass
class Write:
    """What a client wants changed; ``warnings`` is what it will be told beside the answer."""

    verb: str
    key: Key
    subresource: str
    body: Any
    content_type: str
    query: Mapping[str, str]
    who: Identity
    warnings: list[str] = field(default_factory=list)

    @property
    def options(self) -> Object:
        """What a deletion says of itself."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be kept."""
        said = [self.query.get("dryRun")]
        if self.verb in ("delete", "deletecollection"):
            said += self.options.get("dryRun") or []
        words = [one for one in said if one]
        if any(one != "All" for one in words):
            options = {"create": "Create", "patch": "Patch", "update": "Update"}
            shown = ", ".join(f'"{one}"' for one in words)
            why = f'Unsupported value: [{shown}]: supported values: "All"'
            kind = f"{options.get(self.verb, 'Delete')}Options.meta.k8s.io"
            raise invalid(kind, "", ("dryRun", why))
        return bool(words)


class Writes(Store):
    """The store, changed by clients. ``installed`` are the kinds that are served."""

    def __init__(self, installed: Iterable[Resource], trust: Trust) -> None:
        super().__init__()
        self.installed = set(installed)
        self.services: Services = {}
        self._defined: dict[Resource, Defined] = {}
        self._random = random.Random(7)
        self._admission = Admission(self._configurations, self._namespace, self.services, trust)

    # What a test does.

    def put(self, resource: Resource, given: Object, namespace: str = "") -> Object:
        """Create or replace an object with its status; returns it as it is kept.

        Raises:
            Refused: its definition or, of what the server itself works by, its rules forbid it.
        """
        new = copied(given)
        key = Key(resource, namespace, new["metadata"]["name"])
        self._prepare(key, new)
        if resource in _OWN:
            _check_own(key, new, None)
        if resource in self._defined:
            self._complete(key, new, self._found(key))
            kube_definitions.check_object(resource, self._schema(resource), new)
        return copied(self._keep(key, new, self._found(key)))

    def with_status(self) -> frozenset[Resource]:
        """Which kinds have the status subresource."""
        said = {one for one, defined in self._defined.items() if defined.status}
        return frozenset((WITH_STATUS - self._defined.keys()) | said)

    # What a client does; each returns the answer.

    async def _create(self, write: Write) -> Object:
        key, new = write.key, copied(write.body)
        kube_rules.check_kind(key.resource, new)
        meta = new.setdefault("metadata", {})
        kube_rules.check_namespace(key, new)
        if meta.get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        for one in ("uid", "creationTimestamp", "generation", "deletionTimestamp", "selfLink"):
            meta.pop(one, None)
        if self._has_status(key.resource) and key.resource not in STATUS_AT_CREATION:
            new.pop("status", None)
        if key.namespace:
            meta["namespace"] = key.namespace
        kube_rules.started(key.resource, new)
        self._decode(write, new)
        key = key._replace(name=meta.get("name") or "")
        status = new.get("status")
        new = await self._mutated(write, key, "CREATE", new, None)
        if self._has_status(key.resource) and key.resource not in STATUS_AT_CREATION:
            new.pop("status", None)
            if status is not None:
                new["status"] = status
        key = key._replace(name=self._named(key, new))
        new["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.time}
        self._check(key, new, None)
        await self._validated(write, key, "CREATE", new, None)
        if self._found(key) is not None:
            about = (grouped(key.resource), key.name)
            message = f'{about[0]} "{key.name}" already exists'
            raise Refused(409, "AlreadyExists", message, about=about)
        return self._done(write, key, new, None)

    async def _change(self, write: Write) -> tuple[Object, bool]:
        """An update or a patch; and whether it made the object."""
        for _ in range(_TRIES):
            before = self._found(write.key)
            if before is None:
                if write.verb == "update" and write.key.resource in MADE_BY_UPDATE:
                    return await self._create(write), True
                raise not_found(grouped(write.key.resource), write.key.name)
            new = await self._changed(write, before)
            if self._found(write.key) is before:
                return self._replaced(write, new, before), False
            if _version_said(write):
                break
        raise conflict(grouped(write.key.resource), write.key.name)

    async def _changed(self, write: Write, before: Object) -> Object:
        key = write.key
        new: Object
        if write.verb == "patch":
            new = patched(before, write.body, write.content_type)
        else:
            new = copied(write.body)
        kube_rules.check_kind(key.resource, new)
        meta = new.setdefault("metadata", {})
        picky = key.resource not in BUILT_IN or key.resource in NEED_A_VERSION
        if picky and write.verb == "update" and not meta.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            raise invalid(grouped(key.resource), key.name, ("metadata.resourceVersion", why))
        kube_rules.check_same(key, before, new)
        new = self._split(key.resource, write.subresource, before, new)
        _carry_over(key, before, new)
        self._decode(write, new)
        new = await self._mutated(write, key, "UPDATE", new, before)
        new = self._split(key.resource, write.subresource, before, new)
        _carry_over(key, before, new)
        try:
            self._check(key, new, before)
        except Refused as refused:
            if write.verb != "patch" or refused.status != 400:
                raise
            # What cannot be read is the patch's fault then, and no bad request.
            raise invalid("", "", ("patch", f"Invalid value: {refused}")) from None
        await self._validated(write, key, "UPDATE", new, before)
        return new

    def _replaced(self, write: Write, new: Object, before: Object) -> Object:
        """What is being deleted and has lost its last finalizer goes."""
        meta = new["metadata"]
        held = bool(before["metadata"].get("finalizers")) and not meta.get("finalizers")
        waits = meta.get("deletionGracePeriodSeconds")  # for its kubelet
        if "deletionTimestamp" in meta and held and not waits:
            self._complete(write.key, new, before)
            if not write.dry_run:
                self._remove(write.key)
            return new
        return self._done(write, write.key, new, before)

    async def _delete(self, write: Write, key: Key) -> Object:
        before = self._found(key)
        if before is None:
            raise not_found(grouped(key.resource), key.name)
        options = write.options
        check_preconditions(key, before, options)
        await self._mutated(write, key, "DELETE", None, before)
        await self._validated(write, key, "DELETE", None, before)
        now = self._found(key)
        if now is None:
            raise not_found(grouped(key.resource), key.name)
        check_preconditions(key, now, options)
        ending = waiting(key, now, grace(write.query, options), self.time)
        if ending is not None:
            return self._done(write, key, ending, now)
        if not write.dry_run:
            self._remove(key)
        if key.resource in ANSWER_WITH_THE_DELETED:
            return now
        return success(
            name=key.name,
            group=key.resource.group,
            kind=key.resource.plural,
            uid=now["metadata"]["uid"],
        )

    async def _delete_all(self, write: Write, wanted: Selection) -> list[Object]:
        found = [key for key, _ in self._select(wanted)]
        return [await self._delete(write, key) for key in found]

    async def _evict(self, write: Write) -> Object:
        key, body = write.key, write.body
        if self._found(key) is None:
            raise not_found(grouped(key.resource), key.name)
        if isinstance(body, dict):
            body = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
        await self._mutated(write, key, "CREATE", body, None)
        await self._validated(write, key, "CREATE", body, None)
        pod = self._found(key)
        if pod is None:
            raise not_found(grouped(key.resource), key.name)
        budgets = list(self._kinds.get(PDBS, {}).values())
        try:
            kube_evictions.check_request(key.name, key.namespace, body)
            if kube_evictions.several_budgets(pod, budgets):
                return kube_evictions.failed_status()
            spent = kube_evictions.spend(pod, budgets)
            if spent is not None and not write.dry_run:
                self.put(PDBS, spent, key.namespace)
            kube_evictions.check_uid(pod, body)
        except EvictionRefused as error:
            causes = (("", f"DisruptionBudget: {error.cause}"),) if error.cause else ()
            raise Refused(
                error.status, error.reason, str(error), error.asked, causes=causes
            ) from None
        ending = kube_evictions.ending(pod, body)
        if write.dry_run:
            pass
        elif ending is None:
            self._remove(key)
        else:
            self._keep(key, ending, pod)
        return {**success(), "code": 201}

    # The parts of it.

    def _decode(self, write: Write, new: Object) -> None:
        """A client that asked for strictness is told what its schema does not know."""
        unknown = self._prepare(write.key, new)
        words = [f'unknown field "{one}"' for one in unknown]
        strictness = write.query.get("fieldValidation", "Warn")
        if words and strictness == "Strict":
            resource = write.key.resource
            read = f'{resource.kind} in version "{resource.version}" cannot be handled'
            what = f"strict decoding error: {', '.join(words)}"
            raise bad_request(f"{read} as a {resource.kind}: {what}")
        if strictness == "Warn":
            write.warnings += words

    def _prepare(self, key: Key, new: Object) -> list[str]:
        """Defaults, and what is not in the schema away; returns what that was."""
        if key.resource in self._defined:
            return self._schema(key.resource).complete(new)
        default = _DEFAULTS.get(key.resource)
        if default is not None:
            default(new)
        return []

    def _check(self, key: Key, new: Object, before: Object | None) -> None:
        kube_rules.check(key, new, before)
        self._prepare(key, new)
        if key.resource in _OWN:
            _check_own(key, new, before)
        if key.resource in self._defined:
            kube_definitions.check_object(key.resource, self._schema(key.resource), new)
        if key.resource == DEFINITIONS:
            kube_definitions.establish(new, before, self.time)

    def _done(self, write: Write, key: Key, new: Object, before: Object | None) -> Object:
        if not write.dry_run:
            return self._keep(key, new, before)
        self._complete(key, new, before)
        return new

    async def _mutated(
        self, write: Write, key: Key, operation: str, new: Object | None, old: Object | None
    ) -> Any:
        asked = _attributes(write, key, operation, new, old)
        new_pod = key.resource == PODS and operation == "CREATE" and not write.subresource
        if new is not None and new_pod:
            self._prioritize(new)
        found = await self._admission.mutate(asked, write.who, write.warnings)
        if found is not None and found is not new:
            kube_rules.check_kind(key.resource, found)
            if new_pod:
                self._prioritize(found)
        return found

    async def _validated(
        self, write: Write, key: Key, operation: str, new: Object | None, old: Object | None
    ) -> None:
        asked = _attributes(write, key, operation, new, old)
        await self._admission.validate(asked, write.who, write.warnings)

    def _prioritize(self, pod: Object) -> None:
        prioritize(pod, [one for _, one in self._select(Selection(PRIORITY_CLASSES))])

    def _named(self, key: Key, new: Object) -> str:
        """The name that was given, or one made of ``generateName``."""
        meta = new["metadata"]
        if meta.get("name"):
            return str(meta["name"])
        if not meta.get("generateName"):
            why = "Required value: name or generateName is required"
            raise invalid(qualified(key.resource), "", ("metadata.name", why))
        letters = "".join(self._random.choices(_RANDOM, k=5))
        return f"{meta['generateName'][:58]}{letters}"

    def _split(self, resource: Resource, sub: str, before: Object, new: Object) -> Object:
        """What a request may change: the status at /status, elsewhere all but the status."""
        if not self._has_status(resource):
            return new
        if sub != "status":
            kept = {name: one for name, one in new.items() if name != "status"}
            return kept | ({"status": copied(before["status"])} if "status" in before else {})
        kept = copied({name: one for name, one in before.items() if name != "status"})
        if resource in STATUS_WITH_LABELS:
            for name in ("labels", "annotations"):
                kept["metadata"].pop(name, None)
                if name in new["metadata"]:
                    kept["metadata"][name] = new["metadata"][name]
        return kept | ({"status": new["status"]} if "status" in new else {})

    def _has_status(self, resource: Resource) -> bool:
        found = self._defined.get(resource)
        return resource in WITH_STATUS if found is None else found.status

    def _schema(self, resource: Resource) -> Validated:
        return self._defined[resource].schema

    def _noticed(self, event: Happening) -> None:
        """A definition makes its kinds served, and takes them and all their objects along."""
        if event.key.resource != DEFINITIONS:
            return
        gone = kube_definitions.defined(event.before) if event.before is not None else []
        here = kube_definitions.defined(event.now) if event.type != "DELETED" else []
        for one in gone:
            self.installed.discard(one.resource)
            self._defined.pop(one.resource, None)
        for one in here:
            same = {
                each
                for each in self.installed
                if (each.group, each.version, each.plural)
                == (one.resource.group, one.resource.version, one.resource.plural)
            }
            self.installed -= same
            self.installed.add(one.resource)
            self._defined[one.resource] = one
        if event.type == "DELETED":
            for one in gone:
                for key in list(self._kinds.get(one.resource, {})):
                    self._remove(key)

    def _configurations(self, mutating: bool) -> list[Object]:
        kind = self._kinds.get(MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS, {})
        return [kind[key] for key in sorted(kind, key=lambda one: one.name)]

    def _namespace(self, name: str) -> Object | None:
        return self._found(Key(NAMESPACES, "", name))


_OWN: dict[Resource, Callable[[Key, Object, Object | None], list[tuple[str, str]]]] = {
    DEFINITIONS: kube_definitions.check,
    MUTATING_WEBHOOKS: kube_webhooks.check,
    VALIDATING_WEBHOOKS: kube_webhooks.check,
    API_SERVICES: kube_aggregation.check,
}
"""The kinds that the server itself works by: a bad one is refused whoever brings it."""

_DEFAULTS: dict[Resource, Callable[[Object], None]] = {
    DEFINITIONS: kube_definitions.default,
    MUTATING_WEBHOOKS: lambda given: kube_webhooks.default(given, mutating=True),
    VALIDATING_WEBHOOKS: lambda given: kube_webhooks.default(given, mutating=False),
    API_SERVICES: kube_aggregation.default,
}


def _check_own(key: Key, new: Object, before: Object | None) -> None:
    causes = _OWN[key.resource](key, new, before)
    if causes:
        raise invalid(qualified(key.resource), key.name, *causes)


def _attributes(
    write: Write, key: Key, operation: str, new: Object | None, old: Object | None
) -> Attributes:
    kind = ("policy", "v1", "Eviction") if write.subresource == "eviction" else None
    about = {"CREATE": "CreateOptions", "DELETE": "DeleteOptions"}.get(operation, "UpdateOptions")
    if write.verb == "patch":
        about = "PatchOptions"
    options: Object = {"kind": about, "apiVersion": "meta.k8s.io/v1"}
    options |= {"dryRun": ["All"]} if write.dry_run else {}
    return Attributes(key, write.subresource, operation, new, old, write.dry_run, options, kind)


def _version_said(write: Write) -> bool:
    """Whether a client said what it replaces; only then it is told of a conflict at once."""
    meta = write.body.get("metadata") if isinstance(write.body, dict) else None
    return bool((meta or {}).get("resourceVersion"))


def _carry_over(key: Key, before: Object, new: Object) -> None:
    """What only the server says of an object stays; its deletion cannot be put off any more."""
    old, meta = before["metadata"], new["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generateName"):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    added = set(meta.get("finalizers") or []) - set(old.get("finalizers") or [])
    if "deletionTimestamp" in old and added:
        why = "Forbidden: no new finalizers can be added if the object is being deleted"
        raise invalid(qualified(key.resource), key.name, ("metadata.finalizers", why))
