"""A profile applied to a pod or a reservation: a new object, the old one is not changed. No IO.

In Koordinator's order: labels, annotations, both key mappings, suffixes, scheduler, quality
class, priority class, sub-priority, patch. Applied again it changes nothing more, unless
profiles feed each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord_model.excerpt import excerpt
from koord_model.json_objects import Object, inside, placed, without
from koord_model.keys import LABEL_PRIORITY, LABEL_QOS

from koord_manager.profiles.core import merge_keys
from koord_manager.profiles.core.document import ColocationProfile, Texts
from koord_manager.profiles.core.strategic_merge import MergeType, merged


@dataclass(frozen=True, slots=True)
class ProfileTarget:
    """A kind of object that profiles are applied to: where its pod's spec is, and what merges."""

    spec: tuple[str, ...]
    type: MergeType


POD = ProfileTarget(("spec",), merge_keys.POD)
RESERVATION = ProfileTarget(("spec", "template", "spec"), merge_keys.RESERVATION)


def applied(
    profile: ColocationProfile,
    given: Object,
    target: ProfileTarget,
    priority_classes: Mapping[str, Object],
) -> Object:
    """The object with the whole profile applied.

    Raises:
        ValueError: the profile's priority class is not there, or its patch does not fit; one
            line says which and what to do.
    """
    named = labelled(profile, given)
    return patched(profile, _scheduled(profile, named, target, priority_classes), target)


def labelled(profile: ColocationProfile, given: Object) -> Object:
    """The object with the profile's labels and annotations; those of its classes too.

    Mapped keys have the values from before the mapping; where there is none nothing is written.
    A suffix that is there already is not put there again.
    """
    before = inside(given, "metadata", "labels")
    labels = {**before, **profile.labels}
    labels |= _mapped(labels, profile.label_keys)
    for key, suffix in profile.label_suffixes.items():
        # Another profile's patch may have set a value that is not text, which is refused later.
        if isinstance(text := labels.get(key), str) and not text.endswith(suffix):
            labels[key] = text + suffix
    if profile.qos:
        labels[LABEL_QOS] = profile.qos.value
    if profile.koordinator_priority is not None:
        labels[LABEL_PRIORITY] = str(profile.koordinator_priority)
    noted = inside(given, "metadata", "annotations")
    annotations = {**noted, **profile.annotations}
    annotations |= _mapped(annotations, profile.annotation_keys)
    if labels != before:
        given = placed(given, labels, "metadata", "labels")
    if annotations != noted:
        given = placed(given, annotations, "metadata", "annotations")
    return given


def patched(profile: ColocationProfile, given: Object, target: ProfileTarget) -> Object:
    """The object with the profile's strategic merge patch.

    Raises:
        ValueError: the patch does not fit; one line says where.
    """
    if profile.patch is None:
        return given
    try:
        return merged(given, profile.patch, target.type)
    except ValueError as error:
        raise ValueError(f"{_about(profile)} spec.{error}; mend the profile") from None
    except RecursionError:
        raise ValueError(f"{_about(profile)} spec.patch is nested too deep; mend it") from None


def _mapped(given: Texts, keys: Texts) -> dict[str, str]:
    return {new: given[old] for old, new in keys.items() if old in given}


def _scheduled(
    profile: ColocationProfile,
    given: Object,
    target: ProfileTarget,
    priority_classes: Mapping[str, Object],
) -> Object:
    """With the scheduler and the priority class; a reservation without a pod's spec has none."""
    spec = inside(given, *target.spec)
    if not (profile.scheduler_name or profile.priority_class_name) or not spec:
        return given
    if profile.scheduler_name:
        spec = {**spec, "schedulerName": profile.scheduler_name}
    if profile.priority_class_name:
        spec = _with_priority(profile, spec, priority_classes)
    return placed(given, spec, *target.spec)


def _with_priority(
    profile: ColocationProfile, spec: Object, priority_classes: Mapping[str, Object]
) -> Object:
    name = profile.priority_class_name
    found = priority_classes.get(name)
    value = found.get("value") if found is not None else None
    if found is None or isinstance(value, bool) or not isinstance(value, int):
        lacks = "is not in the cluster" if found is None else "has no value"
        raise ValueError(
            f"{_about(profile)} spec.priorityClassName is {excerpt(name)}, which {lacks}; "
            "create that PriorityClass, or mend the profile"
        )
    named = {**without(spec, "preemptionPolicy"), "priorityClassName": name, "priority": value}
    policy = found.get("preemptionPolicy")
    return {**named, "preemptionPolicy": policy} if isinstance(policy, str) else named


def _about(profile: ColocationProfile) -> str:
    return f"ClusterColocationProfile {excerpt(profile.name)}"
