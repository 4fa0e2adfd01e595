import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import DriftPolicy
from koord_host.planning.desired_values import DesiredValue, Owner
from koord_host.planning.outcomes import EMPTY, Outcome

from tests.host.conftest import HOOKS, STRATEGY, MakeNode, Node, desired, only, outcomes

BE = "kubepods/besteffort"
POD, CONTAINER = f"{BE}/pod1", f"{BE}/pod1/c1"
POD2, SHARES, IDLE, CPUS = f"{BE}/pod2", "cpu.shares", "cpu.idle", "cpuset.cpus"
QUOTA, PERIOD, BURST = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"
LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
BPS, BVT = "blkio.throttle.read_bps_device", "cpu.bvt_warp_ns"

WRITTEN, UNCHANGED, REFUSED = Outcome.WRITTEN, Outcome.UNCHANGED, Outcome.REFUSED
INVALID, UNSUPPORTED, GONE = Outcome.INVALID, Outcome.UNSUPPORTED, Outcome.GONE
NONE: Mapping[tuple[str, str], Any] = MappingProxyType({})


class Case(NamedTuple):
    """What is desired, what comes of each, what a result says, what is there then."""

    desired: list[DesiredValue]
    outcomes: list[Outcome]
    reason: str = ""
    after: Mapping[tuple[str, str], str] = NONE
    found: Mapping[tuple[str, str], str] = NONE
    refusals: Mapping[tuple[str, str], int] = NONE
    version: int = 1


