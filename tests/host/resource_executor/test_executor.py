import errno
from pathlib import Path

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import DriftPolicy
from koord_host.planning.outcomes import EMPTY, Outcome
from koord_host.resource_executor.executor import Executor

from tests.host.conftest import HOOKS, OPERATOR, STRATEGY, MakeNode, Node, desired, only, outcomes

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
SHARES, QUOTA, PERIOD, BURST = (
    "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us",
)  # fmt: skip
CPUS, LIMIT, MEMSW = "cpuset.cpus", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"


def test_a_wish_is_written_read_back_and_journalled(node: Node) -> None:
    result = only(node.set_desired(desired(POD, SHARES, 512, "batch-cpu 500m")))
    assert (result.outcome, result.old, result.new) == (Outcome.WRITTEN, 1024, 512)
    assert (result.owner, result.why, result.pod) == ("hooks", "batch-cpu 500m", "ns/pod")
    assert result.news
    assert not result.alert
    assert node.value(POD, SHARES) == "512"
    [change] = node.changes()
    assert (change.group, change.knob, change.old, change.new) == (POD, SHARES, 1024, 512)
    assert (change.owner, change.pod, change.why) == ("hooks", "ns/pod", "batch-cpu 500m")
    assert change.time == "1970-01-01T00:16:40.000Z"


def test_what_is_so_already_is_not_written(node: Node) -> None:
    result = only(node.set_desired(desired(POD, SHARES, 1024)))
    assert result.outcome is Outcome.UNCHANGED
    assert not result.news
    assert node.files.writes == []
    assert node.changes() == []
    assert len(node.baselines) == 0


