import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from koord_host.planning.jobs import CancelToken
from koord_host.resctrl import ResctrlGroups, Tenant
from koord_model.qos import QoSClass
from koord_model.resctrl import CacheWays, ResctrlLimits

from tests.support.fake_resctrl import FakeResctrl

ROOT = "/sys/fs/resctrl"
DESIRED = ResctrlLimits("koordlet-a", llc=CacheWays(0, 50), mb=40, fallback=QoSClass.LS)
BE = ResctrlLimits("BE", llc=CacheWays(0, 30))
Tids = Iterable[int] | Callable[[], Iterable[int]]


def tenant(asked: ResctrlLimits, tids: Tids = (), pod: str = "") -> Tenant:
    return Tenant(asked, tids if callable(tids) else lambda: tids, pod)


class Node:
    """A fake resctrl, its groups, and the journal of what was changed."""

    def __init__(self, fake: FakeResctrl, **more: object) -> None:
        self.fake = fake
        self.journal: list[tuple[str, str, str, str, str]] = []
        self.groups = ResctrlGroups(
            fake,
            record=lambda *change: self.journal.append(change),
            **more,  # type: ignore[arg-type]
        )

    def reconcile(
        self,
        *limits: ResctrlLimits,
        tids: Tids = (),
        shared: Mapping[str, ResctrlLimits] | None = None,
        pod: str = "",
    ) -> tuple[str, ...]:
        report = self.groups.reconcile([tenant(asked, tids, pod) for asked in limits], shared)
        self.fake.check()
        return report.refused

    def lines(self, group: str) -> dict[str, str]:
        text = self.fake.read(f"{ROOT}/{group}/schemata")
        pairs = (line.strip().split(":") for line in text.splitlines())
        return {name: values.replace(" ", "") for name, values in pairs}

    def tasks(self, group: str) -> set[int]:
        return {int(tid) for tid in self.fake.read(f"{ROOT}/{group}/tasks").split()}

    def written(self) -> list[tuple[str, str]]:
        found = [(path.removeprefix(f"{ROOT}/"), text) for path, text in self.fake.writes]
        self.fake.writes.clear()
        return found


def limits(group: str, fallback: QoSClass = QoSClass.LS) -> ResctrlLimits:
    return replace(DESIRED, group=f"koordlet-{group}", fallback=fallback)


# A group of one's own


def test_a_pod_has_its_group_with_its_tasks_in_it() -> None:
    node = Node(FakeResctrl())
    for tid in (11, 12, 99):
        node.fake.add_task(tid)
    report = node.groups.reconcile([tenant(DESIRED, (11, 12))])
    assert (report.placed, report.refused) == ({"koordlet-a": "koordlet-a"}, ())
    assert report.free == 8 - 1 - 1 - 3
    assert node.lines("koordlet-a") == {"L3": "0=003ff;1=003ff", "MB": "0=40;1=40"}
    assert node.tasks("koordlet-a") == {11, 12}
    assert node.written() == [
        ("koordlet-a/schemata", "L3:0=3ff;1=3ff\n"),
        ("koordlet-a/schemata", "MB:0=40;1=40\n"),
        ("koordlet-a/tasks", "11\n"),
        ("koordlet-a/tasks", "12\n"),
    ]
    why = "llc 0–50 %, mb 40 %"
    assert node.journal == [
        ("koordlet-a", "resctrl.group", "absent", "present", why),
        ("koordlet-a", "resctrl.L3", "L3:0=fffff;1=fffff", "L3:0=3ff;1=3ff", why),
        ("koordlet-a", "resctrl.MB", "MB:0=100;1=100", "MB:0=40;1=40", why),
        ("koordlet-a", "resctrl.tasks", "elsewhere", "11 12", "tasks of resctrl group koordlet-a"),
    ]


def test_a_changed_limit_is_applied_where_it_differs() -> None:
    node = Node(FakeResctrl(l3_domains=(0, 8)))
    node.reconcile(DESIRED)
    node.written()
    node.reconcile(replace(DESIRED, mb_by_domain={8: 70}))
    assert node.written() == [("koordlet-a/schemata", "MB:8=70\n")]
    node.reconcile(replace(DESIRED, llc=None, mb=None))
    assert node.lines("koordlet-a") == {"L3": "0=fffff;8=fffff", "MB": "0=100;8=100"}


