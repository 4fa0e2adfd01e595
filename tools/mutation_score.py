"""Measure how many small faults the tests of core modules notice: ``make mutants``.

Each mutant is one module with one operator, constant or return value changed. It runs in a fork
of this process against the tests that are named beside the module, until one of them fails. The
sample is fixed by ``SEED``, so two runs over the same sources have the same mutants. A survivor
is either a test that is missing, or a mutant that means the same as the original: read it.

No library is used: mutmut and cosmic-ray expect one source folder, start a process for each mutant,
and bring twenty packages along.
"""

from __future__ import annotations

import ast
import copy
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SEED = "2026"
DEADLINE = 300.0
"""Seconds after which a mutant whose tests wait for ever counts as noticed."""

TARGETS = {
    "host/koord_host/planning/arbiter.py": ["tests/host/planning/test_arbiter.py"],
    "koordlet/koordlet/qos_manager/strategies/cpu_suppress/suppression_formula.py": [
        "tests/koordlet/qos_manager/strategies/cpu_suppress/test_suppression_formula.py",
        "tests/koordlet/qos_manager/strategies/cpu_suppress/test_strategy.py",
    ],
    "koordlet/koordlet/qos_manager/eviction/policy/selection.py": [
        "tests/koordlet/qos_manager/eviction/policy/test_selection.py"
    ],
    "koordlet/koordlet/qos_manager/eviction/policy/guard.py": [
        "tests/koordlet/qos_manager/eviction/policy/test_guard.py"
    ],
    "manager/koord_manager/noderesource/core/batch_resource.py": [
        "tests/manager/noderesource/core/test_batch_resource.py"
    ],
    "kube/koord_kube/core/election.py": ["tests/kube/core/test_election.py"],
    "kube/koord_kube/core/reflector.py": ["tests/kube/core/test_reflector.py"],
    "wire/koord_wire/windows.py": ["tests/wire/test_windows.py"],
    "proxy/koord_proxy/rules/merge.py": ["tests/proxy/rules/test_merge.py"],
    "proxy/koord_proxy/rules/breaker.py": ["tests/proxy/rules/test_breaker.py"],
    "model/koord_model/patch.py": ["tests/model/test_patch.py"],
    "host/koord_host/planning/ordering.py": [
        "tests/host/planning/test_ordering.py",
        "tests/host/planning/test_ordering_property.py",
    ],
    "scheduler/koord_scheduler/framework/scheduler.py": [
        "tests/scheduler/framework/test_scheduler.py",
        "tests/scheduler/program/test_program.py",
    ],
    "scheduler/koord_scheduler/framework/pod_states.py": [
        "tests/scheduler/framework/test_pod_states.py",
        "tests/scheduler/framework/test_scheduler.py",
        "tests/scheduler/program/test_program.py",
    ],
    "scheduler/koord_scheduler/framework/queue/scheduling_queue.py": [
        "tests/scheduler/framework/queue/test_scheduling_queue.py",
        "tests/scheduler/framework/test_scheduler.py",
        "tests/scheduler/program/test_program.py",
    ],
    "scheduler/koord_scheduler/framework/class_scores.py": [
        "tests/scheduler/framework/test_class_scores.py",
        "tests/conformance/test_scheduler.py",
    ],
    "scheduler/koord_scheduler/framework/row_scores.py": [
        "tests/scheduler/framework/test_class_scores.py",
        "tests/conformance/test_scheduler.py",
    ],
    "scheduler/koord_scheduler/framework/dry_run.py": [
        "tests/conformance/test_scheduler_preemption.py",
        "tests/scheduler/framework/test_preemption.py",
    ],
}
"""The modules, and the tests that have to notice a fault in each."""

SLOW_IMPORTS = ("aiohttp", "google.protobuf", "grpc", "hypothesis.stateful", "numpy", "yaml")
"""Modules that many tests import, loaded once instead of in each fork."""

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutants(source: str) -> Iterator[tuple[str, ast.Module]]:
    """Each program that differs from this one in one place, with a line that says where."""
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        if hasattr(node, "mutable"):
            continue  # set below on what only types and documents
        for ignored in _without_behaviour(node):
            for part in ast.walk(ignored):
                part.mutable = False  # type: ignore[attr-defined]
        for variant in range(_variants(node)):
            other = copy.deepcopy(tree)
            found = next(part for at, part in enumerate(ast.walk(other)) if at == place)
            before = ast.unparse(found)
            _mutate(found, variant)
            ast.fix_missing_locations(other)
            yield f"{node.lineno}: {before}  →  {ast.unparse(found)}", other  # type: ignore[attr-defined]