def test_nothing_is_due_between_refreshes(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    assert node.later(59) is EMPTY
    assert only(node.later(1)).outcome is Outcome.UNCHANGED
    assert node.later(59) is EMPTY


def test_a_new_reason_alone_touches_no_file(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    assert node.set_desired(desired(POD, SHARES, 512, "another")).results == ()
    node.set_desired(desired(POD, SHARES, 513, "another"))
    assert node.changes()[-1].why == "another"


def test_owners_come_and_go(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    found = node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    [conflict] = found.conflicts
    assert conflict.settled
    assert node.value(POD, SHARES) == "300"
    # Other values of the same two are no news.
    assert node.set_desired(desired(POD, SHARES, 301), owner=STRATEGY).conflicts == ()
    node.executor.forget(STRATEGY, "test")
    assert only(node.executor.apply()).new == 512
    node.executor.forget(HOOKS, "test")
    assert node.executor.apply().results == ()
    assert node.value(POD, SHARES) == "512"
    assert node.later().results == ()


def test_a_value_out_of_range_is_told_once_and_never_written(node: Node) -> None:
    result = only(node.set_desired(desired(POD, SHARES, 1)))
    assert (result.outcome, result.alert) == (Outcome.INVALID, True)
    assert "cpu.shares: 1 is out of range; expected 2 to 262144" in result.reason
    found = node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY)
    assert only(found).new == 300
    assert node.later(1).results == ()


@pytest.mark.parametrize(
    ("place", "knob", "words"),
    [(POD, "cpu.sheep", "is not a knob"), ("../../etc", SHARES, "is outside of its root")],
)
def test_what_cannot_be_a_target(node: Node, place: str, knob: str, words: str) -> None:
    result = only(node.set_desired(desired(place, knob, 1)))
    assert result.outcome is Outcome.INVALID
    assert words in result.reason


def test_a_group_that_is_gone_is_dropped_quietly(node: Node) -> None:
    found = node.set_desired(desired(f"{BE}/pod9", SHARES, 512), desired(POD, SHARES, 512))
    assert outcomes(found) == {
        (f"{BE}/pod9", SHARES): Outcome.GONE,
        (POD, SHARES): Outcome.WRITTEN,
    }
    assert [one.outcome for one in found.news] == [Outcome.WRITTEN]
    node.files.make_group(f"{BE}/pod9")
    assert outcomes(node.later())[f"{BE}/pod9", SHARES] is Outcome.WRITTEN


def test_a_group_that_goes_half_way(node: Node) -> None:
    def vanish(path: str, _: str) -> None:
        if path == node.path(POD, QUOTA):
            node.files.remove_group(POD)

    node.files.before_write = vanish
    found = node.set_desired(
        desired(POD, QUOTA, 5000), desired(POD, SHARES, 512), desired(f"{BE}/pod2", SHARES, 512)
    )
    assert outcomes(found) == {
        (POD, QUOTA): Outcome.GONE,
        (POD, SHARES): Outcome.GONE,
        (f"{BE}/pod2", SHARES): Outcome.WRITTEN,
    }
    assert [one.target.place for one in found.news] == [f"{BE}/pod2"]


def test_a_knob_this_kernel_has_not_is_told_once(node: Node) -> None:
    found = node.set_desired(
        desired(POD, "cpu.bvt_warp_ns", -1), desired(BE, "cpu.bvt_warp_ns", -1)
    )
    assert {one.outcome for one in found.results} == {Outcome.UNSUPPORTED}
    [result] = found.news
    assert "this kernel has no" in result.reason
    assert node.later().news == ()
    assert node.set_desired(desired(POD, "cpu.bvt_warp_ns", 2)).news == ()


def test_a_knob_that_this_version_has_not(node2: Node) -> None:
    result = only(node2.set_desired(desired(POD, "net_cls.classid", 1)))
    assert result.outcome is Outcome.UNSUPPORTED
    assert "this kernel has no net_cls.classid" in result.reason


# ---- what the kernel refuses


def test_refused_for_now_is_tried_again_ever_less_often(node: Node) -> None:
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    found = node.set_desired(desired(POD, SHARES, 512), desired(BE, SHARES, 512))
    assert outcomes(found) == {(POD, SHARES): Outcome.REFUSED, (BE, SHARES): Outcome.WRITTEN}
    [result] = [one for one in found.news if one.alert]
    assert (result.errno, result.reason) == (errno.EBUSY, "Device or resource busy")
    waited = []
    for _ in range(40):
        if node.later(1).results:
            waited.append(node.now - 1000)
    assert waited[:5] == [1, 3, 7, 15, 31]
    assert node.later(30).news == ()
    del node.files.refusals[node.path(POD, SHARES)]
    assert outcomes(node.later())[POD, SHARES] is Outcome.WRITTEN


def test_refused_for_good_waits_for_the_refresh_or_another_wish(node: Node) -> None:
    node.files.refusals[node.path(POD, SHARES)] = errno.EINVAL
    assert only(node.set_desired(desired(POD, SHARES, 512))).news
    assert node.later(59) is EMPTY
    assert not only(node.later(1)).news
    assert only(node.set_desired(desired(POD, SHARES, 513))).news
    # Another reason is news, too.
    node.files.refusals[node.path(POD, SHARES)] = errno.EPERM
    assert only(node.later()).news


def test_a_value_that_the_kernel_does_not_keep(node: Node) -> None:
    real = node.files.write
    node.files.write = lambda path, _text: real(path, "500")  # type: ignore[method-assign]
    result = only(node.set_desired(desired(POD, SHARES, 512)))
    assert (result.outcome, result.reason) == (Outcome.REFUSED, "the kernel keeps 500")


def test_a_file_that_may_not_be_read(node: Node) -> None:
    real = node.files.read

    def read(path: str) -> str:
        if path == node.path(POD, SHARES):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    node.files.read = read  # type: ignore[method-assign]
    result = only(node.set_desired(desired(POD, SHARES, 512)))
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.EACCES)


def test_who_is_in_the_way_is_named(node: Node) -> None:
    node.set(CONTAINER, CPUS, "0-3")
    result = only(node.set_desired(desired(POD, CPUS, "4-7")))
    assert result.reason == f"Device or resource busy: {CONTAINER} has 0-3"
    # Nothing half done stays.
    assert node.value(POD, CPUS) == "0-15"


def test_quota_and_period_fall_back_together(node: Node) -> None:
    node.set_desired(desired(POD, QUOTA, 50_000), desired(CONTAINER, QUOTA, 50_000))
    node.executor.forget(HOOKS, "test")
    found = node.set_desired(
        desired(POD, QUOTA, 30_000), desired(POD, PERIOD, 300_000), scope="other"
    )
    assert {one.outcome for one in found.results} == {Outcome.REFUSED}
    assert node.value(POD, QUOTA) == "50000"
    assert node.value(POD, PERIOD) == "100000"


# ---- knobs that bind each other


def test_an_idle_group_takes_no_shares(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    found = node.set_desired(desired(POD, SHARES, 512), desired(POD, "cpu.idle", 1))
    idle, result = found.results
    assert (idle.target.knob, idle.outcome) == ("cpu.idle", Outcome.WRITTEN)
    assert result.outcome is Outcome.OVERRIDDEN
    assert result.reason == "cpu.idle is 1: an idle group has no shares"
    assert node.later().news == ()
    node.files.writes.clear()
    found = node.set_desired(desired(POD, SHARES, 512), desired(POD, "cpu.idle", 0))
    assert outcomes(found)[POD, SHARES] is Outcome.WRITTEN
    assert node.value(POD, SHARES) == "512"


def test_shares_that_idling_happens_to_show_are_set_when_it_wakes(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 3), desired(POD, "cpu.idle", 1))
    node.set_desired(desired(POD, SHARES, 3), desired(POD, "cpu.idle", 0))
    assert node.value(POD, SHARES) == "3"


def test_the_limit_with_swap_goes_along(node: Node) -> None:
    node.set(POD, LIMIT, str(1 << 20))
    node.set(POD, MEMSW, str(1 << 20))
    found = node.set_desired(desired(POD, LIMIT, 1 << 24))
    assert [tuple(one.target) for one in found.results] == [(POD, LIMIT), (POD, MEMSW)]
    assert found.results[1].reason == f"goes with {LIMIT}"
    assert node.value(POD, MEMSW) == str(1 << 24)
    assert [one.knob for one in node.changes()] == [LIMIT, MEMSW]
    node.set_desired(desired(POD, LIMIT, 1 << 22))
    assert node.value(POD, MEMSW) == str(1 << 22)


def test_the_limit_with_swap_stays_where_it_was_apart_or_is_wished(node: Node) -> None:
    node.set(POD, LIMIT, str(1 << 20))
    node.set(POD, MEMSW, str(1 << 24))
    node.set_desired(desired(POD, LIMIT, 1 << 21))
    assert node.value(POD, MEMSW) == str(1 << 24)
    node.set_desired(desired(POD, LIMIT, 1 << 24), desired(POD, MEMSW, 1 << 24))
    found = node.set_desired(desired(POD, LIMIT, 1 << 20), desired(POD, MEMSW, 1 << 24))
    assert (POD, MEMSW) not in outcomes(found) or (outcomes(found)[POD, MEMSW] is Outcome.UNCHANGED)
    assert node.value(POD, MEMSW) == str(1 << 24)


def test_the_limit_with_swap_that_cannot_go_along_is_told(node: Node) -> None:
    node.set(POD, LIMIT, str(1 << 20))
    node.set(POD, MEMSW, str(1 << 20))
    node.files.refusals[node.path(POD, MEMSW)] = errno.EBUSY
    found = node.set_desired(desired(POD, LIMIT, 1 << 16))
    assert outcomes(found) == {(POD, LIMIT): Outcome.WRITTEN, (POD, MEMSW): Outcome.REFUSED}


def test_a_burst_nobody_wishes_is_in_the_way(node: Node) -> None:
    node.set(POD, QUOTA, "50000")
    node.set(POD, BURST, "40000")
    result = only(node.set_desired(desired(POD, QUOTA, 20_000)))
    assert result.outcome is Outcome.REFUSED
    assert result.reason == f"Invalid argument: {BURST} 40000 is more than {QUOTA} 20000"


# ---- strangers


def test_a_strangers_value_is_written_over(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    alerts = []
    for _ in range(5):
        node.set(POD, SHARES, "7")
        result = only(node.later())
        assert (result.outcome, result.old, result.new) == (Outcome.WRITTEN, 7, 512)
        assert "changed by somebody else" in result.reason
        alerts.append(result.alert)
    assert alerts == [False, False, True, False, False]
    node.later(700)
    for _ in range(3):
        node.set(POD, SHARES, "7")
        alerts.append(only(node.later()).alert)
    assert alerts[5:] == [False, False, True]


def test_what_is_to_be_looked_at_again_is_nobodys_to_be_told_of(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512), desired(CONTAINER, SHARES, 512))
    for place in (POD, CONTAINER):
        node.set(place, SHARES, "7")
    node.executor.reread_at(lambda place: place == POD)
    result = only(node.executor.apply())
    assert (result.target.place, result.outcome, result.reason) == (POD, Outcome.WRITTEN, "")
    assert (node.value(POD, SHARES), node.value(CONTAINER, SHARES)) == ("512", "7")


def test_a_strangers_value_is_left(make_node: MakeNode) -> None:
    node = make_node(policy=lambda target, _: DriftPolicy.YIELD)
    node.set_desired(desired(CONTAINER, CPUS, "0-3"))
    node.set(CONTAINER, CPUS, "4-7")
    result = only(node.later())
    assert (result.outcome, result.news, result.alert) == (Outcome.YIELDED, True, False)
    assert "theirs stays" in result.reason
    node.set(CONTAINER, CPUS, "4-8")
    result = only(node.later())
    assert (result.outcome, result.news) == (Outcome.YIELDED, False)
    assert node.value(CONTAINER, CPUS) == "4-8"
    node.set(CONTAINER, CPUS, "0-3")
    assert only(node.later()).outcome is Outcome.UNCHANGED
    node.set(CONTAINER, CPUS, "4-7")
    assert only(node.later()).news
    assert only(node.set_desired(desired(CONTAINER, CPUS, "0-2"))).outcome is Outcome.WRITTEN


def test_a_strangers_value_is_left_and_told_as_an_alert(make_node: MakeNode) -> None:
    node = make_node(policy=lambda *_: DriftPolicy.ALERT)
    node.set_desired(desired(CONTAINER, CPUS, "0-3"))
    node.set(CONTAINER, CPUS, "4-7")
    result = only(node.later())
    assert (result.outcome, result.news, result.alert) == (Outcome.YIELDED, True, True)
    assert only(node.later()).news is False


# ---- others


def test_v2_files(node2: Node) -> None:
    node2.set_desired(
        desired(POD, SHARES, 512), desired(POD, QUOTA, 50_000), desired(POD, PERIOD, 50_000),
        desired(POD, BURST, 10_000), desired(POD, LIMIT, 1 << 20), desired(POD, "memory.high", -1),
        desired(POD, CPUS, "0-3"), desired(POD, "memory.min", 4096),
    )  # fmt: skip
    assert node2.value(POD, SHARES) == "20"
    assert node2.value(POD, QUOTA) == "50000 50000"
    assert node2.value(POD, BURST) == "10000"
    assert node2.value(POD, LIMIT) == str(1 << 20)
    assert {one.outcome for one in node2.later().results} == {Outcome.UNCHANGED}


def test_v2_memory_max_kills_nobody(node2: Node) -> None:
    node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
    result = only(node2.set_desired(desired(POD, LIMIT, 2 << 20)))
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.EBUSY)
    assert "bytes are in use and cannot be freed" in result.reason
    assert node2.files.oom_kills == []
    assert node2.value(POD, LIMIT) == "max"
    assert only(node2.set_desired(desired(POD, LIMIT, 6 << 20))).outcome is Outcome.WRITTEN
    node2.files.set_usage(POD, 8 << 20, reclaimable=4 << 20)
    assert only(node2.set_desired(desired(POD, LIMIT, 5 << 20))).outcome is Outcome.WRITTEN
    assert node2.files.oom_kills == []