def test_what_cannot_be_had_is_reported_and_the_rest_applied() -> None:
    node = Node(FakeResctrl(mb="mbps"))
    asked = replace(DESIRED, llc_by_domain={5: CacheWays(0, 10)})
    domain, bandwidth = node.reconcile(asked, pod="shop/web-0")
    assert domain == "pod shop/web-0: resctrl: llc: cacheID 5 does not exist; there are: 0, 1"
    assert bandwidth.startswith("pod shop/web-0: resctrl: mb: 40 % of an unknown bandwidth")
    assert node.lines("koordlet-a")["L3"] == "0=003ff;1=003ff"


def test_a_line_that_the_kernel_refuses_is_reported_with_its_reason() -> None:
    node = Node(FakeResctrl())
    fake = node.fake
    fake.write(f"{ROOT}/schemata", "L3:0=ff;1=ff\n")
    fake.make_directory(f"{ROOT}/theirs")
    fake.write(f"{ROOT}/theirs/schemata", "L3:0=fff00;1=fff00\n")
    fake.write(f"{ROOT}/theirs/mode", "exclusive\n")
    [line] = node.reconcile(DESIRED)
    assert line == (
        "resctrl group koordlet-a: resctrl: the kernel refuses L3:0=3ff;1=3ff: Invalid argument "
        "(Overlaps with exclusive group)"
    )
    assert node.lines("koordlet-a") == {"L3": "0=000ff;1=000ff", "MB": "0=40;1=40"}
    # What is not asked for stays clear of them.
    assert node.reconcile(replace(DESIRED, llc=None)) == ()


def test_a_value_that_the_kernel_rounds_is_written_once() -> None:
    class Rounding(FakeResctrl):
        """A kernel whose steps are not those in info, as on some Arm machines."""

        def write(self, path: str, text: str) -> None:
            super().write(path, text.replace("=40", "=60"))

    node = Node(Rounding())
    for _ in range(3):
        assert node.reconcile(DESIRED) == ()
    assert [change[3] for change in node.journal if change[1] == "resctrl.MB"] == ["MB:0=60;1=60"]
    node.reconcile(replace(DESIRED, mb=50))
    assert node.lines("koordlet-a")["MB"] == "0=50;1=50"
    # A group made anew is set anew.
    node.reconcile(DESIRED)
    node.groups.collect(())
    node.fake.writes.clear()
    node.reconcile(DESIRED)
    assert [text for _, text in node.written()] == ["L3:0=3ff;1=3ff\n", "MB:0=60;1=60\n"]


# Budget and fallback


def test_groups_are_kept_for_classes_and_the_rest_share() -> None:
    node = Node(FakeResctrl(closids=6, mb=None))
    asked = [
        limits("a"),
        limits("b"),
        limits("c"),
        limits("d", QoSClass.LSE),
        limits("e", QoSClass.SYSTEM),
    ]
    shared = {"LS": ResctrlLimits("LS", llc=CacheWays(0, 70))}
    lines = node.reconcile(*asked, shared=shared)
    assert node.groups.groups() == ("LS", "LSR", "koordlet-a", "koordlet-b")
    assert (node.lines("LS"), node.lines("LSR")) == (
        {"L3": "0=03fff;1=03fff"},
        {"L3": "0=fffff;1=fffff"},
    )
    start = "llc 0–50 %, mb 40 % not applied: no resctrl group of its own: of 6 CLOSIDs "
    a, b, *others = [line for line in lines if "no MB" not in line]
    assert a == (
        f"resctrl group koordlet-c: {start}the root group has 1, other groups 2, 3 are kept for "
        "LSR, LS, BE; its tasks share group LS"
    )
    assert b.endswith("other groups 3, 2 are kept for LSR, BE; its tasks share group LSR")
    assert [line.rpartition("; ")[2] for line in others] == ["its tasks stay where they are"]


def test_who_shares_gets_its_group_when_one_is_free() -> None:
    node = Node(FakeResctrl(closids=5, mb=None))
    node.fake.add_task(21)
    b = limits("b")
    report = node.groups.reconcile([tenant(limits("a")), tenant(b, (21,))])
    assert report.placed == {"koordlet-a": "koordlet-a", "koordlet-b": "LS"}
    assert (report.free, node.tasks("LS")) == (0, {21})
    assert node.groups.collect({"koordlet-b"}) == ()
    report = node.groups.reconcile([tenant(b, (21,))])
    assert (report.placed, node.tasks("koordlet-b")) == ({"koordlet-b": "koordlet-b"}, {21})


