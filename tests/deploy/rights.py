"""What rules allow, and what requests to the double of the API server need to be allowed.

For any test that runs the manager: ``missing(rights(api.asked), components=…)`` is what it asked
for and its account may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from koord_kube.protocol import resources
from koord_kube.protocol.resources import Resource

from tests.deploy.manifests import Object, installed
from tests.support.kube_api.requests import RecordedRequest, find

ACCOUNT = "koord-manager"
_KINDS = [
    *(one for one in vars(resources).values() if isinstance(one, Resource)),
    *resources.SCHEDULING_GROUPS,
]
_NAMED = re.compile(r"metadata\.name=([^,]+)")

_AUTHENTICATION_READER = {
    "apiGroups": [""],
    "resources": ["configmaps"],
    "resourceNames": ["extension-apiserver-authentication"],
    "verbs": ["get", "list", "watch"],
}
"""Of the Role extension-apiserver-authentication-reader, which Kubernetes has in kube-system."""


class Right(NamedTuple):
    """``resource`` is with its subresource; ``namespace`` and ``name`` may be empty: of all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Binding(NamedTuple):
    """Rules that hold in one namespace, or with "" in all of the cluster."""

    namespace: str
    rules: tuple[Mapping[str, Any], ...]


def rights(asked: Iterable[RecordedRequest]) -> set[Right]:
    """What has to be allowed for these requests.

    A list or watch of the object of one name is one about that name, as an API server has it.
    """
    return {right for one in asked if (right := _right(one)) is not None}


def _right(asked: RecordedRequest) -> Right | None:
    found = find(asked.path, _KINDS, _KINDS)
    if found is None:
        return None
    key = found.key
    named = _NAMED.fullmatch(asked.query.get("fieldSelector", ""))
    name = key.name or (named[1] if named else "")
    resource = "/".join(one for one in (key.resource.plural, found.subresource) if one)
    return Right(asked.verb, key.resource.group, resource, key.namespace, name)


def allowed(
    rules: Iterable[Mapping[str, Any]], verb: str, group: str, resource: str, name: str = ""
) -> bool:
    """Whether one of the rules allows it."""
    return any(
        verb in rule["verbs"]
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for rule in rules
    )


def bindings(objects: Iterable[Object], account: str = ACCOUNT) -> list[Binding]:
    """What binds the account."""
    given = list(objects)
    return [
        Binding(one["metadata"].get("namespace", ""), _rules(given, one))
        for one in given
        if one["kind"] in ("RoleBinding", "ClusterRoleBinding")
        and account in [subject["name"] for subject in one["subjects"]]
    ]


def _rules(objects: Iterable[Object], binding: Object) -> tuple[Mapping[str, Any], ...]:
    role, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
    if (role["name"], namespace) == ("extension-apiserver-authentication-reader", "kube-system"):
        return (_AUTHENTICATION_READER,)
    [found] = [
        one["rules"]
        for one in objects
        if (one["kind"], one["metadata"]["name"]) == (role["kind"], role["name"])
        and one["metadata"].get("namespace", "") in ("", namespace)
    ]
    return tuple(found)


_COMPONENTS = {
    "--enable-node-metric-api": "node-metric-api",
    "ColocationProfileController=true": "colocation-profile-controller",
    "ResourceMetricsAPI=true": "resource-metrics",
    "CustomMetricsAPI=true": "custom-metrics",
    "ExternalMetricsAPI=true": "external-metrics",
    "NodeBackstop=true": "node-backstop",
    "RolloutGuard=true": "rollout-guard",
    "PodResize=true": "pod-resize",
}


def components_for(flags: Iterable[str]) -> set[str]:
    """The components that a manager with these flags needs, and no others."""
    given = " ".join(flags)
    return {component for sign, component in _COMPONENTS.items() if sign in given}


def missing(
    wanted: Iterable[Right], account: str = ACCOUNT, components: Iterable[str] = ()
) -> list[Right]:
    """What is not allowed of what is wanted, with these components."""
    bound = bindings(installed(*components).values(), account)
    return sorted(one for one in wanted if not _is_allowed(bound, one))


def _is_allowed(bound: Iterable[Binding], wanted: Right) -> bool:
    return any(
        binding.namespace in ("", wanted.namespace)
        and allowed(binding.rules, wanted.verb, wanted.group, wanted.resource, wanted.name)
        for binding in bound
    )


def unused(
    wanted: Iterable[Right], account: str = ACCOUNT, components: Iterable[str] = ()
) -> set[tuple[str, str, str]]:
    """Group, resource and verb of what our own rules allow and nobody wanted."""
    used = list(wanted)
    return {
        (group, resource, verb)
        for binding in bindings(installed(*components).values(), account)
        if binding.namespace != "kube-system"
        for rule in binding.rules
        for group, resource, verb in _each(rule)
        if not any(
            binding.namespace in ("", one.namespace)
            and allowed([{**rule, "verbs": [verb]}], one.verb, one.group, one.resource, one.name)
            and (group, resource) == (one.group, one.resource)
            for one in used
        )
    }


def _each(rule: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield group, resource, verb
