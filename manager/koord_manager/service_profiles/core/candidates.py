"""Choice of the profile that a workload, or a pod, belongs to. No IO."""

from __future__ import annotations

from koord_model.label_selector import Labels, Operator

from koord_manager.service_profiles.core.document import ProfileDocument, ProfileSource
from koord_manager.service_profiles.core.objects import ProfiledWorkload


def rank(document: ProfileDocument) -> tuple[bool, bool, str, str]:
    """The order in which profiles of one workload go."""
    is_twin = document.source is ProfileSource.CONFIG_MAP
    return is_twin, document.name != document.workload, document.created, document.name


class ProfileCandidates:
    """Profiles in force of one namespace, found by a label that their pods must have."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[str]] = {}
        self._others: list[str] = []
        self._workloads: dict[str, ProfiledWorkload] = {}

    def add(self, key: str, workload: ProfiledWorkload) -> None:
        """Put a profile in force."""
        self._workloads[key] = workload
        for required in workload.selector.requirements:
            if required.operator is Operator.IN and len(required.values) == 1:
                label = required.key, *required.values
                self._by_label.setdefault(label, []).append(key)  # type: ignore[arg-type]
                return
        self._others.append(key)

    def of(self, labels: Labels) -> str:
        """The first by name whose workload selects a pod; "" for none."""
        listed = [self._by_label.get(label, ()) for label in labels.items()]
        keys = (key for some in (*listed, self._others) for key in some)
        return min((key for key in keys if self._selects(key, labels)), default="")

    def _selects(self, key: str, labels: Labels) -> bool:
        return self._workloads[key].selector.matches(labels)
