"""Measure how many small faults the tests notice, and which file notices which: ``make mutants``.

Each fault is one operator, constant or return value of a function of a pure module. The sample of a
module is fixed by its path, so two runs over the same sources have the same faults. Results are
kept in ``.cache/mutants.json``: a run goes on where the last one ended, and tries what changed
since. A survivor is either a test that is missing, or a fault that means the same as the original:
read it.

No library is used: mutmut and cosmic-ray expect one source folder, start a process for each fault,
and bring twenty packages along.
"""

from __future__ import annotations

import argparse
import configparser
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.mutation.faults import Fault, faults  # noqa: E402
from tools.mutation.ledger import Ledger  # noqa: E402
from tools.mutation.trials import Trials  # noqa: E402

LEDGER = ROOT / ".cache/mutants.json"
TESTS = [
    *("model", "wire", "hooks", "host", "kube", "serving", "prediction", "service", "proxy"),
    *("koordlet", "manager", "devices", "scheduler", "koordctl", "simulation", "conformance"),
]
"""Folders of tests, those of what all use first."""
COMPONENTS = {"koord_devices": "device_daemon"}
"""Folders of packages that are not named after them."""
UNFIT = "not integration and not containerd and not vm"
OPTIONS = [
    *("-o", "addopts=--strict-markers --import-mode=importlib", "-m", UNFIT),
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:terminal"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of what this process has imported
]


def pure_modules() -> list[str]:
    """Files of the packages that the contract ``pure`` of ``.importlinter`` names."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    packages = contracts["importlinter:contract:pure"]["source_modules"].split()
    return sorted({str(file.relative_to(ROOT)) for name in packages for file in _files(name)})


def _files(package: str) -> Iterator[Path]:
    component = package.split(".")[0]
    folder = COMPONENTS.get(component, component.removeprefix("koord_"))
    for place in ROOT.glob(f"{folder}/{package.replace('.', '/')}"):
        yield from (file for file in place.rglob("*.py") if "_pb2" not in file.name)
    yield from ROOT.glob(f"{folder}/{package.replace('.', '/')}.py")


def sample(module: str, size: int) -> list[Fault]:
    """The same faults each time."""
    every = faults((ROOT / module).read_text(encoding="utf-8"))
    return random.Random(module).sample(every, min(size, len(every)))


def try_folder(folder: str, modules: dict[str, list[Fault]], killers: int) -> None:
    """Run one folder's tests on all faults, in a process that has collected nothing else."""
    child = os.fork()
    if child == 0:
        plugin = Trials(ROOT, modules, Ledger(LEDGER, ROOT), killers)
        code = pytest.main([*OPTIONS, folder], [plugin])
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        print(f"{folder}: ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)


def report(modules: dict[str, list[Fault]], *, survivors: bool) -> None:
    """A table of the modules, the worst first."""
    ledger = Ledger(LEDGER, ROOT)
    rows, noticed, total = [], 0, 0
    for module, chosen in modules.items():
        alive = [mutant for mutant in chosen if not ledger.trials(module, mutant.words).killers]
        noticed, total = noticed + len(chosen) - len(alive), total + len(chosen)
        if chosen:
            rows.append((1 - len(alive) / len(chosen), module, len(chosen), alive))
    print("| module | noticed | of |\n|---|---|---|")
    for _, module, number, alive in sorted(rows):
        print(f"| {module} | {number - len(alive)} | {number} |")
        for fault in alive if survivors else ():
            tried = len(ledger.trials(module, fault.words).blind)
            print(f"<!-- {fault.words:.150} ({tried} files run it) -->")
    print(f"| all | {noticed} | {total} | {noticed / max(total, 1):.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the small faults that tests notice.")
    parser.add_argument("modules", nargs="*", help="folders or files; all pure modules if none")
    parser.add_argument("--mutants", type=int, default=int(os.environ.get("MUTANTS", "12")))
    parser.add_argument("--killers", type=int, default=1, help="test files to find for each fault")
    parser.add_argument("--tests", action="append", help="folders of tests; all if none")
    parser.add_argument("--report", action="store_true", help="print what is known, try nothing")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    chosen = [module for name in arguments.modules for module in _below(name)] or pure_modules()
    modules = {module: sample(module, arguments.mutants) for module in chosen}
    for folder in arguments.tests or [f"tests/{name}" for name in TESTS]:
        if not arguments.report:
            print(folder, file=sys.stderr, flush=True)
            try_folder(folder, modules, arguments.killers)
    report(modules, survivors=bool(arguments.modules))


def _below(name: str) -> list[str]:
    path = ROOT / name
    found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(file.relative_to(ROOT)) for file in found]


if __name__ == "__main__":
    main()
