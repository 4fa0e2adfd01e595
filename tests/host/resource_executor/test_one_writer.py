"""One module opens kernel files for writing; whatever else opens files says which."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(path.parent for path in ROOT.glob("[a-z]*/*/py.typed"))

WRITERS = {
    "koord_descheduler.program.main": "its configuration as read, for --write-config-to",
    "koord_host.kernel": "kernel files: the one writer; and agents' files",
    "koord_host.resource_executor.journal": "the journal of changes",
    "koordctl.hooks": "the mark of a hook server that is deregistered",
    "koordctl.main": "/dev/null in place of a closed standard output",
    "koordctl.predict_backtest": "none: it unpacks a trace in memory",
    "koordlet.agent.main": "the directory of a dry run, which goes with it",
    "koordlet.metric_cache.segment_log": "the log of what was measured",
    "koordlet.prediction.predictor": "none: it sets aside and removes what prediction has learnt",
    "koordlet.runtime_hooks.nri.registration_lock": "the lock of its place among NRI plugins",
    "koord_proxy.hook_directory": "the hook servers' directory",
    "koord_scheduler.io.extender_client": "certificates: ssl reads them from files alone",
    "koord_scheduler.io.recorder": "recordings of decisions",
    "koord_service.sockets": "sockets",
    "koord_service.sqlite_state": "databases of programs' state",
    "koord_service.whole_file": "files of programs' own, whole",
}
"""Modules that make, write or remove files, and which; all but the first are no kernel's."""

ELSEWHERE = {"koord_demo": "the demo runs programs and a cgroup tree of its own"}
"""Packages that no node runs."""

MAY_IMPORT_KERNEL = {"koordlet.agent.main", "koord_devices.main", "koordctl.main"}

_READ_FLAGS = {"O_RDONLY", "O_CLOEXEC", "O_DIRECTORY", "O_PATH", "O_NONBLOCK", "O_NOFOLLOW"}
_OPENERS = {"open", "fdopen"}
_OS = {
    *("chmod", "chown", "link", "makedirs", "mkdir", "mkfifo", "mknod", "popen", "remove"),
    *("removedirs", "rename", "renames", "replace", "rmdir", "symlink", "system", "truncate"),
    *("unlink", "setxattr", "posix_spawn", "posix_spawnp"),
}
_PATH = {
    *("write_text", "write_bytes", "touch", "mkdir", "rmdir", "unlink", "rename", "chmod"),
    *("symlink_to", "hardlink_to", "lchmod"),
}
_MODULES = {"shutil", "tempfile"}
_NO_PATHS = {"self.dispatcher", "self.inventory", "self._nodes"}
"""Objects with a ``replace`` or a ``touch`` of their own."""
_READING = {"shutil.which", "shutil.disk_usage"}
_NAMED = {
    "FileHandler", "RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler",
    "FileIO", "NamedTemporaryFile", "TemporaryDirectory", "mkstemp", "mkdtemp",
}  # fmt: skip


