"""Who a token stands for and who may do what, as reviews answer it.

Requests themselves are not held against these rules. A test says which token means whom and
which rules bind whom.
"""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from koord_kube.protocol.api import Api, ApiError, NotFoundError, Object
from koord_kube.protocol.resources import ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from koord_model.service_account_token import MANAGER_AUDIENCE

from tests.support.kube_api.kinds import Key, Refused, bad_request, invalid

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_NODE, _POD = "authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name"


@dataclass(frozen=True)
class Identity:
    """A user; ``audiences`` are those of their token."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    audiences: frozenset[str] = frozenset({AUDIENCE})

    @property
    def document(self) -> Object:
        """As reviews have it."""
        found: Object = {"username": self.user, "groups": [*self.groups]}
        if self.uid:
            found["uid"] = self.uid
        if self.extra:
            found["extra"] = {name: [*values] for name, values in self.extra.items()}
        return found


ADMINISTRATOR = Identity("kubernetes-admin", ("system:masters", "system:authenticated"))
"""Whose requests are those with an unknown token."""


def koordlet_account(node: str = "", **more: Any) -> Identity:
    """A koordlet's, by its token for the manager."""
    more.setdefault("audiences", frozenset({MANAGER_AUDIENCE}))
    return service_account("koordlet", "koordinator-system", node=node, **more)


def service_account(
    name: str, namespace: str = "default", *, node: str = "", pod: str = "", **more: Any
) -> Identity:
    """A service account; ``node`` and ``pod`` are those that its token is bound to."""
    extra = {_NODE: (node,)} if node else {}
    extra |= {_POD: (pod,)} if pod else {}
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    )
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups, extra=extra, **more)


class Access:
    """``identities`` says what tokens mean."""

    def __init__(self) -> None:
        self.identities: dict[str, Identity] = {}
        self._grants: list[tuple[str, Mapping[str, Any]]] = []

    def grant(self, who: str, *rules: Mapping[str, Any]) -> None:
        """Bind a user or a group to the rules of a ClusterRole."""
        self._grants += [(who, rule) for rule in rules]

    def revoke(self, who: str) -> None:
        """Take away all that a user or a group was granted."""
        self._grants = [one for one in self._grants if one[0] != who]

    def who(self, token: str) -> Identity:
        return self.identities.get(token, ADMINISTRATOR)

    def review(self, resource: Resource, body: Object) -> Object:
        """The answer to a TokenReview or a SubjectAccessReview."""
        found = copy.deepcopy(body)
        spec = found.get("spec") or {}
        if resource == TOKEN_REVIEWS:
            found["status"] = self._authenticated(spec)
        elif resource == ACCESS_REVIEWS:
            found["status"] = {"allowed": self._allows(spec)}
        return found

    def _authenticated(self, spec: Object) -> Object:
        token, asked = spec.get("token"), frozenset(spec.get("audiences") or {AUDIENCE})
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        who = self.identities.get(token)
        if who is None:
            return {"user": {}, "error": "invalid bearer token"}
        if not asked & who.audiences:
            theirs, ours = (json.dumps(sorted(one)) for one in (who.audiences, asked))
            words = f"{theirs} is invalid for the target audiences {ours}"
            return {"user": {}, "error": f"[invalid bearer token, token audiences {words}]"}
        audiences = sorted(asked & who.audiences)
        return {"authenticated": True, "user": who.document, "audiences": audiences}

    def _allows(self, spec: Object) -> bool:
        about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        who = {spec.get("user") or "", *(spec.get("groups") or [])} - {""}
        if not who or (about is None) is (path is None):
            why = "Invalid value: a user or a group and one kind of attributes are needed"
            raise invalid("SubjectAccessReview.authorization.k8s.io", "", ("spec", why))
        rules = [rule for name, rule in self._grants if name in who]
        return "system:masters" in who or any(_allows(rule, about or path) for rule in rules)


def _allows(rule: Mapping[str, Any], asked: Mapping[str, str]) -> bool:
    if not _holds(rule.get("verbs"), asked["verb"]):
        return False
    if "path" in asked:
        urls, path = rule.get("nonResourceURLs") or [], asked["path"]
        return any(path == one or (one[-1] == "*" and path.startswith(one[:-1])) for one in urls)
    resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
    names = rule.get("resourceNames") or []
    return (
        _holds(rule.get("apiGroups"), asked.get("group", ""))
        and _holds(rule.get("resources"), resource)
        and (not names or asked.get("name", "") in names)
    )


def _holds(given: Iterable[str] | None, word: str) -> bool:
    return bool({"*", word} & {*(given or ())})


class Reviews:
    """An API server in memory that answers reviews and ``get``; it has no watches.

    With ``away`` nothing is answered. Reviews wait while ``stuck`` is not set; ``waiting`` of
    them do. Without ``knows_audiences`` answers are those of a server that knows of none.
    """

    def __init__(self) -> None:
        self.access = Access()
        self.objects: dict[Key, Object] = {}
        self.away = False
        self.knows_audiences = True
        self.stuck = asyncio.Event()
        self.stuck.set()
        self.waiting = 0
        self.asked: list[tuple[str, Object]] = []

    @property
    def api(self) -> Api:
        return cast("Api", self)

    def put(self, resource: Resource, given: Object, namespace: str = "") -> None:
        kept = copy.deepcopy(given)
        kept["metadata"].setdefault("uid", str(uuid.uuid4()))
        self.objects[Key(resource, namespace, given["metadata"]["name"])] = kept

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._answer()
        found = self.objects.get(Key(resource, namespace, name))
        if found is None:
            raise NotFoundError(f"{resource.plural} {name}: 404 not found", 404)
        return copy.deepcopy(found)

    async def create(
        self, resource: Resource, given: Object, namespace: str = "", *_: Any
    ) -> Object:
        self._answer()
        group = f"{resource.group}/{resource.version}"
        assert (given["apiVersion"], given["kind"]) == (group, resource.kind)
        self.asked.append((resource.kind, given["spec"]))
        self.waiting += 1
        try:
            await self.stuck.wait()
            answer = self.access.review(resource, given)
        except Refused as refused:
            raise ApiError(f"{resource.plural}: {refused}", 400) from None
        finally:
            self.waiting -= 1
        if not self.knows_audiences:
            answer["status"].pop("audiences", None)
        return answer

    def _answer(self) -> None:
        if self.away:
            raise ApiError("nobody answers")
