"""All commands: each has an example that it takes, and formats or a word about why it has none."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from koord_service.help_text import calls_of
from koordctl.commands import parser
from koordctl.main import main

from tests.koordctl.conftest import Failing, Run

DOCUMENTED = Path("docs/operations/koordctl.md").read_text()


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for action in below:
        for command in action.choices.values():
            yield from leaves(command)
    if not below:
        yield parser


WHOLE = parser()
EVERY = {each.prog: each for each in leaves(WHOLE)}


@pytest.mark.parametrize("prog", EVERY)
def test_examples_are_taken_and_formats_are_there(prog: str) -> None:
    command = EVERY[prog]
    calls = calls_of(command.epilog)
    assert calls
    assert all(call.startswith(f"{prog}") for call in calls)
    for call in calls:
        _, *words = call.partition(" > ")[0].split()
        found = WHOLE.parse_args(words)
        assert callable(found.command)
        if "there is no -o" not in str(command.description):
            for output in ("wide", "json", "yaml"):
                assert WHOLE.parse_args([*words, "-o", output]).output == output


def test_groups_have_examples_of_their_own() -> None:
    (top,) = (each for each in WHOLE._actions if isinstance(each, argparse._SubParsersAction))
    for each in (WHOLE, *top.choices.values()):
        assert calls_of(each.epilog), each.prog
        assert calls_of(each.epilog)[0] in each.format_help()


def test_a_command_alone_takes_what_it_takes_among_all() -> None:
    for name in {prog.split()[1] for prog in EVERY}:
        alone = {each.prog: each.format_help() for each in leaves(parser(name))}
        for prog, text in alone.items():
            if prog.split()[1] == name:
                assert text == EVERY[prog].format_help()


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ("gangs shop/absent --address=/nonexistent", 1),
        ("hooks remove absent --address=/nonexistent --hook-config-path=/nonexistent", 1),
        ("restore --state=/nonexistent", 1),
        ("defrag --plan --snapshot=/nonexistent", 1),
        ("predict backtest /nonexistent", 1),
        ("status -o xml", 2),
        ("recommend web -A", 2),
        ("schedule --what-if", 2),
        ("predict backtest --percentile-cpu=0", 2),
        ("why pod a/b/c", 2),
    ],
)
def test_exit_codes(argv: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(argv.split())
    assert end.value.code == code, capsys.readouterr().err


def test_a_mistyped_format_has_a_hint(failing: Failing) -> None:
    code, line = failing("status", "-o", "jsn")
    assert (code, "did you mean json?" in line) == (2, True)


def test_yaml_is_the_json(koordlet: str, run: Run) -> None:
    at = f"--address={koordlet}"
    found = yaml.safe_load(run("node", at, "-o", "yaml"))
    assert {"capacity", "collectors", "cpuWeights"} <= found.keys()
    assert found.keys() == yaml.safe_load(run("node", at, "--json")).keys()


def test_each_top_level_command_is_documented() -> None:
    for name in {prog.split()[1] for prog in EVERY}:
        assert f"koordctl {name}" in DOCUMENTED, name