def writes(source: str) -> Iterator[str]:
    """What in a module opens a file for writing, or may."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _may_write(node):
            yield f"{node.lineno}: {ast.unparse(node)[:80]}"
        elif isinstance(node, ast.ImportFrom) and node.module in {"os", "io", *_MODULES}:
            # Under another name no call below would be known.
            for one in node.names:
                name = f"{node.module}.{one.name}"
                if one.name in _OS | _OPENERS or (node.module in _MODULES and name not in _READING):
                    yield f"{node.lineno}: from {node.module} import {one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.asname and one.name in {"os", "io", "pathlib", *_MODULES}:
                    yield f"{node.lineno}: import {one.name} as {one.asname}"


_CALLS = "|".join(sorted({*_OPENERS, *_OS, *_PATH, *_NAMED, "connect"}))
_IMPORTS = r"import \w+ as|from (?:os|io|shutil|tempfile) import"
_ANY = re.compile(rf"\b(?:{_CALLS})\(|\b(?:{'|'.join(_MODULES)})\.|{_IMPORTS}")
"""A module without these writes no files; to parse all takes seconds."""


def _may_write(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = ""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = function.value.id
    if owner == "os" and name == "open":
        return not _only_reads(call)
    if name in _OPENERS and (isinstance(function, ast.Name) or owner in ("io", "os")):
        return _mode(call, 1)
    # urllib's opener opens URLs.
    if name == "open" and owner not in ("self", "cls", "opener"):
        return _mode(call, 0)
    if owner == "os":
        return name in _OS
    if owner in _MODULES:
        return f"{owner}.{name}" not in _READING
    if owner == "sqlite3" and name == "connect":
        return True
    is_path = isinstance(function, ast.Attribute) and ast.unparse(function.value) not in _NO_PATHS
    if name == "replace":
        # Path.replace: text's takes two, a structure's takes names.
        return is_path and len(call.args) == 1 and not call.keywords
    return name in _NAMED or (is_path and name in _PATH)


def _mode(call: ast.Call, place: int) -> bool:
    """Whether an open() is for writing; a mode that is not spelt out may be."""
    modes = call.args[place : place + 1] + [one.value for one in call.keywords if one.arg == "mode"]
    if not modes:
        return False
    mode = modes[0]
    return not isinstance(mode, ast.Constant) or bool(set(str(mode.value)) & set("wax+"))


def _only_reads(call: ast.Call) -> bool:
    flags = call.args[1] if len(call.args) > 1 else None
    if flags is None:
        return False
    names = {node.attr for node in ast.walk(flags) if isinstance(node, ast.Attribute)}
    plain = {node.id for node in ast.walk(flags) if isinstance(node, ast.Name)} <= {"os"}
    return plain and bool(names) and names <= _READ_FLAGS


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                parts = path.relative_to(package.parent).with_suffix("").parts
                yield ".".join(parts), path


def test_only_known_modules_write_files() -> None:
    found = {}
    for name, path in modules():
        if name.partition(".")[0] not in ELSEWHERE:
            source = path.read_text()
            if _ANY.search(source) and (calls := list(writes(source))):
                found[name] = calls
    unknown = {name: calls for name, calls in found.items() if name not in WRITERS}
    assert unknown == {}, "say in WRITERS what they write, or let the executor do it"
    assert set(WRITERS) - set(found) == set(), "no longer write anything"


def test_only_programs_import_the_writer() -> None:
    importers = {
        name
        for name, path in modules()
        if name.partition(".")[0] not in ELSEWHERE and _imports(path, "koord_host.kernel")
    }
    assert importers <= MAY_IMPORT_KERNEL


WRITES = tuple(
    f"{files}.{name}"
    for files in ("files", "self._files", "directory")
    for name in ("write", "write_and_read")
)


def test_only_the_writer_names_files_to_write() -> None:
    """Nobody but the executor's parts calls what ``KernelFiles`` writes with."""
    callers = {
        name
        for name, path in modules()
        if name.startswith("koord_host.") and "write" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WRITES
    }
    assert callers <= {"koord_host.resctrl", "koord_host.resource_executor.attempt"}


def _imports(path: Path, module: str) -> bool:
    package, _, last = module.rpartition(".")
    source = path.read_text()
    if package not in source or last not in source:
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(one.name == module for one in node.names):
            return True
        if isinstance(node, ast.ImportFrom):
            if node.module == module:
                return True
            if node.module == package and any(one.name == last for one in node.names):
                return True
    return False


PLANTED = """\
open("/sys/fs/cgroup/cpu.max", "w")
open("/proc/1/oom_score_adj", mode="a")
open(path, "r+b")
open(path, mode)
io.open(path, "w")
Path("/sys").open("w")
path.write_text("1")
(Path("/sys") / name).write_bytes(b"1")
os.open(path, os.O_WRONLY)
os.open(path, os.O_RDONLY | os.O_CREAT)
os.open(path, flags)
os.mkdir(path)
path.mkdir()
path.replace(other)
os.replace(path, other)
from os import open as look
from shutil import copy
import os as system
shutil.copy(path, other)
tempfile.mkstemp()
sqlite3.connect(path)
RotatingFileHandler(path)
os.system("echo 1 > /sys/fs/cgroup/cpu.max")
"""
READING = """\
open(path)
open(path, "rb")
path.open("rb")
self.open(path, flags)
path.read_text()
os.open(path, os.O_RDONLY | os.O_CLOEXEC)
text.replace("a", "b")
replace(one, pod=two)
msgspec.structs.replace(pod, containers=one)
shutil.which(name)
from os import environ
import os
"""


@pytest.mark.parametrize(("lines", "found"), [(PLANTED, 1), (READING, 0)])
def test_the_check_finds_planted_writes_and_lets_reading_pass(lines: str, found: int) -> None:
    counts = {line: len(list(writes(line))) for line in lines.splitlines()}
    assert set(counts.values()) == {found}, counts
