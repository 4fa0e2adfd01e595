"""Plain values become adjustments, and nothing else does."""

from __future__ import annotations

from koord_model.resources import LinuxResources
from koord_proto import nri_pb2 as pb
from koordlet.runtime_hooks.nri.protocol.adjustments import (
    adjustment,
    device,
    from_model,
    mount,
    update,
)
from koordlet.runtime_hooks.nri.protocol.convert import to_resources

from tests.support.nri_limits import resources


def test_nothing_asked_is_nothing_said():
    assert resources().SerializeToString() == b""
    assert adjustment().SerializeToString() == b""


def test_every_limit_finds_its_place():
    assert resources(
        cpu_shares=512,
        cpu_quota=-1,
        cpu_period=100_000,
        cpuset_cpus="0-3",
        cpuset_mems="0",
        memory_limit=1 << 30,
        memory_swap_limit=-1,
        hugepage_limits={"2MB": 4 << 20},
        unified={"memory.high": "max"},
    ) == pb.LinuxResources(
        cpu=pb.LinuxCPU(
            shares=pb.OptionalUInt64(value=512),
            quota=pb.OptionalInt64(value=-1),
            period=pb.OptionalUInt64(value=100_000),
            cpus="0-3",
            mems="0",
        ),
        memory=pb.LinuxMemory(
            limit=pb.OptionalInt64(value=1 << 30),
            swap=pb.OptionalInt64(value=-1),
        ),
        hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=4 << 20)],
        unified={"memory.high": "max"},
    )


def test_zero_is_a_value():
    made = resources(cpu_quota=0)
    assert made.cpu.HasField("quota")
    assert not made.HasField("memory")
    score = adjustment(oom_score_adj=0)
    assert score.linux.HasField("oom_score_adj")


def test_the_models_limits_survive_both_ways():
    limits = LinuxResources(
        cpu_period=100_000,
        cpu_quota=50_000,
        cpu_shares=2,
        memory_limit=1 << 20,
        memory_swap_limit=-1,
        cpuset_cpus="1",
        cpuset_mems="0",
        hugepage_limits={"1GB": 1 << 30},
        unified={"cpu.idle": "1"},
    )
    assert to_resources(from_model(limits)) == limits
    assert to_resources(from_model(LinuxResources())) == LinuxResources()


def test_adjustment_adds_and_takes_away():
    given = resources(cpu_shares=2)
    made = adjustment(
        resources=given,
        oom_score_adj=-5,
        env={"A": "1", "B": None, "C": ""},
        annotations={"x": "y", "gone": None},
        mounts=[mount("/data", "/srv")],
        devices=[device("/dev/x", 1, 2, mode=0o600, uid=0, gid=5)],
    )
    assert made == pb.ContainerAdjustment(
        annotations={"x": "y", "-gone": ""},
        mounts=[
            pb.Mount(
                destination="/data",
                source="/srv",
                type="bind",
                options=["rbind", "rprivate", "rw"],
            ),
        ],
        env=[
            pb.KeyValue(key="A", value="1"),
            pb.KeyValue(key="-B"),
            pb.KeyValue(key="C"),
        ],
        linux=pb.LinuxContainerAdjustment(
            devices=[
                pb.LinuxDevice(
                    path="/dev/x",
                    type="c",
                    major=1,
                    minor=2,
                    file_mode=pb.OptionalFileMode(value=0o600),
                    uid=pb.OptionalUInt32(value=0),
                    gid=pb.OptionalUInt32(value=5),
                ),
            ],
            resources=given,
            oom_score_adj=pb.OptionalInt(value=-5),
        ),
    )


def test_update_names_its_container():
    given = resources(cpu_quota=20_000)
    assert update("c1", given, ignore_failure=True) == pb.ContainerUpdate(
        container_id="c1",
        linux=pb.LinuxContainerUpdate(resources=given),
        ignore_failure=True,
    )
