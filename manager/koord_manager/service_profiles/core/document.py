"""A profile as its author wrote it: a ServiceProfileDescriptor, or a ConfigMap twin. No IO.

The twin has the label ``koordinator.sh/configmap-type: service-profile`` and, in ``data.spec``, the
descriptor's spec as YAML or JSON. Of a target the upper bound counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec
from koord_model.fields import Fields, shown
from koord_model.service_targets import Indicator
from koord_model.yaml_documents import yaml_document

from koord_manager.service_profiles.core.extended import ExtendedIndicators, read_extended
from koord_manager.service_profiles.core.indicators import only, read_targets
from koord_manager.service_profiles.core.objects import WorkloadKind

TYPE_LABEL = ("koordinator.sh/configmap-type", "service-profile")
SPEC_KEY = "spec"

_MOST_LINES = 20
"""Lines kept of one profile: its author may write anything, up to 1 MiB."""
_FIELDS = (
    *("targetRef", "baselinePercent", "systemIndicator", "extendedIndicator"),
    "businessIndicator",
)

NO_KIND = WorkloadKind("", "")


class ProfileSource(StrEnum):
    """Kind of object that a profile is from; the first goes before."""

    DESCRIPTOR = "ServiceProfileDescriptor"
    CONFIG_MAP = "ConfigMap"


@dataclass(frozen=True, slots=True)
class ProfileDocument:
    """A profile; ``created`` is as Kubernetes writes times.

    ``problem`` is why nothing of it can be used. ``refused`` are lines on parts that cannot be,
    ``unused`` on those that nothing here acts on. Percentages are of the service's pods.
    """

    source: ProfileSource
    namespace: str
    name: str
    uid: str = ""
    created: str = ""
    kind: WorkloadKind = NO_KIND
    workload: str = ""
    targets: Mapping[Indicator, float] = field(default_factory=dict)
    baseline_percent: int | None = None
    extended: ExtendedIndicators = field(default_factory=ExtendedIndicators)
    problem: str = ""
    refused: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return "namespace/name"."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> dict[str, str]:
        """Return an Event's reference to it."""
        version = "v1" if self.source is ProfileSource.CONFIG_MAP else DESCRIPTOR_VERSION
        about = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {"apiVersion": version, "kind": self.source.value, "metadata": about}  # type: ignore[dict-item]

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything that has no effect, and why."""
        return self.errors + self.unused

    @property
    def errors(self) -> tuple[str, ...]:
        """Lines on what its author has to mend."""
        return ((self.problem,) if self.problem else ()) + self.refused


NO_PROFILE = ProfileDocument(ProfileSource.CONFIG_MAP, "", "")

DESCRIPTOR_VERSION = "workload.katalyst.kubewharf.io/v1alpha1"


def read(document: Mapping[str, Any], source: ProfileSource) -> ProfileDocument:
    """Read an object; whatever is in it, what can be used is."""
    meta = Fields(document.get("metadata"), "metadata", [])
    about = (
        meta.text("namespace"),
        meta.text("name"),
        meta.text("uid"),
        meta.text("creationTimestamp"),
    )
    refused: list[str] = []
    unused: list[str] = []
    try:
        spec = Fields(_spec(document, source), "spec", refused)
        kind, workload = _target_ref(spec.of("targetRef"))
    except ValueError as error:
        return ProfileDocument(source, *about, problem=str(error))
    only(spec, *_FIELDS)
    targets = dict(read_targets(spec, unused))
    extended = read_extended(spec, unused)
    if spec.has("businessIndicator"):
        unused.append("spec businessIndicator: nothing here measures services' own numbers")
    return ProfileDocument(
        source,
        *about,
        kind=kind,
        workload=workload,
        targets=targets,
        baseline_percent=spec.number("baselinePercent", None, 0, 100),
        extended=extended,
        refused=tuple(refused[:_MOST_LINES]),
        unused=tuple(unused[:_MOST_LINES]),
    )


def _spec(document: Mapping[str, Any], source: ProfileSource) -> object:
    if source is ProfileSource.DESCRIPTOR:
        return document.get("spec")
    data = document.get("data")
    given = data.get(SPEC_KEY) if isinstance(data, Mapping) else None
    if not isinstance(given, str):
        raise ValueError(f"data.{SPEC_KEY} is {shown(given)}; expected a profile's spec as YAML")  # noqa: TRY004 - input
    try:
        return msgspec.to_builtins(yaml_document(given), str_keys=True)
    except (TypeError, ValueError) as error:  # TypeError: a key that JSON cannot have
        raise ValueError(f"data.{SPEC_KEY} is not valid YAML: {error}") from None


def _target_ref(fields: Fields) -> tuple[WorkloadKind, str]:
    found = {name: fields.text(name) for name in ("apiVersion", "kind", "name")}
    for name, value in found.items():
        if not value:
            raise ValueError(
                f"spec targetRef.{name} is missing; expected that of a workload, such as "
                "apps/v1, Deployment, web"
            )
    return WorkloadKind(found["apiVersion"], found["kind"]), found["name"]