def test_device_limits_are_written_a_line_each(make_node: MakeNode) -> None:
    node = make_node(devices=("8:0", "8:16"))
    knob = "blkio.throttle.read_bps_device"
    node.set_desired(desired(POD, knob, "8:0 100\n8:16 200"))
    assert len(node.files.writes) == 2
    node.files.writes.clear()
    result = only(node.set_desired(desired(POD, knob, "8:0 100\n8:16 0")))
    assert (result.old, result.new) == ("8:0 100\n8:16 200", "8:0 100")
    assert len(node.files.writes) == 1


def test_originals_are_kept_from_the_first_change_on(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, SHARES, 300))
    [baseline] = node.baselines.all()
    assert (baseline.text, baseline.ours, baseline.found_at) == ("1024\n", "300\n", 1000.0)
    # A group of the same name is another group.
    node.files.remove_group(POD)
    node.files.make_group(POD)
    node.set(POD, SHARES, "77")
    node.later()
    [again] = node.baselines.all()
    assert again.text == "77\n"
    assert again.identity != baseline.identity


def test_what_is_remembered_of_groups_that_are_gone_is_forgotten_in_time(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512), desired(BE, SHARES, 512))
    node.files.remove_group(POD)
    node.executor.forget(HOOKS, "test")
    node.later(599)
    assert len(node.baselines) == 2
    node.later(1)
    node.set_desired(desired(BE, SHARES, 513))
    assert [one.target.place for one in node.baselines.all()] == [BE]


