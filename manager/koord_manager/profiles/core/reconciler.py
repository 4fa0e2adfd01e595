"""Changes by profiles of pods that were there before them and wait for a node. No IO.

That is their labels and annotations, and tolerations that a patch adds. Kubernetes lets nothing
else of a pod be changed that a profile might set; of that only new pods get it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from koord_model.excerpt import excerpt
from koord_model.json_objects import Object, inside, placed

from koord_manager.profiles.core import applying, matching
from koord_manager.profiles.core.document import ColocationProfile, Texts


@dataclass(frozen=True, slots=True)
class PodChange:
    """The write for a pod: a JSON merge patch, or ``None``.

    ``profiles`` are its sources. ``lines`` say which of their fields cannot be applied.
    """

    patch: Object | None
    profiles: tuple[ColocationProfile, ...] = ()
    lines: tuple[str, ...] = ()


def managed(
    profiles: Iterable[ColocationProfile], *, by_default: bool
) -> tuple[ColocationProfile, ...]:
    """Those that are for pods that are there: labelled so, or all. One without selector is not."""
    return tuple(
        profile
        for profile in profiles
        if profile.selects
        and profile.usable
        and not profile.terminating
        and (profile.managed or by_default)
    )


def waits(pod: Object) -> bool:
    """True if a pod is still to get a node."""
    pending = inside(pod, "status").get("phase") == "Pending"
    ending = inside(pod, "metadata").get("deletionTimestamp")
    return pending and not ending and not inside(pod, "spec").get("nodeName")


def change(
    profiles: Iterable[ColocationProfile],
    pod: Object,
    namespace: str,
    namespace_labels: Texts | None,
) -> PodChange:
    """Return the changes by ``managed`` profiles of a pod that ``waits``."""
    labels = inside(pod, "metadata", "labels")
    matches = matching.for_pod(profiles, labels, namespace, namespace_labels)
    found = tuple(profile for profile in matches.profiles if _drawn(profile, pod))
    lines = list(matches.warnings)
    after = pod
    for profile in found:
        after = applying.labelled(profile, after)
        try:
            after = applying.patched(profile, after, applying.POD)
        except ValueError as error:
            lines.append(str(error))
    patch = _merge_patch(pod, after)
    if _rest(pod) != _rest(after):
        names = ", ".join(excerpt(profile.name) for profile in found if profile.patch is not None)
        lines.append(
            f"ClusterColocationProfile {names}: its patch sets more than labels, annotations and "
            "tolerations; only new pods get that"
        )
    return PodChange(patch, found, tuple(lines))


def _drawn(profile: ColocationProfile, pod: Object) -> bool:
    """True if the profile has its chance, the same one each time.

    A pod that came after the profile had its chance when it came.
    """
    metadata = inside(pod, "metadata")
    if profile.percent < 100 and str(metadata.get("creationTimestamp") or "") >= profile.created:
        return False
    identity = f"{profile.uid or profile.name}/{metadata.get('uid')}"
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7], "big")
    return matching.drawn(profile, lambda: number / (1 << 56))


def _merge_patch(pod: Object, after: Object) -> Object | None:
    patch: Object = {}
    for group in ("labels", "annotations"):
        changed = _changed(inside(pod, "metadata", group), inside(after, "metadata", group))
        if changed:
            patch = placed(patch, changed, "metadata", group)
    has = inside(pod, "spec").get("tolerations") or []
    desired = inside(after, "spec").get("tolerations")
    added = [item for item in desired if item not in has] if isinstance(desired, list) else []
    if added:
        patch = placed(patch, [*has, *added], "spec", "tolerations")
    if not patch:
        return None
    # Another pod of that name is refused.
    return placed(patch, inside(pod, "metadata").get("uid"), "metadata", "uid")


def _changed(before: Object, after: Object) -> Object:
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {key: value for key, value in after.items() if before.get(key) != value}


def _rest(pod: Object) -> Object:
    """A pod without what may be changed of it."""
    for path in (("metadata", "labels"), ("metadata", "annotations"), ("spec", "tolerations")):
        pod = placed(pod, None, *path)
    return pod
