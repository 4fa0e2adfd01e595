"""Containers see the GPUs that the scheduler gave their pod, and no others.

NVIDIA's runtime reads ``NVIDIA_VISIBLE_DEVICES``. Where the pod has a part of a GPU and
its label ``gpu-isolation-provider`` is "HAMi-core", that library keeps it to its part: it
is preloaded, mounted from the host, and reads its limits from the environment.

The hook protocol carries no mounts: behind a CRI proxy the library must be in the
image; NRI mounts it.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord_model.device_allocated import devices_of, where
from koord_model.keys import (
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_GPU_ISOLATION_PROVIDER,
)
from koord_model.patch import Mount, Patch
from koord_model.pod import Container

from koord_hooks.specs import hookimpl

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_PRELOAD = "LD_PRELOAD"
_HAMI_CORE = "HAMi-core"
_LIBRARY = "/usr/local/vgpu/libvgpu.so"
_LOCK = "/tmp/vgpulock"  # noqa: S108 - HAMi-core's own place, shared by all its pods
_MOUNTS = {
    # Of the host, and loaded by others: no container may write it.
    _LIBRARY: Mount(_LIBRARY, ("rbind", "ro")),
    _LOCK: Mount(_LOCK, ("rbind", "rw")),
}


@hookimpl
def pre_create_container(container: Container) -> Patch | None:
    given, ignored = devices_of(container.pod, "gpu")
    if not given:
        return Patch(ignored=ignored) if ignored else None
    minors = ",".join(str(gpu.minor) for gpu in given)
    env = {_VISIBLE: minors}
    why = f"device-allocated gives GPUs {minors} → {_VISIBLE} {minors}"
    if container.pod.labels.get(LABEL_GPU_ISOLATION_PROVIDER) != _HAMI_CORE:
        return Patch(env=env, why=why, ignored=ignored)
    # The scheduler gives several GPUs to one pod in equal parts.
    part = dict(given[0].resources)
    missing = _missing(container, part)
    if part.get(GPU_MEMORY_RATIO, 100) >= 100:
        return Patch(env=env, why=why, ignored=ignored + missing)
    names = {"CUDA_DEVICE_MEMORY_LIMIT": GPU_MEMORY, "CUDA_DEVICE_SM_LIMIT": GPU_CORE}
    limits = {name: str(part[resource]) for name, resource in names.items() if resource in part}
    shown = ", ".join(f"{name} {value}" for name, value in limits.items())
    return Patch(
        env=env | limits | _preloaded(container.env),
        mounts=_MOUNTS,
        why=f"{why}; HAMi-core, {part[GPU_MEMORY_RATIO]} % of the memory → {shown or 'no limits'}",
        ignored=ignored + missing,
    )


def _preloaded(env: Mapping[str, str]) -> dict[str, str]:
    """The library first, then what the container preloads itself."""
    own = [library for library in env.get(_PRELOAD, "").replace(" ", ":").split(":") if library]
    return {_PRELOAD: ":".join([_LIBRARY, *(library for library in own if library != _LIBRARY)])}


def _missing(container: Container, part: Mapping[str, int]) -> tuple[str, ...]:
    begin = f"{where(container.pod)} gpu[0]"
    if GPU_MEMORY_RATIO not in part:
        return (f"{begin} has no {GPU_MEMORY_RATIO}, which HAMi-core needs (no limits set)",)
    if part[GPU_MEMORY_RATIO] < 100 and GPU_MEMORY not in part:
        kept = f"only {GPU_CORE} is limited" if GPU_CORE in part else "no limits set"
        return (f"{begin} has no {GPU_MEMORY}, which HAMi-core needs ({kept})",)
    return ()
