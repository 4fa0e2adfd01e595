"""Cache occupancy and memory bandwidth by class, from a double of resctrl."""

from __future__ import annotations

import errno
from typing import cast

import pytest
from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Driver, Layout
from koordlet.metrics_advisor.collectors import resctrl
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)
from koordlet.metrics_advisor.contract.metric_kinds import KINDS
from koordlet.metrics_advisor.contract.samples import Series

from tests.support.fake_resctrl import FakeResctrl
from tests.support.text_tree import TextTree

ROOT = "/sys/fs/resctrl"
LAYOUT = Layout(2, Driver.SYSTEMD)


def llc(group: str, cache: int) -> Series:
    return Series("resctrl_resource_llc", (group, str(cache)))


def mb(group: str, cache: int, kind: str) -> Series:
    return Series("resctrl_resource_mb", (group, str(cache), kind))


class Machine:
    """A machine whose two caches have a gap in their ids."""

    def __init__(self, *groups: str, domains: tuple[int, ...] = (0, 3)) -> None:
        self.files = FakeResctrl(l3_domains=domains)
        for group in groups:
            self.files.make_directory(f"{ROOT}/{group}")
        # The collector asks nothing that the double has not.
        self.collector = resctrl.Collector(CollectorSources(cast("FileTree", self.files), LAYOUT))

    def count(self, group: str, cache: int, event: str, text: object) -> None:
        path = f"{ROOT}/{group}/mon_data/mon_L3_{cache:02}/{event}"
        self.files.set_text(path, f"{text}\n")

    def look(self, steady: float) -> tuple[dict[Series, float], Samples]:
        found = self.collector.collect(CollectContext(0.0, steady))
        for (kind, labels), _ in found.samples:
            assert len(labels) == len(KINDS[kind].labels)
        return dict(found.samples), found


def test_occupancy_at_once_and_bandwidth_from_the_second_look_on() -> None:
    machine = Machine("LS", "BE")
    machine.count("LS", 3, "llc_occupancy", 4096)
    machine.count("LS", 3, "mbm_total_bytes", 1000)
    first, found = machine.look(100.0)
    assert first == {llc("LS", 0): 0, llc("LS", 3): 4096, llc("BE", 0): 0, llc("BE", 3): 0}
    assert found.partial == ()
    machine.count("LS", 3, "mbm_total_bytes", 6000)
    machine.count("BE", 0, "mbm_local_bytes", 30)
    second, _ = machine.look(110.0)
    assert second[mb("LS", 3, "total")] == 500.0
    assert second[mb("LS", 3, "local")] == 0.0
    assert second[mb("BE", 0, "local")] == 3.0
    assert len(second) == 4 + 8


def test_a_cache_id_of_three_digits() -> None:
    machine = Machine("LS", domains=(7, 120))
    assert set(machine.look(1.0)[0]) == {llc("LS", 7), llc("LS", 120)}


@pytest.mark.parametrize("word", ["Unavailable", "Error", "Unassigned", "-1", ""])
def test_a_counter_that_the_cpu_does_not_give_now_is_left_out_and_said(word: str) -> None:
    machine = Machine("LS")
    machine.look(0.0)
    machine.count("LS", 0, "mbm_total_bytes", word)
    samples, found = machine.look(10.0)
    assert mb("LS", 0, "total") not in samples
    assert mb("LS", 3, "total") in samples
    path = f"{ROOT}/LS/mon_data/mon_L3_00/mbm_total_bytes"
    assert found.partial == (f"{path} says {word!r}",)


def test_growth_is_reckoned_over_the_time_that_a_counter_was_silent() -> None:
    machine = Machine("LS")
    machine.count("LS", 0, "mbm_total_bytes", 100)
    machine.look(0.0)
    machine.count("LS", 0, "mbm_total_bytes", "Unavailable")
    machine.look(10.0)
    machine.count("LS", 0, "mbm_total_bytes", 300)
    assert machine.look(20.0)[0][mb("LS", 0, "total")] == 10.0


def test_a_group_made_anew_begins_anew() -> None:
    machine = Machine("LS")
    machine.count("LS", 0, "mbm_total_bytes", 100)
    machine.look(0.0)
    machine.files.remove_group("LS")
    machine.files.make_directory(f"{ROOT}/LS")
    machine.count("LS", 0, "mbm_total_bytes", 5000)
    assert mb("LS", 0, "total") not in machine.look(10.0)[0]


def test_a_counter_that_begins_anew_says_nothing_once() -> None:
    machine = Machine("LS")
    machine.count("LS", 0, "mbm_total_bytes", 100)
    machine.look(0.0)
    machine.count("LS", 0, "mbm_total_bytes", 50)
    assert mb("LS", 0, "total") not in machine.look(10.0)[0]
    machine.count("LS", 0, "mbm_total_bytes", 60)
    assert machine.look(20.0)[0][mb("LS", 0, "total")] == 1.0


def test_no_group_of_a_class() -> None:
    samples, found = Machine("koordlet-u1").look(0.0)
    assert samples == {}
    assert found.partial == (f"{ROOT} has none of the groups LSR, LS, BE",)


def tree_of(texts: dict[str, str | OSError]) -> resctrl.Collector:
    return resctrl.Collector(CollectorSources(TextTree(texts), LAYOUT))


def test_other_monitors_and_parts_of_a_cache_are_not_read() -> None:
    data = f"{ROOT}/LS/mon_data"
    collector = tree_of(
        {
            f"{ROOT}/info/L3_MON/num_rmids": "8\n",
            f"{data}/mon_L3_00/llc_occupancy": "12\n",
            f"{data}/mon_L3_00/mon_sub_L3_00/llc_occupancy": "5\n",
            f"{data}/mon_L3_00/mon_sub_L3_01/llc_occupancy": "7\n",
            f"{data}/mon_PERF_PKG_00/core_energy": "1.5\n",
        }
    )
    assert dict(collector.collect(CollectContext(0.0, 0.0)).samples) == {llc("LS", 0): 12}


def test_a_group_that_goes_meanwhile_costs_no_other() -> None:
    gone = FileNotFoundError(errno.ENOENT, "gone")
    collector = tree_of(
        {
            f"{ROOT}/info/L3_MON/num_rmids": "8\n",
            f"{ROOT}/LS/mon_data/mon_L3_00/llc_occupancy": gone,
            f"{ROOT}/BE/mon_data/mon_L3_00/llc_occupancy": "9\n",
            f"{ROOT}/BE/mon_data/mon_L3_01/llc_occupancy": OSError(errno.EIO, "Input/output"),
        }
    )
    found = collector.collect(CollectContext(0.0, 0.0))
    assert dict(found.samples) == {llc("BE", 0): 9}
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
