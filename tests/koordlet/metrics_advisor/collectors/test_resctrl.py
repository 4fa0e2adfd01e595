"""Cache occupancy and memory bandwidth by class, from a double of resctrl."""

from __future__ import annotations

import errno
from typing import cast

import pytest
from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import MemoryBandwidthInfo
from koordlet.metrics_advisor.collectors import resctrl
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

from tests.koordlet.metrics_advisor.collectors.used_node import values
from tests.support.fake_resctrl import FakeResctrl
from tests.support.text_tree import TextTree

ROOT = "/sys/fs/resctrl"
LAYOUT = Layout(2, Driver.SYSTEMD)


def llc(group: str, cache: int) -> tuple[str, ...]:
    return ("resctrl_resource_llc", group, str(cache))


def mb(group: str, cache: int, kind: str) -> tuple[str, ...]:
    return ("resctrl_resource_mb", group, str(cache), kind)


class Machine:
    """A machine whose two caches have ids with a gap, one of three digits."""

    def __init__(self, *groups: str) -> None:
        self.files = FakeResctrl(l3_domains=(0, 120))
        for group in groups:
            self.files.make_directory(f"{ROOT}/{group}")
        # The collector asks nothing that the double has not.
        self.collector = resctrl.Collector(CollectorSources(cast("FileTree", self.files), LAYOUT))

    def count(self, group: str, cache: int, event: str, text: object) -> None:
        path = f"{ROOT}/{group}/mon_data/mon_L3_{cache:02}/{event}"
        self.files.set_text(path, f"{text}\n")

    def look(self, steady: float) -> tuple[dict[tuple[str, ...], float], Samples]:
        found = self.collector.collect(CollectContext(0.0, steady))
        return values(found), found


def test_occupancy_at_once_and_bandwidth_from_the_second_look_on() -> None:
    machine = Machine("LS", "BE")
    machine.count("LS", 120, "llc_occupancy", 4096)
    machine.count("LS", 120, "mbm_total_bytes", 1000)
    first, found = machine.look(100.0)
    others = {llc(group, cache): 0 for group in ("BE", "root") for cache in (0, 120)}
    assert first == {llc("LS", 0): 0, llc("LS", 120): 4096, **others}
    assert found.partial == ()
    machine.count("LS", 120, "mbm_total_bytes", 6000)
    machine.count("BE", 0, "mbm_local_bytes", 30)
    second, _ = machine.look(110.0)
    assert second[mb("LS", 120, "total")] == 500.0
    assert second[mb("LS", 120, "local")] == 0.0
    assert second[mb("BE", 0, "local")] == 3.0
    assert len(second) == 6 + 12


@pytest.mark.parametrize("word", ["Unavailable", "Error", "Unassigned", "-1", ""])
def test_a_counter_that_the_cpu_does_not_give_now_is_left_out_and_said(word: str) -> None:
    machine = Machine("LS")
    machine.look(0.0)
    machine.count("LS", 0, "mbm_total_bytes", word)
    samples, found = machine.look(10.0)
    assert mb("LS", 0, "total") not in samples
    assert mb("LS", 120, "total") in samples
    path = f"{ROOT}/LS/mon_data/mon_L3_00/mbm_total_bytes"
    assert found.partial == (f"{path} says {word!r}",)


@pytest.mark.parametrize(
    ("counted", "made_anew", "rates"),
    [
        ((100, "Unavailable", 300), False, [None, None, 10.0]),
        ((100, 50, 60), False, [None, None, 1.0]),
        ((100, 5000, 5010), True, [None, None, 1.0]),
    ],
    ids=["silent for a while", "begun anew", "group made anew"],
)
def test_growth(counted: tuple[object, ...], made_anew: bool, rates: list[float | None]) -> None:
    machine = Machine("LS")
    found = []
    for round_, value in enumerate(counted):
        if made_anew and round_ == 1:
            machine.files.remove_group("LS")
            machine.files.make_directory(f"{ROOT}/LS")
        machine.count("LS", 0, "mbm_total_bytes", value)
        found.append(machine.look(10.0 * round_)[0].get(mb("LS", 0, "total")))
    assert found == rates


def test_no_group_of_a_class() -> None:
    samples, found = Machine("koordlet-u1").look(0.0)
    assert samples == {}
    assert found.partial == (f"{ROOT} has none of the groups LSR, LS, BE",)


def tree_of(texts: dict[str, str | OSError]) -> resctrl.Collector:
    return resctrl.Collector(CollectorSources(TextTree(texts), LAYOUT))


def test_what_is_not_read_and_what_cannot_be() -> None:
    data = f"{ROOT}/LS/mon_data"
    found = tree_of(
        {
            f"{ROOT}/info/L3_MON/num_rmids": "8\n",
            f"{data}/mon_L3_00/llc_occupancy": "12\n",
            f"{data}/mon_L3_00/mon_sub_L3_00/llc_occupancy": "5\n",
            f"{data}/mon_PERF_PKG_00/core_energy": "1.5\n",
            f"{ROOT}/LSR/mon_data/mon_L3_00/llc_occupancy": FileNotFoundError(2, "gone"),
            f"{ROOT}/BE/mon_data/mon_L3_00/llc_occupancy": "9\n",
            f"{ROOT}/BE/mon_data/mon_L3_01/llc_occupancy": OSError(errno.EIO, "Input/output"),
        }
    ).collect(CollectContext(0.0, 0.0))
    assert values(found) == {llc("LS", 0): 12, llc("BE", 0): 9}
    assert found.partial == (f"{ROOT}/BE/mon_data/mon_L3_01/llc_occupancy: Input/output",)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({}, r"not mounted \(mount -t resctrl resctrl /sys/fs/resctrl\)"),
        ({f"{ROOT}/info/L3/cbm_mask": "f\n"}, r"does not monitor: the CPU needs CMT or MBM"),
    ],
)
def test_nothing_to_monitor(texts: dict[str, str | OSError], said: str) -> None:
    with pytest.raises(UnavailableError, match=said):
        tree_of(texts).collect(CollectContext(0.0, 0.0))


def test_limits_of_bandwidth_are_those_of_the_moment() -> None:
    machine = Machine("BE")
    machine.files.write(f"{ROOT}/BE/schemata", "MB:120=30\n")
    _, found = machine.look(100.0)
    assert found.infos == (MemoryBandwidthInfo(100.0, 10, 10, 100, {"BE": {0: 100, 120: 30}}),)
    machine.files = FakeResctrl(l3_domains=(0,), mb=None)
    machine.files.make_directory(f"{ROOT}/BE")
    machine.collector = resctrl.Collector(CollectorSources(cast("FileTree", machine.files), LAYOUT))
    assert machine.look(110.0)[1].infos == ()
