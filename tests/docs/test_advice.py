"""Flags and commands that texts and pages name are there: advice can be followed."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import koord_descheduler.program.settings
import koord_devices.config
import koord_manager.program.ignored_flags
import koord_proxy.config
import koord_scheduler.program.settings
import koordlet.agent.ignored_flags
import pytest
from koord_service.settings import flag_of
from koordctl.commands import parser
from koordlet.agent.feature_gates import OF_PLUGINS

from tests.docs.words import ROOT
from tests.test_layout import COMPONENTS
from tools.docs_site.reference.gates import GATES
from tools.flag_tables import PROGRAMS

# These call programs of others, by their flags.
OTHERS = ("device_daemon/koord_devices/vendors", "host/koord_host/network", "demo", "simulation")
# Those have flags of the past, or of Koordinator.
_OTHERS = ("adr", "compatibility")
_MAIN = sorted({*ROOT.glob("*.md")} - {ROOT / "CHANGELOG.md"})
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("docs/**/*.md"),
        *_MAIN,
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob("deploy/examples/*.yaml"),
    )
    if path.parent.name not in _OTHERS
)
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w-]|…)")


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _commands(below, (*path, name))


COMMANDS = dict(_commands(parser()))


def _flags() -> Iterator[str]:
    for settings in (*PROGRAMS.values(), koord_devices.config.DeviceDaemonSettings):
        for field in dataclasses.fields(settings):
            yield from (flag_of(field), *field.metadata["aliases"])
            yield from field.metadata["negated_aliases"]
    for ignored in (
        koord_manager.program.ignored_flags.IGNORED,
        koord_proxy.config.IGNORED,
        koord_descheduler.program.settings.IGNORED,
        koord_scheduler.program.settings.IGNORED,
        koordlet.agent.ignored_flags.IGNORED,
    ):
        yield from (f"--{name}" for name in ignored.names)
    for command in COMMANDS.values():
        yield from (flag for action in command._actions for flag in action.option_strings)


FLAGS = {*_flags(), "--flag"}


FLAGS_OF_OTHERS = {
    "--admission-control-config-file",
    "--cgroup-root",
    "--cgroups-per-qos",
    "--config-dir",
    "--container-runtime-endpoint",
    "--horizontal-pod-autoscaler-cpu-initialization-period",
    "--now",
    "--set",
    "--without",
}
"""Of the API server, the kubelet, systemctl, Helm and koord-simulate."""


def _sentences() -> Iterator[tuple[str, str]]:
    """Texts of the programs that may name a flag, with their modules."""
    for component in COMPONENTS:
        for module in component.rglob("*.py"):
            where, source = str(module.relative_to(ROOT)), module.read_text()
            if where.startswith(OTHERS) or "build" in module.parts or not _FLAG.search(source):
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield where, node.value


def test_texts_name_flags_that_there_are() -> None:
    found = {
        (where, flag)
        for where, text in _sentences()
        for flag in _FLAG.findall(text)
        if flag not in FLAGS | FLAGS_OF_OTHERS
    }
    assert found == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_flags_that_there_are(page: Path) -> None:
    spans = re.findall(r"`(-[^`]*)`", page.read_text())
    named = {flag for span in spans for flag in _FLAG.findall(span)}
    assert named - FLAGS - FLAGS_OF_OTHERS == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_name_commands_that_there_are(page: Path) -> None:
    text = page.read_text()
    lines = (*re.findall(r"`((?:/opt/pykoord/bin/)?koordctl [^`]*)`", text), *_shell(text))
    assert [line for line in lines if not _exists(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_in_blocks_of_code_have_their_flags(page: Path) -> None:
    lines = _shell(page.read_text(), *PROGRAMS)
    assert {flag for line in lines for flag in _FLAG.findall(line)} - FLAGS == set()


def _named(pattern: str) -> set[tuple[str, str]]:
    """Names that pages have in commands, each with its page."""
    return {
        (str(page.relative_to(ROOT)), name)
        for page in PAGES
        for name in re.findall(pattern, page.read_text(), re.MULTILINE)
    }


def test_pages_name_make_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = _named(r"(?:^ *|`)make ([a-z][a-z-]*)")
    assert {(page, name) for page, name in named if name not in targets} == set()


def test_pages_name_files_of_deploy_that_there_are() -> None:
    named = _named(r"(?<![\w-])(deploy/[a-z]+/[\w./-]*\w)(?=[\s`'\"]|$)")
    assert named
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()


def _variables() -> Iterator[str]:
    """Environment variables of all settings."""
    for program, settings in PROGRAMS.items():
        for field in dataclasses.fields(settings):
            yield f"{program}_{field.name}".replace("-", "_").upper()


def test_pages_name_gates_and_variables_that_there_are() -> None:
    gates = {name for defaults in GATES.values() for name in defaults}
    known = gates | {*OF_PLUGINS, *_variables(), "NAME"}
    named = _named(r"(?<![\w.-])(?<!condition=)([A-Z]\w+)=(?:true|false)\b")
    assert named
    assert {(page, name) for page, name in named if name not in known} == set()


def _shell(text: str, *programs: str) -> Iterator[str]:
    """Lines of blocks of code that begin with a program, if not another one with koordctl."""
    begin = tuple(f"{program} " for program in programs or ("koordctl",))
    for block in text.split("```")[1::2]:
        yield from (line for line in block.splitlines() if line.startswith(begin))


def _exists(line: str) -> bool:
    """Whether a command has the subcommands and flags that the line gives it."""
    words = re.split(r"[ |]", line.split(" #")[0].replace("\\", ""))[1:]
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path = (*path, words.pop(0))
    flags = {flag for action in COMMANDS[path]._actions for flag in action.option_strings}
    named = re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", " ".join(words))
    is_command = bool(path) or line.split()[1].startswith("-")
    return is_command and all(flag in flags or len(flag) == 2 for flag in named)
