"""Plain values into what NRI calls adjustments and updates.

    adjustment(
        resources=from_model(LinuxResources(cpu_shares=512, cpuset_cpus="0-3")),
        env={"GOMAXPROCS": "4"},
        mounts=[mount("/scratch", "/var/lib/scratch")],
    )

What is left out stays as it is. Units are the kernel's: microseconds, bytes.

What is None in a mapping is to be taken away. Of that runtimes do less than NRI says:
annotations go, mounts go since NRI 0.7, but a variable or a device goes only where
another plugin brought it. To be rid of a variable's value, set another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model.resources import RESOURCE_FIELDS, LinuxResources
from koord_proto import nri_pb2 as pb

_NOTHING: Mapping[str, str | None] = {}


def from_model(limits: LinuxResources) -> pb.LinuxResources:
    """The model's limits, without the OOM score, which is the adjustment's in NRI.

    NRI cannot clear a cpuset: "" leaves it as it is.
    """
    made = pb.LinuxResources(unified=limits.unified)
    for field in RESOURCE_FIELDS:
        value = getattr(limits, field.name)
        if field.oci is None or value is None or value == "":
            continue
        section, key = field.oci
        if field.text:
            setattr(getattr(made, section), key, value)
        else:
            getattr(getattr(made, section), key).value = value
    for size, limit in limits.hugepage_limits.items():
        made.hugepage_limits.add(page_size=size, limit=limit)
    return made


def adjustment(
    *,
    resources: pb.LinuxResources | None = None,
    oom_score_adj: int | None = None,
    env: Mapping[str, str | None] = _NOTHING,
    annotations: Mapping[str, str | None] = _NOTHING,
    mounts: Iterable[pb.Mount] = (),
    devices: Iterable[pb.LinuxDevice] = (),
) -> pb.ContainerAdjustment:
    """Changes to a container that is being made. Before NRI 0.7 the OOM score stays as it is."""
    made = pb.ContainerAdjustment(mounts=mounts)
    for name, value in env.items():
        made.env.add(key=name if value is not None else removed(name), value=value or "")
    for name, value in annotations.items():
        made.annotations[name if value is not None else removed(name)] = value or ""
    if resources is not None:
        made.linux.resources.CopyFrom(resources)
    if oom_score_adj is not None:
        made.linux.oom_score_adj.value = oom_score_adj
    for device in devices:
        made.linux.devices.append(device)
    return made


def update(
    container_id: str, resources: pb.LinuxResources, *, ignore_failure: bool = False
) -> pb.ContainerUpdate:
    """Changes to a container that exists."""
    linux = pb.LinuxContainerUpdate(resources=resources)
    return pb.ContainerUpdate(container_id=container_id, linux=linux, ignore_failure=ignore_failure)


def removed(name: str) -> str:
    """Return NRI's mark of a variable, annotation, mount or device to be removed."""
    return f"-{name}"


def mount(
    destination: str,
    source: str,
    *,
    type: str = "bind",  # noqa: A002
    options: Iterable[str] = ("rbind", "rprivate", "rw"),
) -> pb.Mount:
    """A mount; with a destination that is mounted already it takes that one's place."""
    return pb.Mount(destination=destination, source=source, type=type, options=options)


def device(
    path: str,
    major: int,
    minor: int,
    *,
    type: str = "c",  # noqa: A002
    mode: int | None = None,
    uid: int | None = None,
    gid: int | None = None,
) -> pb.LinuxDevice:
    """A device node, and the right to use it; ``type`` is "c" or "b"."""
    made = pb.LinuxDevice(path=path, type=type, major=major, minor=minor)
    for given, place in ((mode, made.file_mode), (uid, made.uid), (gid, made.gid)):
        _set(place, given)
    return made


_Optional = (
    pb.OptionalInt | pb.OptionalInt64 | pb.OptionalUInt32 | pb.OptionalUInt64 | pb.OptionalFileMode
)


def _set(place: _Optional, value: int | None) -> None:
    # To assign makes the wrapper, and all it is in, present; also a zero.
    if value is not None:
        place.SetInParent()
        place.value = value