CASES = {
    "written": Case([desired(POD, SHARES, 512)], [WRITTEN], "", {(POD, SHARES): "512"}),
    "so already": Case([desired(POD, SHARES, 1024)], [UNCHANGED]),
    "out of range": Case(
        [desired(POD, SHARES, 1)], [INVALID],
        "cpu.shares: 1 is out of range; expected 2 to 262144",
    ),
    "no knob": Case([desired(POD, "cpu.sheep", 1)], [INVALID], "is not a knob"),
    "an action": Case([desired(POD, "memory.reclaim", 4096)], [INVALID], "is to be done once"),
    "outside": Case([desired("../../etc", SHARES, 1)], [INVALID], "is outside of its root"),
    "NUL in a name": Case([desired(f"{BE}/a\0b", SHARES, 512)], [INVALID], "is not a valid file"),
    "surrogate in a name": Case(
        [desired(f"{BE}/a\ud800b", SHARES, 512)], [INVALID], "is not a valid file name"
    ),
    "surrogate in a text": Case(
        [desired("/var/lib/x.json", "file", "\ud800")], [INVALID], "is not a valid text"
    ),
    "an invalid value stops no other": Case(
        [desired(POD, SHARES, 1), desired(BE, SHARES, 512)], [INVALID, WRITTEN]
    ),
    "gone": Case([desired(f"{BE}/pod9", SHARES, 512), desired(POD, SHARES, 512)], [GONE, WRITTEN]),
    "not in this version": Case(
        [desired(POD, "net_cls.classid", 1)], [UNSUPPORTED], "this kernel has no net_cls", version=2
    ),
    "a child in the way is named": Case(
        [desired(POD, CPUS, "4-7")], [REFUSED], f"Device or resource busy: {CONTAINER} has 0-3",
        {(POD, CPUS): "0-15"}, {(CONTAINER, CPUS): "0-3"},
    ),
    "a burst in the way is named": Case(
        [desired(POD, QUOTA, 20_000)], [REFUSED],
        f"Invalid argument: {BURST} 40000 is more than {QUOTA} 20000",
        {(POD, QUOTA): "50000"}, {(POD, QUOTA): "50000", (POD, BURST): "40000"},
    ),
    "quota and period fall back together": Case(
        [desired(POD, QUOTA, 30_000), desired(POD, PERIOD, 300_000)], [REFUSED] * 2,
        "", {(POD, QUOTA): "50000", (POD, PERIOD): "100000"},
        {(POD, QUOTA): "50000", (CONTAINER, QUOTA): "50000"},
    ),
    "an idle group has no shares": Case(
        [desired(POD, SHARES, 512), desired(POD, IDLE, 1)], [WRITTEN, Outcome.OVERRIDDEN],
        "cpu.idle is 1: an idle group has no shares",
    ),
    "the limit with swap goes along, up": Case(
        [desired(POD, LIMIT, 1 << 24)], [WRITTEN] * 2, f"goes with {LIMIT}",
        {(POD, MEMSW): str(1 << 24)}, {(POD, LIMIT): "1048576", (POD, MEMSW): "1048576"},
    ),
    "and down": Case(
        [desired(POD, LIMIT, 1 << 20)], [WRITTEN] * 2, f"goes with {LIMIT}",
        {(POD, MEMSW): "1048576"}, {(POD, LIMIT): "2097152", (POD, MEMSW): "2097152"},
    ),
    "it stays where it was apart": Case(
        [desired(POD, LIMIT, 1 << 21)], [WRITTEN], "",
        {(POD, MEMSW): str(1 << 24)}, {(POD, LIMIT): "1048576", (POD, MEMSW): str(1 << 24)},
    ),
    "and where an owner wants it": Case(
        [desired(POD, LIMIT, 1 << 20), desired(POD, MEMSW, 1 << 24)], [WRITTEN, UNCHANGED], "",
        {(POD, MEMSW): str(1 << 24)}, {(POD, LIMIT): str(1 << 24), (POD, MEMSW): str(1 << 24)},
    ),
    "one that cannot go along": Case(
        [desired(POD, LIMIT, 1 << 16)], [WRITTEN, REFUSED], "goes with",
        {}, {(POD, LIMIT): "1048576", (POD, MEMSW): "1048576"}, {(POD, MEMSW): errno.EBUSY},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_round(make_node: MakeNode, case: Case) -> None:
    node = make_node(case.version)
    for (place, knob), text in case.found.items():
        node.set(place, knob, text)
    node.files.refusals |= {node.path(*at): code for at, code in case.refusals.items()}
    found = node.set_desired(*case.desired)
    assert sorted(one.outcome for one in found.results) == sorted(case.outcomes)
    assert case.reason in "".join(one.reason for one in found.results)
    assert {at: node.value(*at) for at in case.after} == case.after
    for one in found.results:
        assert one.news is (one.outcome not in (UNCHANGED, GONE))
        assert one.alert is (one.outcome is INVALID or (
            one.outcome, one.reason.startswith("goes with")
        ) == (REFUSED, False))  # fmt: skip
    changed = [one.target for one in found.results if one.outcome is WRITTEN]
    assert {(one.group, one.knob) for one in node.changes()} >= set(map(tuple, changed))
    assert bool(changed) == bool(node.changes())
    assert bool(changed) == bool(len(node.baselines)) or REFUSED in case.outcomes
    assert node.later(1).news == ()


def test_what_a_result_and_the_journal_say(node: Node) -> None:
    result = only(node.set_desired(desired(POD, SHARES, 512, "batch-cpu 500m")))
    assert (result.old, result.new) == (1024, 512)
    assert (result.owner, result.why, result.pod) == ("hooks", "batch-cpu 500m", "ns/pod")
    [change] = node.changes()
    assert (change.group, change.knob, change.old, change.new) == (POD, SHARES, 1024, 512)
    assert (change.owner, change.pod, change.why) == ("hooks", "ns/pod", "batch-cpu 500m")
    assert change.time == "1970-01-01T00:16:40.000Z"


def test_nothing_is_due_between_refreshes(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    assert node.later(59) is EMPTY
    assert only(node.later(1)).outcome is UNCHANGED
    assert node.later(59) is EMPTY


def test_a_new_reason_alone_touches_no_file(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    assert node.set_desired(desired(POD, SHARES, 512, "another")).results == ()
    node.set_desired(desired(POD, SHARES, 513, "another"))
    assert node.changes()[-1].why == "another"


def test_other_values_of_the_same_owners_are_no_new_conflict(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    [conflict] = node.set_desired(desired(POD, SHARES, 300), owner=STRATEGY).conflicts
    assert conflict.settled
    assert node.value(POD, SHARES) == "300"
    assert node.set_desired(desired(POD, SHARES, 301), owner=STRATEGY).conflicts == ()
    assert only(node.set_desired(desired(POD, SHARES, 1))).outcome is INVALID
    assert node.value(POD, SHARES) == "301"


def test_what_stands_of_a_place_and_who_wants_what(node2: Node) -> None:
    node2.executor.set_desired(HOOKS, "node", (desired(BE, QUOTA, 80_000),))
    node2.executor.set_desired(HOOKS, "pod", (desired(POD, SHARES, 512, "batch"),))
    assert node2.executor.arbitrated_values(BE) == []
    node2.set_desired(desired(BE, QUOTA, 50_000), owner=STRATEGY)
    [(knob, decision)] = node2.executor.arbitrated_values(BE)
    assert (knob, decision.value, decision.owner) == (QUOTA, 50_000, "cpusuppress")
    assert "hooks wants 80000" in str(decision.conflict)
    [(knob, decision)] = node2.executor.arbitrated_values(POD)
    assert (knob, decision.why) == (SHARES, "batch")
    assert node2.executor.arbitrated_values("kubepods") == []


def test_a_group_that_goes_half_way(node: Node) -> None:
    def vanish(path: str, _: str) -> None:
        if path == node.path(POD, QUOTA):
            node.files.remove_group(POD)

    node.files.before_write = vanish
    places = ((POD, QUOTA), (POD, SHARES), (POD2, SHARES))
    found = node.set_desired(*(desired(*at, 5000) for at in places))
    assert list(outcomes(found).values()) == [GONE, GONE, WRITTEN]
    assert [one.target.place for one in found.news] == [POD2]
    node.files.before_write = None
    node.files.make_group(POD)
    assert outcomes(node.later())[POD, SHARES] is WRITTEN


def test_an_unsupported_knob_is_reported_once(node: Node) -> None:
    found = node.set_desired(desired(POD, BVT, -1), desired(BE, BVT, -1))
    assert {one.outcome for one in found.results} == {UNSUPPORTED}
    [result] = found.news
    assert "this kernel has no" in result.reason
    assert node.later().news == ()
    assert node.set_desired(desired(POD, BVT, 2)).news == ()


# ---- what the kernel refuses


def test_refused_for_now_is_tried_again_ever_less_often(node: Node) -> None:
    node.files.refusals[node.path(POD, SHARES)] = errno.EBUSY
    found = node.set_desired(desired(POD, SHARES, 512), desired(BE, SHARES, 512))
    assert outcomes(found) == {(POD, SHARES): REFUSED, (BE, SHARES): WRITTEN}
    [result] = [one for one in found.news if one.alert]
    assert (result.errno, result.reason) == (errno.EBUSY, "Device or resource busy")
    waited = [node.now - 1000 for _ in range(40) if node.later(1).results]
    assert waited[:5] == [1, 3, 7, 15, 31]
    assert node.later(30).news == ()
    del node.files.refusals[node.path(POD, SHARES)]
    assert outcomes(node.later())[POD, SHARES] is WRITTEN


def test_refused_for_good_waits_for_the_refresh_or_another_value(node: Node) -> None:
    node.files.refusals[node.path(POD, SHARES)] = errno.EINVAL
    assert only(node.set_desired(desired(POD, SHARES, 512))).news
    assert node.later(59) is EMPTY
    assert not only(node.later(1)).news
    assert only(node.set_desired(desired(POD, SHARES, 513))).news
    # Another reason is news, too.
    node.files.refusals[node.path(POD, SHARES)] = errno.EPERM
    assert only(node.later()).news


def _keep_500(node: Node) -> None:
    real = node.files.write
    node.files.write = lambda path, _text: real(path, "500")  # type: ignore[method-assign]


def _deny(name: str) -> Callable[[Node], None]:
    def deny(node: Node) -> None:
        real = getattr(node.files, name)

        def denied(path: str) -> Any:
            if path in (node.path(POD, SHARES), node.files.directory(POD, "cpu")):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return real(path)

        setattr(node.files, name, denied)

    return deny


@pytest.mark.parametrize(
    ("problem", "reason", "code"),
    [
        (_keep_500, "the kernel keeps 500", 0),
        (_deny("read"), "Permission denied", errno.EACCES),
        # Nothing is written that could not be put back.
        (_deny("identity"), "Permission denied", errno.EACCES),
    ],
)
def test_other_problems(
    node: Node, problem: Callable[[Node], None], reason: str, code: int
) -> None:
    problem(node)
    result = only(node.set_desired(desired(POD, SHARES, 512)))
    assert (result.outcome, result.reason, result.errno) == (REFUSED, reason, code)
    assert (POD, SHARES, "512") not in [(*at, text) for at, text in node.files.writes]
    assert only(node.set_desired(desired(BE, SHARES, 500), scope="other")).outcome is WRITTEN


@pytest.mark.parametrize("shares", [512, 3])
def test_an_idle_group_that_wakes_has_its_shares(node: Node, shares: int) -> None:
    node.set_desired(desired(POD, SHARES, shares), desired(POD, IDLE, 1))
    assert node.later().news == ()
    found = node.set_desired(desired(POD, SHARES, shares), desired(POD, IDLE, 0))
    assert outcomes(found)[POD, SHARES] is WRITTEN
    assert node.value(POD, SHARES) == str(shares)


# ---- drift


def test_drift_is_written_over(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    alerts = []
    for _ in range(5):
        node.set(POD, SHARES, "7")
        result = only(node.later())
        assert (result.outcome, result.old, result.new) == (WRITTEN, 7, 512)
        assert "changed by somebody else" in result.reason
        alerts.append(result.alert)
    assert alerts == [False, False, True, False, False]


def test_what_is_read_again_on_purpose_is_no_drift(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512), desired(CONTAINER, SHARES, 512))
    for place in (POD, CONTAINER):
        node.set(place, SHARES, "7")
    node.executor.reread_at(lambda place: place == POD)
    result = only(node.executor.apply())
    assert (result.target.place, result.outcome, result.reason) == (POD, WRITTEN, "")
    assert (node.value(POD, SHARES), node.value(CONTAINER, SHARES)) == ("512", "7")


@pytest.mark.parametrize("policy", [DriftPolicy.YIELD, DriftPolicy.ALERT])
def test_drift_is_left(make_node: MakeNode, policy: DriftPolicy) -> None:
    node = make_node(policy=lambda *_: policy)
    node.set_desired(desired(CONTAINER, CPUS, "0-3"))
    for theirs, news in (("4-7", True), ("4-8", False)):
        node.set(CONTAINER, CPUS, theirs)
        result = only(node.later())
        assert (result.outcome, result.news) == (Outcome.YIELDED, news)
        assert result.alert is (news and policy is DriftPolicy.ALERT)
        assert "theirs stays" in result.reason
        assert node.value(CONTAINER, CPUS) == theirs
    node.set(CONTAINER, CPUS, "0-3")
    assert only(node.later()).outcome is UNCHANGED
    node.set(CONTAINER, CPUS, "4-7")
    assert only(node.later()).news
    assert only(node.set_desired(desired(CONTAINER, CPUS, "0-2"))).outcome is WRITTEN


# ---- others


def test_device_limits_are_written_a_line_each(make_node: MakeNode) -> None:
    node = make_node(devices=("8:0", "8:16"))
    node.set_desired(desired(POD, BPS, "8:0 100\n8:16 200"))
    assert len(node.files.writes) == 2
    node.files.writes.clear()
    result = only(node.set_desired(desired(POD, BPS, "8:0 100\n8:16 0")))
    assert (result.old, result.new) == ("8:0 100\n8:16 200", "8:0 100")
    assert len(node.files.writes) == 1


def test_baselines_are_kept_from_the_first_change_on(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512))
    node.set_desired(desired(POD, SHARES, 300))
    [baseline] = node.baselines.all()
    assert (baseline.text, baseline.ours, baseline.found_at) == ("1024\n", "300\n", 1000.0)
    # A group of the same name is another group.
    node.files.remove_group(POD)
    node.files.make_group(POD)
    node.later()
    assert node.baselines.all()[0].identity != baseline.identity


def test_baselines_of_groups_that_are_gone_are_forgotten_in_time(node: Node) -> None:
    node.set_desired(desired(POD, SHARES, 512), desired(BE, SHARES, 512))
    node.files.remove_group(POD)
    node.executor.forget(HOOKS, "test")
    node.later(599)
    assert len(node.baselines) == 2
    node.later(1)
    node.set_desired(desired(BE, SHARES, 513))
    assert [one.target.place for one in node.baselines.all()] == [BE]


class TestParts:
    """A large round is written in parts, and urgent values in between."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("koord_host.resource_executor.executor._MOST", 2)

    def want(self, node: Node, value: int = 500) -> None:
        places = (POD, CONTAINER, POD2, f"{POD2}/c2")
        node.executor.set_desired(
            HOOKS, "pods", tuple(desired(one, SHARES, value) for one in places)
        )

    def test_a_strategy_s_value_is_written_between_two(self, node: Node) -> None:
        self.want(node)

        def between() -> None:
            node.executor.set_desired(STRATEGY, "s", (desired(BE, QUOTA, 50_000),))
            node.executor.apply_urgent()

        assert len(node.executor.apply(between).results) == 4
        written = [path.split("/")[-2] for path, _ in node.files.writes]
        assert written == ["pod1", "c1", "besteffort", "pod2", "c2"]

    def test_between_two_a_strategy_may_have_what_is_yet_to_come(self, node: Node) -> None:
        self.want(node)
        last = f"{POD2}/c2"

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
        with pytest.raises(ZeroDivisionError):
            node.executor.apply(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
        assert node.value(POD2, SHARES) == "1024"
        left = {(POD2, SHARES), (f"{POD2}/c2", SHARES)}
        assert set(outcomes(node.executor.apply())) == left


class TestUrgent:
    """What strategies want is written without looking at anything else."""

    def test_what_hooks_want_and_what_is_due_waits(self, node: Node) -> None:
        node.set_desired(desired(POD, SHARES, 500), scope="due")
        node.now += 61
        node.executor.set_desired(HOOKS, "pod", (desired(CONTAINER, SHARES, 300),))
        node.executor.set_desired(STRATEGY, "s", (desired(BE, QUOTA, 50_000),))
        assert outcomes(node.executor.apply_urgent()) == {(BE, QUOTA): WRITTEN}
        assert outcomes(node.executor.apply()) == {
            (POD, SHARES): UNCHANGED, (CONTAINER, SHARES): WRITTEN,
        }  # fmt: skip
        assert node.executor.apply_urgent().results == ()

    def test_what_a_strategy_drops_is_rolled_back_with_what_went_along(self, node2: Node) -> None:
        node2.executor.set_desired(STRATEGY, "s", (desired(POD, IDLE, 1),))
        node2.executor.apply_urgent()
        assert node2.value(POD, IDLE) == "1"
        node2.executor.forget(STRATEGY, "s")
        node2.executor.apply_urgent()
        assert node2.value(POD, IDLE) == "0"
        assert len(node2.baselines) == 0

    def test_what_a_defect_broke_off_is_due_in_the_next_round(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node.executor.set_desired(STRATEGY, "s", (desired(BE, QUOTA, 50_000),))
        with monkeypatch.context() as broken:
            broken.setattr(node.files, "read", lambda _: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                node.executor.apply_urgent()
        assert outcomes(node.executor.apply()) == {(BE, QUOTA): WRITTEN}


@pytest.mark.parametrize("owner", [HOOKS, STRATEGY])
def test_agents_files_and_sysctls(node: Node, tmp_path: Path, owner: Owner) -> None:
    sysctl = tmp_path / "sys" / "kernel" / "sched_core"
    sysctl.parent.mkdir(parents=True)
    sysctl.write_text("1\t2\n")
    layout = Layout(1, Driver.CGROUPFS, proc_root=str(tmp_path))
    executor = node.make_executor(KernelFilesystem(), layout)
    path, content = str(tmp_path / "pod.json"), "x" * 600
    executor.set_desired(owner, "node", (
        desired(path, "file", content),
        desired("kernel.sched_core", "sysctl", "0"),
        desired("kernel.none", "sysctl", "0"),
    ))  # fmt: skip
    found = executor.apply()
    assert [one.outcome for one in found.results] == [UNSUPPORTED, WRITTEN, WRITTEN]
    assert (tmp_path / "pod.json").read_text() == content
    assert [len(str(one.new)) for one in node.changes()] == [501, 1]
    assert [one.text for one in node.baselines.all()] == [None, "1\t2\n"]
    # A sysctl that somebody sets is theirs; a file that was made stays when it is dropped.
    sysctl.write_text("5\n")
    node.now += 61
    [yielded] = [one for one in executor.apply().results if one.outcome is Outcome.YIELDED]
    assert yielded.alert
    executor.forget(owner, "node")
    dropped = [one.reason for one in executor.apply().results if one.target.knob == "file"]
    assert dropped == ["there was no such file; remove it"] * (owner is STRATEGY)
    assert (tmp_path / "pod.json").read_text() == content