def test_shared_groups_that_others_made_are_used_as_they_are() -> None:
    node = Node(FakeResctrl(closids=4, mb=None))
    node.fake.make_directory(f"{ROOT}/LS")
    node.fake.write(f"{ROOT}/LS/schemata", "L3:0=f\n")
    node.reconcile(limits("a"), shared={"LS": ResctrlLimits("LS")})
    assert node.lines("LS") == {"L3": "0=0000f;1=fffff"}
    node.groups.remove_all_ours()
    assert node.groups.groups() == ("LS",)


def test_shared_groups_are_tenants_too_when_somebody_wants_them() -> None:
    node = Node(FakeResctrl(closids=4, mb=None))
    assert node.reconcile(BE, limits("a", QoSClass.BE), shared={"BE": ResctrlLimits("BE")})
    assert node.lines("BE") == {"L3": "0=0003f;1=0003f"}


class Silent(FakeResctrl):
    """A kernel that does not say why it refuses."""

    def read(self, path: str) -> str:
        if path.endswith("last_cmd_status"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return super().read(path)


FULL = "nor is there a group LS: No space left on device (Out of"


@pytest.mark.parametrize(
    ("fake", "asked", "words"),
    [
        (
            FakeResctrl(rmids=2),
            [limits("a"), limits("b"), limits("c", QoSClass.NONE)],
            f"no resctrl group of its own: No space left on device (Out of RMIDs); {FULL} RMIDs)",
        ),
        (
            FakeResctrl(closids=1, mb=None),
            [limits("a")],
            f"other groups 0, 3 are kept for LSR, LS, BE; {FULL} CLOSIDs)",
        ),
        (
            Silent(rmids=1),
            [limits("a", QoSClass.NONE)],
            "no resctrl group of its own: No space left on device; its tasks stay where they are",
        ),
    ],
    ids=["out of RMIDs", "out of CLOSIDs", "silent"],
)
def test_there_may_be_no_group(fake: FakeResctrl, asked: list[ResctrlLimits], words: str) -> None:
    assert Node(fake).reconcile(*asked)[0].endswith(words)


@pytest.mark.parametrize("name", ["", "info", "mon_groups", "../x", "a/b", ".x"])
def test_names_that_are_no_groups(name: str) -> None:
    node = Node(FakeResctrl())
    [line] = node.reconcile(ResctrlLimits(name, mb=40))
    assert f"{name!r} is not a valid name for one" in line
    assert node.groups.groups() == ()


# Tasks


def test_threads_that_appear_meanwhile_are_moved_too() -> None:
    node = Node(FakeResctrl())
    alive = [11]
    node.fake.add_task(11)

    def fork(path: str, text: str) -> None:
        if path.endswith("/tasks") and len(alive) < 3:
            alive.append(alive[-1] + 1)
            node.fake.add_task(alive[-1])

    node.fake.before_write = fork
    assert node.reconcile(DESIRED, tids=lambda: list(alive)) == ()
    assert node.tasks("koordlet-a") == {11, 12, 13}


@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_number_that_another_thread_gets_is_left_or_taken_back(moment: str) -> None:
    node = Node(FakeResctrl())
    node.fake.add_task(11)
    alive, asked = [11], 0

    def reuse() -> None:
        """Another pod's thread gets the number, which is in no list of ours."""
        alive.clear()
        node.fake.remove_task(11)
        node.fake.add_task(11)

    def listed() -> list[int]:
        nonlocal asked
        asked += 1
        if asked == 2 and moment == "before":  # since its start time was read
            reuse()
            return [11]
        return list(alive)

    def written(path: str, text: str) -> None:
        if path == f"{ROOT}/koordlet-a/tasks" and alive and moment == "during":
            reuse()

    node.fake.before_write = written
    assert node.reconcile(DESIRED, tids=listed) == ()
    assert (node.tasks("koordlet-a"), node.tasks("")) == (set(), {11})
    assert [line for line in node.journal if line[1] == "resctrl.tasks"] == []


def test_threads_that_never_stop_appearing_are_left_for_the_next_time() -> None:
    node = Node(FakeResctrl())
    alive: list[int] = []

    def listed() -> list[int]:
        alive.append(len(alive) + 1)
        node.fake.add_task(alive[-1])
        return alive

    assert node.reconcile(DESIRED, tids=listed) == (
        (
            "resctrl group koordlet-a: resctrl: not all threads are in koordlet-a:"
            " threads appear faster than they move"
        ),
    )
    assert node.tasks("koordlet-a") == set(alive[:-1])


def after(node: Node, writes: int) -> CancelToken:
    """Cancelled after so many writes."""
    token = CancelToken(lambda: 0.0, 1.0)

    def count(path: str, text: str) -> None:
        if len(node.fake.writes) + 1 >= writes:
            token.cancel()

    node.fake.before_write = count
    return token


def test_it_stops_between_two_threads_and_the_next_time_goes_on() -> None:
    node = Node(FakeResctrl())
    for tid in range(11, 19):
        node.fake.add_task(tid)
    both = [tenant(DESIRED, range(11, 15)), tenant(limits("b"), range(15, 19))]
    # Two lines of schemata, and the tasks.
    report = node.groups.reconcile(both, cancel=after(node, 4))
    assert node.tasks("koordlet-a") == {11, 12}
    assert report.placed == {"koordlet-a": "koordlet-a"}, "the other was not come to"
    assert [line.rpartition(": ")[2] for line in report.refused] == [
        "it was cancelled",
        "it was cancelled (the next look goes on)",
    ]
    assert node.journal[-1][1:4] == ("resctrl.tasks", "elsewhere", "11 12")
    report = node.groups.reconcile(both)
    assert (node.tasks("koordlet-a"), node.tasks("koordlet-b")) == (
        {*range(11, 15)},
        {*range(15, 19)},
    )
    assert report.refused == ()


def test_groups_that_are_not_removed_in_time_are_reported_and_still_ours() -> None:
    node = Node(FakeResctrl())
    node.reconcile(DESIRED)
    token = CancelToken(lambda: 0.0, 1.0)
    token.cancel()
    assert node.groups.collect([], token) == (
        "resctrl group koordlet-a not removed: it was cancelled",
    )
    assert node.groups.collect([]) == ()
    assert node.groups.groups() == ()


def _fail() -> list[int]:
    raise OSError(errno.ENODEV, "No such device")


@pytest.mark.parametrize(
    ("tids", "moved", "words"),
    [
        ([11, 12, 13, 11], {11, 12}, None),  # the 13th has ended
        # Of another PID namespace: never taken for ourselves.
        ([0, 0, 11], {11}, "1 threads not in koordlet-a, thread 0: not in this PID namespace"),
        ([66, 12], {12}, "1 threads not in koordlet-a, thread 66: Operation not permitted"),
        (_fail, set(), "resctrl group koordlet-a: resctrl: [Errno 19] No such device"),
    ],
    ids=["ended", "namespaces", "refused", "unlisted"],
)
def test_threads_that_cannot_be_moved(tids: Tids, moved: set[int], words: str | None) -> None:
    node = Node(FakeResctrl())
    for tid in (11, 12, 66):
        node.fake.add_task(tid)

    def refuse(path: str, text: str) -> None:
        if text == "66\n":
            raise OSError(errno.EPERM, "Operation not permitted")

    node.fake.before_write = refuse
    lines = node.reconcile(DESIRED, tids=tids)
    assert (lines == ()) if words is None else lines[0].endswith(words)
    assert node.tasks("koordlet-a") == moved


def test_the_journal_does_not_list_thousands() -> None:
    node = Node(FakeResctrl())
    for tid in range(1, 31):
        node.fake.add_task(tid)
    node.reconcile(DESIRED, tids=range(1, 31))
    assert node.journal[-1][3].endswith(" 19 20 and 10 more")


def test_a_group_that_vanishes_meanwhile_costs_that_pod_alone() -> None:
    node = Node(FakeResctrl())
    node.fake.add_task(11)

    def vanish(path: str, text: str) -> None:
        if path == f"{ROOT}/koordlet-a/tasks":
            node.fake.remove_group("koordlet-a")

    node.fake.before_write = vanish
    [line] = node.reconcile(DESIRED, limits("b"), tids=[11])
    assert line.startswith("resctrl group koordlet-a: resctrl: [Errno 2]")
    assert node.tasks("koordlet-b") == {11}


# Removing


def test_groups_of_pods_that_are_gone_are_collected_and_no_others() -> None:
    node = Node(FakeResctrl(closids=16, mb=None))
    node.fake.make_directory(f"{ROOT}/theirs")
    node.fake.make_directory(f"{ROOT}/LS")
    node.fake.add_task(11)
    node.reconcile(limits("a"), limits("b"), tids=[11])
    node.reconcile(BE, ResctrlLimits("LS", llc=CacheWays(0, 100)))
    assert node.groups.collect({"koordlet-a", "BE"}) == ()
    assert node.groups.groups() == ("BE", "LS", "koordlet-a", "theirs")
    assert 11 in node.tasks("")
    gone = ("koordlet-b", "resctrl.group", "present", "absent", "no running pod wants it")
    assert node.journal[-1] == gone
    assert node.groups.collect(()) == ()
    assert node.groups.groups() == ("LS", "theirs")


def test_putting_back_what_was_found() -> None:
    node = Node(FakeResctrl(closids=16, mb=None))
    for name in ("theirs", "LSR", "koordlet-old"):
        node.fake.make_directory(f"{ROOT}/{name}")
    node.reconcile(limits("a"), BE)
    later = Node(node.fake, made=node.groups.shared)
    assert later.groups.remove_all_ours() == ()
    assert node.groups.groups() == ("LSR", "theirs")


@pytest.mark.parametrize("how", ["removed by us", "removed by them"])
def test_a_shared_group_that_somebody_made_anew_is_theirs(how: str) -> None:
    node = Node(FakeResctrl(mb=None))
    node.reconcile(BE)
    if how == "removed by us":
        node.groups.remove_all_ours()
    else:
        node.fake.remove_directory(f"{ROOT}/BE")
        node.groups.collect(())
    node.fake.make_directory(f"{ROOT}/BE")
    assert node.groups.remove_all_ours() == ()
    assert node.groups.groups() == ("BE",)


def test_a_group_that_cannot_be_removed_is_reported() -> None:
    class Busy(FakeResctrl):
        def remove_directory(self, path: str) -> None:
            if path.endswith("b"):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory")
            raise OSError(errno.EBUSY, "Device or resource busy")

    node = Node(Busy())
    node.reconcile(limits("a"), limits("b"))
    assert node.groups.collect(()) == (
        "resctrl group koordlet-a not removed: Device or resource busy",
    )
    assert node.journal[-1][3] != "absent"


# What the node has


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nodev\tsysfs\nnodev\tresctrl\n", "not mounted (mount -t resctrl resctrl /elsewhere)"),
        ("nodev\tsysfs\n", "the CPU or the kernel has none (/proc/filesystems does not name it)"),
        (None, "/elsewhere is not mounted, or the CPU or the kernel has no resctrl"),
    ],
)
def test_where_it_is_not_mounted_it_says_why(text: str | None, reason: str) -> None:
    class Listed(FakeResctrl):
        def read(self, path: str) -> str:
            return text if text and path == "/proc/filesystems" else super().read(path)

    groups = ResctrlGroups(Listed(), "/elsewhere", record=print)
    assert (groups.available(), groups.why_not()) == (False, reason)
    report = groups.reconcile([tenant(DESIRED)])
    assert (report.placed, report.refused) == ({}, (f"resctrl: {reason}",))
    assert groups.collect(()) == groups.remove_all_ours() == ()


