"""TokenReview and SubjectAccessReview: what is sent, and what the answer means. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from koord_kube.protocol.api import Object
from koord_model.label_selector import Requirement

from koord_serving.delegated_auth.core.users import User

_LONGEST_TOKEN = 16384
_BEARER = re.compile(r"Bearer +([!-~]+) *", re.IGNORECASE)


class AccessAttributes(NamedTuple):
    """A user's request to be authorized; ``path`` is set if it is not about a resource.

    ``fields`` and ``labels`` are what a list or a watch is limited to.
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""
    fields: tuple[Requirement, ...] = ()
    labels: tuple[Requirement, ...] = ()
    namespace: str = ""
    subresource: str = ""

    def document(self) -> Object:
        """As reviews have them."""
        found: Object = {key: value for key, value in self._asdict().items() if value}
        for name, key in (("fields", "fieldSelector"), ("labels", "labelSelector")):
            if requirements := found.pop(name, ()):
                found[key] = {
                    "requirements": [_requirement(requirement) for requirement in requirements]
                }
        return found


class AccessAnswer(NamedTuple):
    """Decision on a user's request, and the reason of the API server's authorizer."""

    allowed: bool
    reason: str = ""


def bearer_token(authorization: str) -> str:
    """The token in a header "Authorization"; "" if it has none that could be one."""
    found = _BEARER.fullmatch(authorization)
    return found[1] if found and len(found[1]) <= _LONGEST_TOKEN else ""


def digest(token: str) -> bytes:
    """The key by which a token is remembered: tokens themselves are never stored."""
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def token_review(token: str, audience: str = "") -> Object:
    """Asks who a token for ``audience`` belongs to; "" is the API server itself."""
    spec: Object = {"token": token}
    if audience:
        spec["audiences"] = [audience]
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}


def reviewed_user(review: Object, audience: str = "") -> User | None:
    """The user in the API server's answer; ``None`` if the token is not valid.

    With an ``audience`` the answer must name it: a server that does not know audiences
    authenticates each valid token.
    """
    status = _mapping(review.get("status"))
    user = _mapping(status.get("user"))
    name = user.get("username")
    if status.get("authenticated") is not True or not isinstance(name, str) or not name:
        return None
    if audience and audience not in (status.get("audiences") or ()):
        return None
    extra = _mapping(user.get("extra"))
    return User(
        name,
        str(user.get("uid") or ""),
        tuple(map(str, user.get("groups") or ())),
        tuple(sorted((str(key), tuple(map(str, values or ()))) for key, values in extra.items())),
    )


def access_review(user: User, attributes: AccessAttributes) -> Object:
    """Asks whether a user may do something."""
    kind = "nonResourceAttributes" if attributes.path else "resourceAttributes"
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
        kind: attributes.document(),
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec,
    }


def access_answer(review: Object) -> AccessAnswer:
    """The API server's answer."""
    status = _mapping(review.get("status"))
    allowed = status.get("allowed") is True and status.get("denied") is not True
    return AccessAnswer(allowed, str(status.get("reason") or ""))


def forbidden(user: User, attributes: AccessAttributes, reason: str = "") -> str:
    """The message for a user that may not do it, in the API server's words."""
    what = attributes.path or f"{attributes.resource}.{attributes.group}"
    message = f'User "{user.name}" cannot {attributes.verb} {what}'
    return f"{message}: {reason}" if reason else message


def _requirement(given: Requirement) -> Object:
    found: Object = {"key": given.key, "operator": given.operator.value}
    return found | ({"values": sorted(given.values)} if given.values else {})


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
