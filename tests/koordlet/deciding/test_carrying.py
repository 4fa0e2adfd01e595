from __future__ import annotations

from dataclasses import replace

from koord_host.executor import Executor
from koord_host.journal import Decided, Journal, read_events
from koord_host.layout import Driver, Layout
from koord_host.originals import Originals
from koord_host.resctrl import ResctrlGroups
from koord_host.wishes import Owner, Priority, Target, Wish
from koord_model.resctrl import ResctrlWish, Ways
from koordlet.deciding.carrying import Carrier, Wanted
from koordlet.deciding.contract import CacheClass
from koordlet.reconciler import HOOKS
from koordlet.tasks import Tasks

from tests.support.fake_node import FakeNode

BE = "kubepods/besteffort"
QUOTA = Target(BE, "cpu.cfs_quota_us")
LAYOUT = Layout(2, Driver.CGROUPFS)


class Bench:
    """A carrier on a node in memory."""

    def __init__(self, directory: str = "") -> None:
        self.node = FakeNode(2)
        self.node.cgroups.make_group(f"{BE}/pod1")
        self.begin(directory)

    def begin(self, directory: str = "") -> None:
        """Koordlet starts, with what is kept in a directory."""
        path = f"{directory}/journal" if directory else ""
        self.journal = Journal(path, print)
        self.originals = Originals(f"{directory}/originals" if directory else "", print)
        self.executor = Executor(
            self.node,
            LAYOUT,
            self.journal,
            self.originals,
            clock=lambda: 0.0,
            monotonic=lambda: 0.0,
        )
        resctrl = ResctrlGroups(self.node, record=lambda *_: None)
        self.tasks = Tasks(HOOKS, self.node, LAYOUT, lambda: 0.0, 60.0, None, resctrl)
        self.carrier = Carrier(self.executor, self.tasks, self.journal)

    def round(self, *handed: Wanted) -> None:
        for wanted in handed:
            self.carrier.put(wanted)
        self.carrier.take()
        self.tasks.level(self.executor, complete=True)
        self.executor.apply()

    def read(self, file: str, group: str = BE) -> str:
        return self.node.read(f"/sys/fs/cgroup/{group}/{file}").strip()

    def kill(self) -> None:
        """Nothing is put back, and the files are let go of."""
        self.journal.close()
        self.originals.close()


def quota(value: int) -> Wish:
    return Wish(QUOTA, value, "suppressed")


def wanted(*wishes: Wish) -> Wanted:
    return Wanted({"cpu_suppress": wishes})


def test_wishes_are_written_and_put_back_when_the_strategy_wants_nothing_more() -> None:
    bench = Bench()
    bench.round(wanted(quota(50_000)))
    assert bench.read("cpu.max") == "50000 100000"
    bench.round()
    assert bench.read("cpu.max") == "50000 100000"
    bench.round(Wanted())
    assert bench.read("cpu.max") == "max 100000"


def test_what_hooks_want_decides_again() -> None:
    bench = Bench()
    bench.executor.wish(Owner("hooks", Priority.HOOKS), "node", (quota(80_000),))
    bench.round(wanted(quota(50_000)))
    assert bench.carrier.base(QUOTA) == 80_000
    bench.round(Wanted())
    assert bench.read("cpu.max") == "80000 100000"


def test_of_several_rounds_the_last_counts_and_no_deed_is_lost() -> None:
    bench = Bench()
    deed = Wish(Target(BE, "memory.reclaim"), 1 << 20, "pressure is low")
    first = replace(wanted(quota(50_000)), deeds=(("memory_offload", (deed,)),))
    before = bench.read("memory.current")
    bench.round(first, wanted(quota(40_000)))
    assert bench.read("cpu.max") == "40000 100000"
    assert bench.carrier.base(QUOTA) == -1
    assert before == "0"


def test_decisions_are_in_the_journal(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    line = Decided("2026-01-31T12:00:00.000Z", "cpu_suppress", "on", "5 CPUs")
    bench.round(Wanted(lines=(line,)))
    assert list(read_events(f"{tmp_path}/journal")) == [line]


def test_what_an_earlier_run_left_is_put_back_once_all_is_known(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    bench.round(wanted(quota(50_000)))
    bench.kill()
    bench.begin(str(tmp_path))
    bench.round(Wanted())
    assert bench.read("cpu.max") == "50000 100000"
    bench.round(Wanted(complete=True))
    assert bench.read("cpu.max") == "max 100000"


def test_what_is_wanted_again_after_a_restart_stays(tmp_path: object) -> None:
    bench = Bench(str(tmp_path))
    bench.round(wanted(quota(50_000)))
    bench.kill()
    bench.begin(str(tmp_path))
    bench.round(replace(wanted(quota(50_000)), complete=True))
    assert bench.read("cpu.max") == "50000 100000"


def test_classes_have_their_tasks_in_their_groups_until_nobody_wants_it() -> None:
    bench = Bench()
    pid = bench.node.start_process(f"{BE}/pod1")
    of_class = CacheClass(ResctrlWish("BE", Ways(0, 30)), (f"{BE}/pod1",))
    bench.round(Wanted(caches=(of_class,)))
    assert str(pid) in bench.node.read("/sys/fs/resctrl/BE/tasks").split()
    bench.round(Wanted())
    assert not bench.node.exists("/sys/fs/resctrl/BE")


class TestWhetherThereIsAnythingToDo:
    def test_the_same_again_is_nothing(self) -> None:
        one = wanted(quota(5000))
        assert one.differs(Wanted())
        assert not one.differs(one)
        assert not Wanted(one.wishes).differs(one)

    def test_deeds_and_lines_are_done_each_time(self) -> None:
        one = replace(wanted(quota(5000)), deeds=(("a", (quota(1),)),))
        assert one.differs(one)

    def test_a_strategy_that_went_is_something(self) -> None:
        assert Wanted().differs(wanted(quota(5000)))