def test_a_node_that_can_only_be_monitored() -> None:
    fake = FakeResctrl(mb=None)
    fake.resources.clear()
    assert ResctrlGroups(fake, record=print).why_not() == (
        "/sys/fs/resctrl: no cache or memory bandwidth to allocate (no L3, L2 or MB in info)"
    )


def test_a_remount_with_other_options_is_noticed() -> None:
    node = Node(FakeResctrl())
    node.reconcile(DESIRED)
    node.fake = FakeResctrl(code_data=True, l2_domains=(0, 4))
    vars(node.groups)["_files"] = node.fake
    assert node.reconcile(replace(DESIRED, l2=CacheWays(0, 10))) == ()
    assert node.lines("koordlet-a") == {
        "L3CODE": "0=003ff;1=003ff",
        "L3DATA": "0=003ff;1=003ff",
        "L2": "0=00003;4=00003",
        "MB": "0=40;1=40",
    }
    assert node.groups.info().closids == 8


class Late(FakeResctrl):
    """Somebody else makes and removes each group just before."""

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        super().remove_directory(path)


def test_a_group_that_somebody_makes_or_removes_first_is_no_error() -> None:
    node = Node(Late())
    assert node.reconcile(DESIRED) == ()
    assert node.lines("koordlet-a")["MB"] == "0=40;1=40"
    assert node.groups.collect(()) == ()
    assert node.groups.groups() == ()
    assert "resctrl.group" not in [change[1] for change in node.journal]


