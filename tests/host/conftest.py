"""A node in memory, and an executor on it whose clock the test turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from koord_host.kernel_files.interface import KernelFiles
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.drift import DriftPolicyOf, by_row
from koord_host.planning.jobs import Jobs
from koord_host.planning.outcomes import Outcome, Result, Round
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import ChangeEntry, Journal
from koord_host.resource_executor.restore import RestoreResult, restore

from tests.support.fake_cgroupfs import FakeCgroupfs
from tests.support.journals import read

HOOKS = Owner("hooks", Priority.HOOKS)
STRATEGY = Owner("cpusuppress", Priority.STRATEGY)
OPERATOR = Owner("operator", Priority.OPERATOR)


def desired(place: str, knob: str, value: int | str, why: str = "test") -> DesiredValue:
    return DesiredValue(Target(place, knob), value, why, "ns/pod")


V1, V2 = Layout(1, Driver.CGROUPFS), Layout(2, Driver.CGROUPFS)


def make_executor(
    files: KernelFiles,
    layout: Layout = V1,
    journal: Journal | None = None,
    baselines: BaselineStore | None = None,
    *,
    clock: Callable[[], float] = lambda: 0.0,
    monotonic: Callable[[], float] = lambda: 0.0,
    policy: DriftPolicyOf = by_row,
    jobs: Jobs | None = None,
) -> Executor:
    if baselines is None:
        baselines = BaselineStore("")
    return Executor(
        files, layout, journal or Journal("", print), baselines,
        clock=clock, monotonic=monotonic, policy=policy, jobs=jobs,
    )  # fmt: skip


class Node:
    """A fake cgroupfs, the executor that writes to it, and both their clocks."""

    def __init__(
        self, files: FakeCgroupfs, directory: Path, policy: DriftPolicyOf = by_row
    ) -> None:
        self.files = files
        self.directory = directory
        self.layout = Layout(files.version, Driver.CGROUPFS)
        self.now = 1000.0
        self.reported: list[str] = []
        self.journal_path = str(directory / "journal.jsonl")
        self.journal = Journal(self.journal_path, self.reported.append)
        self.baselines = BaselineStore(str(directory / "originals.db"), boot="b")
        self.executor = self.make_executor(policy=policy)
        self._next: Node | None = None

    def make_executor(
        self,
        files: KernelFiles | None = None,
        layout: Layout | None = None,
        policy: DriftPolicyOf = by_row,
        jobs: Jobs | None = None,
    ) -> Executor:
        """Another one with the same journal, baselines and clocks."""
        both = (self.journal, self.baselines)
        now = lambda: self.now  # noqa: E731
        return make_executor(
            files or self.files, layout or self.layout, *both,
            clock=now, monotonic=now, policy=policy, jobs=jobs,
        )  # fmt: skip

    def again(self) -> Node:
        """The next run of the program, on the same node and the same files."""
        self.close()
        self._next = Node(self.files, self.directory)
        return self._next

    def path(self, place: str, knob: str) -> str:
        return self.layout.path(KNOBS[knob], place)

    def value(self, place: str, knob: str) -> str:
        return self.files.read(self.path(place, knob)).strip()

    def set(self, place: str, knob: str, text: str) -> None:
        """As somebody else does; not among the writes that tests check."""
        self.files.write(self.path(place, knob), text)
        self.files.writes.clear()

    def set_desired(
        self, *desired_values: DesiredValue, owner: Owner = HOOKS, scope: str = "test"
    ) -> Round:
        self.executor.set_desired(owner, scope, desired_values)
        return self.executor.apply()

    def let_go(self, owner: Owner = STRATEGY, scope: str = "test") -> Round:
        self.executor.forget(owner, scope)
        return self.executor.apply()

    def restore(self, *, force: bool = False) -> dict[Target, RestoreResult]:
        now = lambda: self.now  # noqa: E731
        report = restore(self.files, self.layout, self.baselines, self.journal, now, force=force)
        return {one.target: one for one in report}

    def nothing_is_left(self) -> bool:
        return not self.executor._states and len(self.baselines) == 0

    def later(self, seconds: float = 61.0) -> Round:
        self.now += seconds
        return self.executor.apply()

    def changes(self) -> list[ChangeEntry]:
        return list(read(self.journal_path))

    def close(self) -> None:
        """Close the files of this run and of those after it."""
        self.journal.close()
        self.baselines.close()
        if self._next is not None:
            self._next.close()


def outcomes(found: Round) -> dict[tuple[str, str], Outcome]:
    return {tuple(one.target): one.outcome for one in found.results}


def only(found: Round) -> Result:
    [result] = found.results
    return result


MakeNode = Callable[..., Node]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    nodes: list[Node] = []

    def make(version: int = 1, policy: DriftPolicyOf = by_row, **options: object) -> Node:
        files = FakeCgroupfs(version, **options)  # type: ignore[arg-type]
        for group in ("kubepods/besteffort/pod1/c1", "kubepods/besteffort/pod2/c2"):
            files.make_group(group)
        directory = tmp_path / str(len(nodes))
        directory.mkdir()
        nodes.append(Node(files, directory, policy))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """A node with cgroup v1."""
    return make_node()


@pytest.fixture
def node2(make_node: MakeNode) -> Node:
    """A node with cgroup v2."""
    return make_node(2)
