"""What is said where the libraries of an extra are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from koord_service.extras import install_command

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

OURS = {"google", "msgspec", "pluggy", "yaml"}
THERE = {*sys.stdlib_module_names, *OURS, "koordctl", "koordlet"}

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first not in THERE and not first.startswith(("koord_", "_")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
package = sys.argv.pop(1)
from importlib import import_module
import_module(f"{package}.__main__").main()
"""
"""Runs a program where only what every component needs is installed."""


def run(package: str, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", WITHOUT, package, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("package", "program", "extra", "arguments"),
    [
        ("koordlet", "koordlet", "koordlet", ["--standalone"]),
        ("koord_manager", "koord-manager", "manager", []),
        ("koord_proxy", "koord-runtime-proxy", "proxy", []),
        ("koord_simulation", "koord-simulate", "koordlet", ["day.yaml"]),
        ("koordctl", "koordctl", "koordctl", ["predict", "backtest", "trace.csv"]),
        ("koordctl", "koordctl", "koordctl", ["recommend"]),
        ("koordctl", "koordctl", "koordctl", ["crds", "install"]),
    ],
)
def test_the_extra_is_named(package: str, program: str, extra: str, arguments: list[str]) -> None:
    code, out, err = run(package, *arguments)
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    assert line.startswith(f"{program}: ")
    assert f'the extra "{extra}" is not installed (No module named' in line
    assert line.endswith(f"; run: {install_command(extra)}")


@pytest.mark.parametrize("arguments", [["--version"], ["crds", "show"], ["top", "--help"]])
def test_koordctl_needs_no_extra_on_a_node(arguments: list[str]) -> None:
    code, out, err = run("koordctl", *arguments)
    assert (code, err) == (0, "")
    assert out