def test_other_peoples_groups_count_against_the_budget() -> None:
    node = Node(FakeResctrl(closids=8, mb=None))
    assert node.groups.free() == 4
    for name in ("theirs", "BE"):
        node.fake.make_directory(f"{ROOT}/{name}")
    assert node.groups.free() == 3


# Any machine


@given(
    st.integers(1, 20),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["intel", "amd", "mbps", None]),
    st.sets(st.integers(0, 90), min_size=1, max_size=4),
    st.integers(0, 99),
    st.integers(1, 100),
)
def test_no_machine_refuses_a_line(
    ways: int,
    least: int,
    sparse: bool,
    code_data: bool,
    mb: str | None,
    domains: set[int],
    start: int,
    percent: int,
) -> None:
    fake = FakeResctrl(
        cbm_mask=f"{(1 << ways) - 1:x}",
        min_cbm_bits=min(least, ways),
        sparse_masks=sparse,
        code_data=code_data,
        l3_domains=tuple(sorted(domains)),
        mb=mb,
    )
    node = Node(fake, full_bandwidth=100_000 if mb == "mbps" else None)
    asked = ResctrlLimits("koordlet-a", llc=CacheWays(start, 100), mb=percent if mb else None)
    fake.add_task(11)
    assert node.reconcile(asked, tids=[11]) == ()
    node.written()
    # What is in line is not written again, nor after a restart.
    for again in (node, Node(fake, full_bandwidth=100_000 if mb == "mbps" else None)):
        known = len(again.journal)
        assert again.reconcile(asked, tids=[11]) == ()
        assert (again.written(), len(again.journal)) == ([], known)


