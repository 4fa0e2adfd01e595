"""Faults differ in one place that means something, and are put into functions that are imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.mutation import patching
from tools.mutation.faults import faults, program
from tools.mutation.forks import in_fork
from tools.mutation.ledger import Ledger
from tools.mutation_score import ROOT, pure_modules


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("a < b", "a <= b"),
        ("a + b", "a - b"),
        ("a and b", "a or b"),
        ("not a", "not not a"),
        ("return f()", "return None"),
        ("f(True)", "False"),
        ("x = 1", "2"),
        ("if a: pass", "not a"),
        ("lambda: -a", "+a"),
    ],
)
def test_one_place_changes(statement: str, changed: str) -> None:
    found = faults(f"def f():\n    {statement}")
    assert [one.words.rpartition(" → ")[2] for one in found] == [changed]


@pytest.mark.parametrize(
    "source",
    ['def f(): """Text."""', "def f(a: 1 = 2) -> 3: pass", "def f():\n    a: int | 1", "a < 1"],
)
def test_what_does_nothing_or_is_no_function_stays(source: str) -> None:
    assert faults(source) == []


def test_lines_are_those_of_the_statement_or_of_its_head() -> None:
    found = faults("def f(a):\n    if (a <\n        2):\n        return (\n            a + 1)")
    assert [(one.words.split(":")[2].split()[0], one.lines) for one in found] == [
        ("a", (2, 3)),
        ("2", (2, 3)),
        ("return", (4, 5)),
        ("a", (4, 5)),
        ("1", (4, 5)),
    ]


def test_a_fault_is_put_into_methods_and_inner_functions(tmp_path: Path) -> None:
    source = "class A:\n    def f(self, a):\n        return [b + 1 for b in a]\n"
    file = str(tmp_path / "a.py")
    space: dict[str, type] = {}
    exec(compile(source, file, "exec"), space)
    functions = patching.imported_functions()[file]
    (wrong,) = (one for one in faults(source) if "b - 1" in one.words)
    patching.put(functions, program(source, wrong))
    assert space["A"]().f([1, 2]) == [0, 1]
    patching.put(functions, ast.parse(source))
    assert space["A"]().f([1, 2]) == [2, 3]


def test_a_fork_answers_raises_or_is_ended() -> None:
    assert in_fork(lambda: {"a": 1}, 5, 60) == {"a": 1}
    assert in_fork(lambda: 1 / 0, 5, 60) is None
    assert in_fork(lambda: [None for _ in iter(int, 1)], 0, 60) is None


def test_results_are_kept_until_the_files_change(tmp_path: Path) -> None:
    module, test = tmp_path / "a.py", tmp_path / "test_a.py"
    module.write_text("1")
    test.write_text("2")
    ledger = Ledger(tmp_path / "ledger", tmp_path)
    ledger.note(ledger.trials("a.py", "fault"), "test_a.py", killed=True)
    ledger.save()

    def kept() -> tuple[list[str], bool]:
        again = Ledger(tmp_path / "ledger", tmp_path)
        trials = again.trials("a.py", "fault")
        return [*trials.killers], again.is_known(trials, "test_a.py")

    assert kept() == (["test_a.py"], True)
    test.write_text("3")
    assert kept() == (["test_a.py"], False)
    module.write_text("4")
    assert kept() == ([], False)


def test_the_contract_of_pure_packages_names_modules() -> None:
    found = pure_modules()
    assert "wire/koord_wire/windows.py" in found
    assert "device_daemon/koord_devices/contract.py" in found
    assert all((ROOT / one).is_file() for one in found)