def test_nothing_is_written_that_could_not_be_put_back(node: Node) -> None:
    before = node.files.identity

    def identity(path: str) -> int:
        if path.endswith(POD):
            raise PermissionError(errno.EACCES, "Permission denied")
        return before(path)

    node.files.identity = identity  # type: ignore[method-assign]
    found = node.set_desired(desired(POD, SHARES, 512), desired(BE, SHARES, 512))
    assert outcomes(found) == {(POD, SHARES): Outcome.REFUSED, (BE, SHARES): Outcome.WRITTEN}
    assert node.value(POD, SHARES) == "1024"


class TestParts:
    """Very much is written in parts, and what cannot wait in between."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("koord_host.resource_executor.executor._MOST", 2)

    def want(self, node: Node, value: int = 500) -> None:
        places = (POD, CONTAINER, f"{BE}/pod2", f"{BE}/pod2/c2")
        node.executor.set_desired(
            HOOKS, "pods", tuple(desired(one, SHARES, value) for one in places)
        )

    def test_a_strategy_s_value_is_written_between_two(self, node: Node) -> None:
        self.want(node)

        def between() -> None:
            node.executor.set_desired(STRATEGY, "s", (desired(BE, QUOTA, 50_000),))
            node.executor.apply_urgent()

        done = node.executor.apply(between)
        assert len(done.results) == 4
        written = [path.rpartition("besteffort")[2] for path, _ in node.files.writes]
        assert written == [
            "/pod1/cpu.shares",
            "/pod1/c1/cpu.shares",
            "/cpu.cfs_quota_us",
            "/pod2/cpu.shares",
            "/pod2/c2/cpu.shares",
        ]

    def test_between_two_a_strategy_may_have_what_is_yet_to_come(self, node: Node) -> None:
        self.want(node)
        last = f"{BE}/pod2/c2"

        def between() -> None:
            node.executor.set_desired(STRATEGY, "s", (desired(last, SHARES, 700),))
            node.executor.apply_urgent()
            node.executor.forget(STRATEGY, "s")
            node.executor.apply_urgent()

        node.executor.apply(between)
        assert node.value(last, SHARES) == "500"
        assert node.executor.apply() == EMPTY

    def test_a_defect_between_two_loses_none_of_the_others(self, node: Node) -> None:
        self.want(node)

        def between() -> None:
            raise KeyError("defect")

        with pytest.raises(KeyError):
            node.executor.apply(between)
        assert node.value(f"{BE}/pod2", SHARES) == "1024"
        assert set(outcomes(node.executor.apply())) == {
            (f"{BE}/pod2", SHARES),
            (f"{BE}/pod2/c2", SHARES),
        }

    def test_groups_above_and_below_each_other_are_written_in_one(self, node: Node) -> None:
        """A child has its quota before its parent has less, and after it has more."""
        for quota in (50_000, 40_000, 90_000):
            places = (BE, POD, CONTAINER, f"{BE}/pod2", f"{BE}/pod2/c2")
            node.executor.set_desired(
                HOOKS, "all", tuple(desired(one, QUOTA, quota) for one in places)
            )
            done = node.executor.apply(lambda: pytest.fail("in one"))
            assert {one.outcome for one in done.results} == {Outcome.WRITTEN}

    def test_what_is_due_is_looked_at_in_parts_too(self, node: Node) -> None:
        self.want(node)
        node.executor.apply()
        node.set(f"{BE}/pod2", SHARES, "7")
        node.now += 61
        count: list[int] = []
        done = node.executor.apply(lambda: count.append(1))
        assert (len(done.results), len(count)) == (4, 1)
        assert node.value(f"{BE}/pod2", SHARES) == "500"


class TestAheadOfAllElse:
    """What strategies want is written without looking at anything else."""

    def test_what_hooks_want_and_what_is_due_waits(self, node: Node) -> None:
        node.set_desired(desired(POD, "cpu.shares", 500), scope="due")
        node.now += 61
        node.executor.set_desired(HOOKS, "pod", (desired(CONTAINER, "cpu.shares", 300),))
        node.executor.set_desired(STRATEGY, "s", (desired(BE, "cpu.cfs_quota_us", 50_000),))
        assert outcomes(node.executor.apply_urgent()) == {(BE, "cpu.cfs_quota_us"): Outcome.WRITTEN}
        assert outcomes(node.executor.apply()) == {
            (POD, "cpu.shares"): Outcome.UNCHANGED,
            (CONTAINER, "cpu.shares"): Outcome.WRITTEN,
        }
        assert node.executor.apply_urgent().results == ()

    def test_what_a_strategy_wants_no_more_is_put_back_with_what_went_along(
        self, node2: Node
    ) -> None:
        node2.executor.set_desired(STRATEGY, "s", (desired(POD, "cpu.idle", 1),))
        node2.executor.apply_urgent()
        assert node2.value(POD, "cpu.idle") == "1"
        node2.executor.forget(STRATEGY, "s")
        node2.executor.apply_urgent()
        assert node2.value(POD, "cpu.idle") == "0"
        assert len(node2.baselines) == 0

    def test_what_a_defect_broke_off_is_due_in_the_next_round(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node.executor.set_desired(STRATEGY, "s", (desired(BE, "cpu.cfs_quota_us", 50_000),))

        def defect(*_: object) -> str:
            raise KeyError("defect")

        with monkeypatch.context() as broken:
            broken.setattr(node.files, "read", defect)
            with pytest.raises(KeyError):
                node.executor.apply_urgent()
        assert outcomes(node.executor.apply()) == {(BE, "cpu.cfs_quota_us"): Outcome.WRITTEN}


def test_the_operator_wins(node: Node) -> None:
    node.set_desired(desired(POD, QUOTA, 50_000), owner=STRATEGY)
    assert only(node.set_desired(desired(POD, QUOTA, -1), owner=OPERATOR)).new == -1


def test_agents_files_and_sysctls(node: Node, tmp_path: Path) -> None:
    (tmp_path / "sys" / "kernel").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "sched_core").write_text("1\t2\n")
    layout = Layout(1, Driver.CGROUPFS, proc_root=str(tmp_path))
    executor = Executor(
        KernelFilesystem(),
        layout,
        node.journal,
        node.baselines,
        clock=lambda: node.now,
        monotonic=lambda: node.now,
    )
    path, content = str(tmp_path / "pod.json"), "x" * 600
    desired_values = (
        desired(path, "file", content),
        desired("kernel.sched_core", "sysctl", "0"),
        desired("kernel.none", "sysctl", "0"),
    )
    executor.set_desired(HOOKS, "node", desired_values)
    found = executor.apply()
    assert [one.outcome for one in found.results] == [
        Outcome.UNSUPPORTED,
        Outcome.WRITTEN,
        Outcome.WRITTEN,
    ]
    assert (tmp_path / "pod.json").read_text() == content
    assert [len(str(one.new)) for one in node.changes()] == [501, 1]
    assert [one.text for one in node.baselines.all()] == [None, "1\t2\n"]
    # A sysctl that somebody sets is theirs.
    (tmp_path / "sys" / "kernel" / "sched_core").write_text("5\n")
    node.now += 61
    [yielded] = [one for one in executor.apply().results if one.outcome is Outcome.YIELDED]
    assert yielded.alert
