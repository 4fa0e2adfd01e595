import json
from typing import Any

import pytest
from koord_hooks.builtin import gpuenvinject
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    LABEL_GPU_ISOLATION_PROVIDER,
)
from koord_model.patch import Mount, Patch
from koord_model.pod import Container, Pod

LIBRARY = "/usr/local/vgpu/libvgpu.so"


def gpu(minor: Any = 0, **resources: Any) -> dict[str, Any]:
    return {"minor": minor, "resources": resources}


HALF = gpu(1, **{GPU_CORE: "50", GPU_MEMORY: "8Gi", GPU_MEMORY_RATIO: "50"})


def ask(allocated: Any, provider: str = "", env: dict[str, str] | None = None) -> Patch | None:
    text = allocated if isinstance(allocated, str) else json.dumps(allocated)
    annotations = {} if allocated is None else {ANNOTATION_DEVICE_ALLOCATED: text}
    labels = {LABEL_GPU_ISOLATION_PROVIDER: provider}
    return gpuenvinject.pre_create_container(
        Container(Pod("train-0", "ml", "uid", labels, annotations), "main", env=env or {})
    )


def test_a_container_sees_its_pods_gpus() -> None:
    assert ask({"gpu": [gpu(3), gpu(0)], "rdma": "not looked at"}) == Patch(
        env={"NVIDIA_VISIBLE_DEVICES": "3,0"},
        why="device-allocated gives GPUs 3,0 → NVIDIA_VISIBLE_DEVICES 3,0",
    )
    for nothing in (None, {}, "null", {"gpu": None}, {"gpu": []}, {"rdma": []}):
        assert ask(nothing) is None


def test_parts_are_kept_to_by_the_library() -> None:
    assert ask({"gpu": [HALF]}, "HAMi-core") == Patch(
        env={
            "NVIDIA_VISIBLE_DEVICES": "1",
            "CUDA_DEVICE_MEMORY_LIMIT": str(8 << 30),
            "CUDA_DEVICE_SM_LIMIT": "50",
            "LD_PRELOAD": LIBRARY,
        },
        mounts={
            LIBRARY: Mount(LIBRARY, ("rbind", "ro")),
            "/tmp/vgpulock": Mount("/tmp/vgpulock", ("rbind", "rw")),
        },
        why=(
            "device-allocated gives GPUs 1 → NVIDIA_VISIBLE_DEVICES 1; HAMi-core, 50 % of the "
            "memory → CUDA_DEVICE_MEMORY_LIMIT 8589934592, CUDA_DEVICE_SM_LIMIT 50"
        ),
    )


WHERE = "pod ml/train-0: annotation scheduling.koordinator.sh/device-allocated: gpu[0]"
LIMITED = {"NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD"}
SEEN, MEMORY, CORE = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"


@pytest.mark.parametrize(
    ("part", "provider", "env", "reported"),
    [
        (gpu(**{GPU_MEMORY: 5, GPU_MEMORY_RATIO: 10}), "HAMi-core", LIMITED | {MEMORY}, ""),
        *((HALF, provider, {SEEN}, "") for provider in ("", "MIG", "hami-core")),
        (gpu(**{GPU_MEMORY_RATIO: 100}), "HAMi-core", {SEEN}, ""),
        (
            *(gpu(**{GPU_MEMORY: "8Gi"}), "HAMi-core", {SEEN}),
            f" has no {GPU_MEMORY_RATIO}, which HAMi-core needs (no limits set)",
        ),
        (
            *(gpu(**{GPU_CORE: 50, GPU_MEMORY_RATIO: 50}), "HAMi-core", LIMITED | {CORE}),
            f" has no {GPU_MEMORY}, which HAMi-core needs (only {GPU_CORE} is limited)",
        ),
        *(
            (
                *(gpu(**{GPU_CORE: bad, GPU_MEMORY: "8Gi", GPU_MEMORY_RATIO: 50}), "HAMi-core"),
                *(LIMITED | {MEMORY}, f".resources.{GPU_CORE} is {shown}; expected an amount"),
            )
            for bad, shown in (("half", '"half"'), (True, "true"), (-1, "-1"), ("1e90", '"1e90"'))
        ),
    ],
)
def test_what_is_limited(part: dict[str, Any], provider: str, env: set[str], reported: str) -> None:
    patch = ask({"gpu": [part]}, provider)
    assert patch is not None
    assert set(patch.env) == env
    assert bool(patch.mounts) == ("LD_PRELOAD" in env)
    assert [line[: len(WHERE + reported)] for line in patch.ignored] == (
        [WHERE + reported] if reported else []
    )


@pytest.mark.parametrize(
    ("own", "preloaded"),
    [
        ("/a.so", f"{LIBRARY}:/a.so"),
        ("/a.so /b.so", f"{LIBRARY}:/a.so:/b.so"),
        (f"/a.so:{LIBRARY}", f"{LIBRARY}:/a.so"),
        (LIBRARY, LIBRARY),
    ],
)
def test_what_a_container_preloads_itself_stays(own: str, preloaded: str) -> None:
    patch = ask({"gpu": [HALF]}, "HAMi-core", {"LD_PRELOAD": own})
    assert patch is not None
    assert patch.env["LD_PRELOAD"] == preloaded


@pytest.mark.parametrize(
    ("bad", "shown"), [(-1, "-1"), ("0", '"0"'), (True, "true"), (None, "missing")]
)
def test_a_gpu_without_a_number_is_left_out(bad: Any, shown: str) -> None:
    expected = f"{WHERE}.minor is {shown}; expected a device's number (the device is left out)"
    assert ask({"gpu": [gpu(bad)]}) == Patch(ignored=(expected,))
    patch = ask({"gpu": [gpu(bad), gpu(2)]})
    assert patch is not None
    assert (patch.env, patch.ignored) == ({"NVIDIA_VISIBLE_DEVICES": "2"}, (expected,))