def _without_behaviour(node: ast.AST) -> list[ast.AST]:
    """Annotations, and texts that stand alone."""
    parts = [getattr(node, name, None) for name in ("annotation", "returns")]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        parts.append(node.value)
    return [part for part in parts if isinstance(part, ast.AST)]


def _variants(node: ast.AST) -> int:
    match node:
        case ast.Compare():
            return len(node.ops)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            return int(type(node.op) in _SWAPS)
        case ast.UnaryOp():
            return int(isinstance(node.op, ast.Not | ast.USub))
        case ast.Constant():
            return int(isinstance(node.value, int | float))
        case ast.Return() | ast.If() | ast.IfExp():
            return int(isinstance(node, ast.If | ast.IfExp) or node.value is not None)
    return 0


def _mutate(node: ast.AST, variant: int) -> None:
    match node:
        case ast.Compare():
            node.ops[variant] = _swapped(node.ops[variant])
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            node.op = _swapped(node.op)
        case ast.UnaryOp():
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else _double_negation(node)
        case ast.Constant():
            node.value = not node.value if isinstance(node.value, bool) else _more(node.value)
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.If() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)


def _swapped(operator: ast.AST) -> Any:
    return _SWAPS[type(operator)]()


def _double_negation(node: ast.UnaryOp) -> ast.Not:
    node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return ast.Not()


def _more(value: object) -> int | float:
    assert isinstance(value, int | float)
    return value + 1


class MutantFinder(MetaPathFinder):
    """Imports one module from a changed program."""

    def __init__(self, file: str, program: ast.Module) -> None:
        self._path = ROOT / file
        self._name = ".".join(Path(file).with_suffix("").parts[1:])
        self._program = program

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != self._name:
            return None
        loader = _MutantLoader(name, str(self._path), self._program)
        return spec_from_file_location(name, self._path, loader=loader)


class _MutantLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, program: ast.Module) -> None:
        super().__init__(name, path)
        self._program = program

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._program, self.path, "exec")


def tests_pass(file: str, program: ast.Module, tests: list[str], cpu: float) -> tuple[bool, float]:
    """Return if tests pass with a program in the module's place, and their CPU seconds."""
    child = os.fork()
    if child == 0:
        _become_tests(MutantFinder(file, program), tests, cpu)
    end = time.monotonic() + DEADLINE
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status == 0, usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _become_tests(finder: MutantFinder, tests: list[str], cpu: float) -> None:
    code = 1
    try:
        sys.meta_path.insert(0, finder)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + 1, int(cpu) + 2))
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of SLOW_IMPORTS
        code = int(pytest.main([*options, "--hypothesis-profile=repeating", *tests]))
    finally:
        os._exit(code)


def score(file: str, tests: list[str], size: int) -> tuple[list[str], int, float]:
    """The survivors of a sample, how large that was, and the seconds of CPU that it took.

    Raises:
        SystemExit: the tests fail without a fault, too.
    """
    source = (ROOT / file).read_text(encoding="utf-8")
    passed, baseline = tests_pass(file, ast.parse(source), tests, 600)
    if not passed:
        raise SystemExit(f"{file}: its tests fail as it is: {' '.join(tests)}")
    every = list(mutants(source))
    sample = random.Random(SEED).sample(every, min(size, len(every)))
    survivors, spent = [], baseline
    for words, program in sample:
        passed, took = tests_pass(file, program, tests, 10 * baseline + 5)
        spent += took
        if passed:
            survivors.append(words)
    return survivors, len(sample), spent


def main() -> None:
    size = int(os.environ.get("MUTANTS", "30"))
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in SLOW_IMPORTS:
        import_module(name)
    noticed = total = 0
    print(f"up to {size} mutants a module\n")
    print("| module | noticed | of | CPU |\n|---|---|---|---|", flush=True)
    for file, tests in TARGETS.items():
        survivors, number, spent = score(file, tests, size)
        noticed, total = noticed + number - len(survivors), total + number
        print(f"| {file} | {number - len(survivors)} | {number} | {spent:.0f} s |")
        for survivor in survivors:
            print(f"<!-- survives, line {' '.join(survivor.split()):.120} -->", flush=True)
    print(f"| all | {noticed} | {total} | {noticed / total:.0%} |")


if __name__ == "__main__":
    main()
