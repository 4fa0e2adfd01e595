"""A pytest plugin that runs collected tests on faults instead of once.

The tests of a folder are collected once. Each file runs once under coverage; then, for each fault
in lines that it ran, the tests that ran them, the quickest first, until one fails. All of it
happens in forks: nothing that a test leaves behind meets the next.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import coverage
import pytest
from hypothesis import Phase, settings

from tests.support import databases
from tools.mutation import patching
from tools.mutation.faults import Fault, program
from tools.mutation.forks import in_fork
from tools.mutation.ledger import Ledger

LONGEST = 8.0
"""Seconds of a test that is still tried."""
MOST = 25.0
"""Seconds of tests of a file that are tried on one fault."""

Lines = dict[str, dict[int, set[int]]]
"""Numbers of tests by module and line."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A file's tests without a fault: seconds of those that passed, and what they ran."""

    seconds: dict[int, float]
    lines: Lines


class Trials:
    """The plugin."""

    def __init__(
        self, root: Path, modules: dict[str, list[Fault]], ledger: Ledger, killers: int
    ) -> None:
        self._root = root
        self._modules = modules
        self._ledger = ledger
        self._killers = killers
        # Before they are imported: somebody may work on them while this runs.
        self._sources = {module: (root / module).read_text(encoding="utf-8") for module in modules}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        phases = [Phase.explicit, Phase.generate]  # the smallest example is of no use here
        settings.register_profile("trials", settings.get_profile("repeating"), phases=phases)
        settings.load_profile("trials")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files = defaultdict(list)
        for item in session.items:
            files[str(item.path.relative_to(self._root))].append(item)
        functions = patching.imported_functions()
        baselines = {}
        for file, items in files.items():
            measured = in_fork(partial(self._measure, items), 900, 900)
            if measured and any(self._faults(file, measured)):
                baselines[file] = measured
        for file in sorted(baselines, key=lambda file: len(baselines[file].lines)):
            self._try(file, files[file], baselines[file], functions)
            self._ledger.save()
        return True

    def _measure(self, items: list[pytest.Item]) -> Baseline:
        files = [str(self._root / module) for module in self._modules]
        measuring = coverage.Coverage(data_file=None, config_file=False, include=files)
        measuring.start()
        taken = enumerate(self._measured(measuring, items))
        seconds = {number: passed for number, passed in taken if passed is not None}
        measuring.stop()
        data = measuring.get_data()
        lines: Lines = {}
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file).items()
            ran = {line: {int(context) for context in who if context} for line, who in contexts}
            lines[str(Path(file).relative_to(self._root))] = ran
        return Baseline(seconds, lines)

    @staticmethod
    def _measured(measuring: coverage.Coverage, items: list[pytest.Item]) -> Iterator[float | None]:
        """Seconds of each test, with a context of its own; None if it fails."""
        run = _run(items)
        for number in range(len(items)):
            measuring.switch_context(str(number))
            databases.take_unclosed()  # coverage's own
            start = time.monotonic()
            passed = next(run)
            yield time.monotonic() - start if passed else None

    def _faults(self, file: str, baseline: Baseline) -> Iterable[tuple[str, Fault, list[int]]]:
        """Faults that this file may notice and that are not settled, with tests, quickest first."""
        for module, lines in baseline.lines.items():
            for fault in self._modules[module]:
                trials = self._ledger.trials(module, fault.words)
                if len(trials.killers) >= self._killers or self._ledger.is_known(trials, file):
                    continue
                first, last = fault.lines
                ran = set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
                if tests := _quickest(ran, baseline.seconds):
                    yield module, fault, tests

    def _try(
        self,
        file: str,
        items: list[pytest.Item],
        baseline: Baseline,
        functions: patching.Functions,
    ) -> None:
        for module, fault, tests in self._faults(file, baseline):
            own = functions.get(str(self._root / module))
            if own is None:
                continue  # imported by a test only
            seconds = sum(baseline.seconds[number] for number in tests)
            put = partial(patching.put, own, program(self._sources[module], fault))
            chosen = [items[number] for number in tests]
            passed = in_fork(partial(_passes, chosen, put), 5 * seconds + 5, 10 * seconds + 20)
            if passed != "unfit":
                trials = self._ledger.trials(module, fault.words)
                self._ledger.note(trials, file, killed=passed is not True)


def _quickest(tests: set[int], seconds: dict[int, float]) -> list[int]:
    chosen, total = [], 0.0
    for number in sorted(tests & seconds.keys(), key=seconds.__getitem__):
        total += seconds[number]
        if seconds[number] > LONGEST or total > MOST:
            break
        chosen.append(number)
    return chosen


def _passes(items: list[pytest.Item], put: Callable[[], None]) -> bool | str:
    try:
        put()
    except ValueError:
        return "unfit"
    return all(_run(items))


def _run(items: list[pytest.Item]) -> Iterator[bool]:
    """Run tests, and say of each whether it passed."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        failed = item.session.testsfailed
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item.session.testsfailed == failed