class Pods(RuleBasedStateMachine):
    """Pods come, change and go, and so do other people's groups."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node(FakeResctrl(closids=7, mb=None))
        self.alive: dict[str, tuple[ResctrlLimits, tuple[int, ...]]] = {}
        self.theirs: set[str] = set()
        self.started = 0

    @rule(start=st.integers(0, 99), qos=st.sampled_from(list(QoSClass)))
    def begin(self, start: int, qos: QoSClass) -> None:
        self.started += 1
        self.node.fake.add_task(self.started)
        asked = ResctrlLimits(f"koordlet-{self.started}", llc=CacheWays(start, 100), fallback=qos)
        self.alive[asked.group] = (asked, (self.started,))
        self.reconcile()

    @rule(data=st.data(), start=st.integers(0, 99))
    def change(self, data: st.DataObject, start: int) -> None:
        if self.alive:
            group = data.draw(st.sampled_from(sorted(self.alive)))
            asked, tids = self.alive[group]
            self.alive[group] = (replace(asked, llc=CacheWays(start, 100)), tids)
            self.reconcile()

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.alive:
            _, tids = self.alive.pop(data.draw(st.sampled_from(sorted(self.alive))))
            self.node.fake.remove_task(tids[0])
            self.reconcile()

    @rule()
    def somebody_else_makes_one(self) -> None:
        name = f"theirs-{len(self.theirs)}"
        try:
            self.node.fake.make_directory(f"{ROOT}/{name}")
            self.theirs.add(name)
        except OSError:
            pass

    def reconcile(self) -> None:
        groups = self.node.groups
        assert groups.collect(self.alive) == ()
        report = groups.reconcile([tenant(*one) for one in self.alive.values()])
        for group, (_, tids) in self.alive.items():
            placed = report.placed[group]
            assert placed in (group, "LSR", "LS", "BE", "")
            assert not placed or tids[0] in self.node.tasks(placed)
            assert placed == group or any(group in line for line in report.refused)

    @invariant()
    def the_node_is_in_order(self) -> None:
        self.node.fake.check()
        there = self.node.groups.groups()
        assert self.theirs <= set(there)
        own = {name for name in there if name.startswith("koordlet-")}
        assert own <= set(self.alive)

    def teardown(self) -> None:
        assert self.node.groups.remove_all_ours() == ()
        assert set(self.node.groups.groups()) == self.theirs


TestPods = Pods.TestCase


def test_shared_groups_are_reported_before_they_are_made_and_after_they_went() -> None:
    fake, reported = FakeResctrl(mb=None), []

    def keep(names: frozenset[str]) -> None:
        reported.append((sorted(names), fake.exists(f"{ROOT}/BE")))

    node = Node(fake, keep=keep)
    node.reconcile(BE, limits("a"))
    node.groups.collect(())
    assert reported == [(["BE"], False), ([], False)]
