import json
from typing import Any

import pytest
from koord_hooks.builtin import gpuenvinject
from koord_hooks.runner import load
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


@pytest.mark.parametrize("allocated", [None, {}, "null", {"gpu": None}, {"gpu": []}, {"rdma": []}])
def test_a_pod_without_gpus_is_left_alone(allocated: Any) -> None:
    assert ask(allocated) is None


class TestParts:
    def test_are_kept_to_by_the_library(self) -> None:
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

    def test_of_compute_need_not_be_told(self) -> None:
        part = gpu(**{GPU_MEMORY: 5, GPU_MEMORY_RATIO: 10})
        patch = ask({"gpu": [part]}, "HAMi-core")
        assert patch is not None
        assert "CUDA_DEVICE_SM_LIMIT" not in patch.env
        assert patch.ignored == ()

    @pytest.mark.parametrize("provider", ["", "MIG", "hami-core"])
    def test_are_not_ours_without_the_label(self, provider: str) -> None:
        patch = ask({"gpu": [HALF]}, provider)
        assert patch is not None
        assert (set(patch.env), patch.mounts) == ({"NVIDIA_VISIBLE_DEVICES"}, {})

    def test_a_whole_gpu_needs_no_library(self) -> None:
        patch = ask({"gpu": [gpu(**{GPU_MEMORY_RATIO: 100})]}, "HAMi-core")
        assert patch is not None
        assert (set(patch.env), patch.ignored) == ({"NVIDIA_VISIBLE_DEVICES"}, ())

    @pytest.mark.parametrize(
        ("own", "preloaded"),
        [
            ("/a.so", f"{LIBRARY}:/a.so"),
            ("/a.so /b.so", f"{LIBRARY}:/a.so:/b.so"),
            (f"/a.so:{LIBRARY}", f"{LIBRARY}:/a.so"),
            (LIBRARY, LIBRARY),
        ],
    )
    def test_what_a_container_preloads_itself_stays(self, own: str, preloaded: str) -> None:
        patch = ask({"gpu": [HALF]}, "HAMi-core", {"LD_PRELOAD": own})
        assert patch is not None
        assert patch.env["LD_PRELOAD"] == preloaded


class TestWhatCannotBeUsed:
    WHERE = "pod ml/train-0: annotation scheduling.koordinator.sh/device-allocated: gpu[0]"

    def test_a_gpu_without_a_number_is_left_out(self) -> None:
        for bad, shown in ((-1, "-1"), ("0", '"0"'), (True, "true"), (None, "missing")):
            patch = ask({"gpu": [gpu(bad), gpu(2)]})
            assert patch is not None
            assert patch.env == {"NVIDIA_VISIBLE_DEVICES": "2"}
            [line] = patch.ignored
            assert line == (
                f"{self.WHERE}.minor is {shown}; expected a device's number "
                "(the device is left out)"
            )

    def test_none_that_is_left_changes_nothing(self) -> None:
        patch = ask({"gpu": [gpu("0")]})
        assert patch is not None
        assert patch == Patch(ignored=patch.ignored)

    @pytest.mark.parametrize("allocated", ["{", "[]", "3"])
    def test_an_annotation_that_is_no_object_is_one_line(self, allocated: str) -> None:
        with pytest.raises(ValueError, match=r"^pod ml/train-0: annotation [^\n]*$"):
            ask(allocated)

    @pytest.mark.parametrize(
        ("bad", "shown"), [("half", '"half"'), (True, "true"), (-1, "-1"), ("1e90", '"1e90"')]
    )
    def test_amounts_cost_only_themselves(self, bad: Any, shown: str) -> None:
        part = gpu(**{GPU_CORE: bad, GPU_MEMORY: "8Gi", GPU_MEMORY_RATIO: 50})
        patch = ask({"gpu": [part]}, "HAMi-core")
        assert patch is not None
        assert patch.env["CUDA_DEVICE_MEMORY_LIMIT"] == str(8 << 30)
        assert "CUDA_DEVICE_SM_LIMIT" not in patch.env
        [line] = patch.ignored
        assert line.startswith(f"{self.WHERE}.resources.{GPU_CORE} is {shown}; expected an amount")

    def test_a_part_of_unknown_size_is_not_limited(self) -> None:
        patch = ask({"gpu": [gpu(**{GPU_MEMORY: "8Gi"})]}, "HAMi-core")
        assert patch is not None
        assert set(patch.env) == {"NVIDIA_VISIBLE_DEVICES"}
        assert patch.ignored == (
            f"{self.WHERE} has no {GPU_MEMORY_RATIO}, which HAMi-core needs (no limits set)",
        )

    def test_a_part_without_memory_is_told(self) -> None:
        part = gpu(**{GPU_CORE: 50, GPU_MEMORY_RATIO: 50})
        patch = ask({"gpu": [part]}, "HAMi-core")
        assert patch is not None
        assert patch.env["CUDA_DEVICE_SM_LIMIT"] == "50"
        assert patch.ignored[0].endswith(f"needs (only {GPU_CORE} is limited)")


def test_it_is_found_by_its_file_name() -> None:
    assert [stage.value for stage in load(["gpuenvinject"]).stages()] == ["PreCreateContainer"]
