"""Who a request is of, and who may what: TokenReviews, access reviews, and the rules of RBAC.

A test says which token means whom and which rules bind whom; requests themselves are held
against the rules only once ``enforced`` is set.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import ACCESS_REVIEWS, TOKEN_REVIEWS
from koord_model.service_account_token import MANAGER_AUDIENCE

from tests.support.kube_kinds import grouped, qualified
from tests.support.kube_refusal import Refused, bad_request, invalid
from tests.support.kube_selecting import Key

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_NODE, _POD = "authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name"


@dataclass(frozen=True)
class Identity:
    """Who somebody is; ``audiences`` are those that their token is for."""

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
"""Of whom requests are whose token means nobody."""


def koordlet_account(node: str = "", **more: Any) -> Identity:
    """Of a koordlet, by the token that is for the manager."""
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


@dataclass(frozen=True)
class _Grant:
    who: str
    namespace: str
    rule: Mapping[str, Any]

    def allows(self, wanted: Mapping[str, str], user: str, groups: Iterable[str]) -> bool:
        if self.who not in (user, *groups) or self.namespace not in ("", wanted["namespace"]):
            return False
        resource = "/".join(one for one in (wanted["resource"], wanted["subresource"]) if one)
        names = self.rule.get("resourceNames") or []
        return (
            _holds(self.rule.get("verbs"), wanted["verb"])
            and _holds(self.rule.get("apiGroups"), wanted["group"])
            and _holds(self.rule.get("resources"), resource, f"*/{wanted['subresource']}")
            and (not names or wanted["name"] in names)
        )

    def allows_path(self, verb: str, path: str, user: str, groups: Iterable[str]) -> bool:
        if self.who not in (user, *groups):
            return False
        urls = self.rule.get("nonResourceURLs") or []
        fits = any(path == one or (one.endswith("*") and path.startswith(one[:-1])) for one in urls)
        return fits and _holds(self.rule.get("verbs"), verb)


def _holds(given: Iterable[str] | None, *wanted: str) -> bool:
    words = list(given or ())
    return "*" in words or any(one in words for one in wanted)


class Access:
    """``identities`` says what tokens mean; ``enforced``: the rules hold for requests too."""

    def __init__(self) -> None:
        self.identities: dict[str, Identity] = {}
        self.enforced = False
        self._grants: list[_Grant] = []

    def grant(self, who: str, *rules: Mapping[str, Any], namespace: str = "") -> None:
        """Bind a user or a group to the rules of a Role, or of a ClusterRole."""
        self._grants += [_Grant(who, namespace, rule) for rule in rules]

    def revoke(self, who: str) -> None:
        """Take away all that a user or a group was granted."""
        self._grants = [one for one in self._grants if one.who != who]

    def who(self, token: str) -> Identity:
        return self.identities.get(token, ADMINISTRATOR)

    def check(self, key: Key, verb: str, subresource: str, who: Identity) -> None:
        """Refuse what the rules do not grant, where they are enforced."""
        wanted = {
            "verb": verb,
            "group": key.resource.group,
            "resource": key.resource.plural,
            "subresource": subresource,
            "namespace": key.namespace,
            "name": key.name,
        }
        if self.enforced and not self._may(wanted, who.user, who.groups):
            about = "/".join(one for one in (key.resource.plural, subresource) if one)
            scope = (
                f'in the namespace "{key.namespace}"' if key.namespace else "at the cluster scope"
            )
            kind = grouped(key.resource)
            named = f'{kind} "{key.name}"' if key.name else kind
            message = (
                f'{named} is forbidden: User "{who.user}" cannot {verb} resource "{about}" '
                f'in API group "{key.resource.group}" {scope}'
            )
            raise Refused(403, "Forbidden", message, about=(kind, key.name))

    def review(self, key: Key, body: Object, who: Identity) -> Object:
        """The answer to a TokenReview or an access review."""
        found = copy.deepcopy(body)
        spec = found.get("spec") or {}
        if key.resource == TOKEN_REVIEWS:
            found["status"] = self._authenticated(spec)
        elif key.resource == ACCESS_REVIEWS:
            user, groups = spec.get("user") or "", spec.get("groups") or []
            if not user and not groups:
                causes = ("spec.user", "Invalid value: at least one of user or group is needed")
                raise invalid(qualified(key.resource), "", causes)
            found["status"] = self._allowed(key, spec, user, groups)
        else:
            found["status"] = self._allowed(key, spec, who.user, who.groups)
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

    def _allowed(self, key: Key, spec: Object, user: str, groups: Iterable[str]) -> Object:
        about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (about is None) is (path is None):
            why = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes"
            raise invalid(qualified(key.resource), "", ("spec.resourceAttributes", why))
        if path is not None:
            asked = (path.get("verb", ""), path.get("path", ""), user, [*groups])
            allowed = "system:masters" in groups or any(
                one.allows_path(*asked) for one in self._grants
            )
        else:
            names = ("verb", "group", "resource", "subresource", "namespace", "name")
            wanted = {one: (about or {}).get(one, "") for one in names}
            allowed = self._may(wanted, user, groups)
        return {"allowed": True, "reason": "RBAC: allowed"} if allowed else {"allowed": False}

    def _may(self, wanted: Mapping[str, str], user: str, groups: Iterable[str]) -> bool:
        groups = [*groups]
        if "system:masters" in groups:
            return True
        return any(one.allows(wanted, user, groups) for one in self._grants)
