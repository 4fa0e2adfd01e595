"""Settings from flags, environment and YAML, and what is said when they are wrong."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from koord_model.version import describe_version
from koord_service.settings import SettingsError, option, parse, parse_or_exit


@dataclasses.dataclass(frozen=True)
class Example:
    cri_socket: str = option("/run/proxy.sock", "where the kubelet connects; 100% of the calls")
    workers: int = option(4, "how many at once", flag="--worker-count")
    timeout: float = option(2.0, "seconds to wait")
    managed: bool = option(True, "whether to act")
    plugins: tuple[str, ...] = option(("batch", "cpuset"), "which hooks to load")
    extra: tuple[str, ...] = option((), "more of them")
    log_level: str = option("info", "how much to log", choices=("debug", "info"))
    note: str = option("", "free text", aliases=("--remark",))
    read_only: bool = option(False, "write nothing", negated_aliases=("--node-writes",))

    def __post_init__(self) -> None:
        if self.workers > 100:
            raise ValueError(f"--worker-count is {self.workers};\nat most 100")


Write = Callable[[str], str]
SECONDS = "expected seconds, or a duration like 1m30s"


EITHER = "expected one of debug, info"


@pytest.fixture
def yaml_file(tmp_path: Path) -> Write:
    def write(text: str) -> str:
        path = tmp_path / "settings.yaml"
        path.write_text(text)
        return str(path)

    return write


def read(*argv: str, **environ: str) -> Example:
    return parse(
        Example, prog="koord-example", description="An example.", argv=argv, environ=environ
    )


def refused(capsys: pytest.CaptureFixture[str], *argv: str, **environ: str) -> str:
    """The one line on stderr of a run that exits with 2."""
    with pytest.raises(SystemExit) as stop:
        parse_or_exit(
            Example, prog="koord-example", description="An example.", argv=argv, environ=environ
        )
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out == ""
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    assert err.startswith("koord-example: ")
    return err.removeprefix("koord-example: ").rstrip("\n")


def test_defaults() -> None:
    assert read() == Example()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        *((argv, {"workers": 7}) for argv in ("--worker-count 7", "--worker-count=7")),
        *((argv, {"workers": 7}) for argv in ("-worker-count 7", "-worker-count=7")),
        ("--worker-count=-1", {"workers": -1}),
        ("--note=-x", {"note": "-x"}),  # no flag
        ("--note=--cri-socket", {"note": "--cri-socket"}),
        *((f"{argv}", {"managed": True}) for argv in ("--managed", "-managed", "--managed=YES")),
        *((f"--managed={no}", {"managed": False}) for no in ("false", "off", "f", "0")),
        ("--managed False", {"managed": False}),
        ("-managed=0", {"managed": False}),
        ("--plugins a b", {"plugins": ("a", "b")}),
        ("--plugins a,b", {"plugins": ("a", "b")}),
        ("'--plugins=a, b,'", {"plugins": ("a", "b")}),
        ("--plugins=a --plugins=b,c", {"plugins": ("a", "b", "c")}),
        ("--plugins", {"plugins": ()}),
        ("--plugins=", {"plugins": ()}),
        ("", {}),
        ("--timeout 3", {"timeout": 3.0}),
        ("--timeout=0.25", {"timeout": 0.25}),
        ("--timeout=10s", {"timeout": 10}),
        ("--timeout=1m30s", {"timeout": 90}),
        ("--timeout=500ms", {"timeout": 0.5}),
        ("--timeout=2h", {"timeout": 7200}),
    ],
)
def test_flags(argv: str, expected: dict[str, object]) -> None:
    assert read(*shlex.split(argv)) == dataclasses.replace(Example(), **expected)  # type: ignore[arg-type]


def test_a_repeated_list_leaves_no_trace_in_the_next_run() -> None:
    read("--plugins=a", "--extra=x")
    assert read("--plugins=b").plugins == ("b",)
    assert read().extra == ()


def test_environment() -> None:
    settings = read(
        KOORD_EXAMPLE_CRI_SOCKET="/run/env.sock",
        KOORD_EXAMPLE_WORKERS="9",
        KOORD_EXAMPLE_MANAGED="no",
        KOORD_EXAMPLE_PLUGINS="a,b",
    )
    assert settings.cri_socket == "/run/env.sock"
    assert settings.workers == 9
    assert settings.managed is False
    assert settings.plugins == ("a", "b")


def test_the_process_s_own_arguments_and_environment_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KOORD_EXAMPLE_NOTE", "x")
    monkeypatch.setattr("sys.argv", ["koord-example", "-worker-count=12"])
    settings = parse(Example, prog="koord-example", description="")
    assert (settings.workers, settings.note) == (12, "x")


@pytest.mark.parametrize("name", ["PLUGINS", "MANAGED"])
def test_an_empty_variable_or_key_leaves_a_list_or_a_boolean_alone(
    yaml_file: Write, name: str
) -> None:
    assert read(**{f"KOORD_EXAMPLE_{name}": ""}) == Example()
    assert read("--config", yaml_file(f'{name.lower()}: ""')) == Example()


@pytest.mark.parametrize(
    ("argv", "environ", "text", "note", "read_only"),
    [
        (("--remark=x",), {}, "", "x", False),
        (("-remark", "x"), {}, "", "x", False),
        (("--remark=x", "--note=y"), {}, "", "y", False),
        (("--note=y", "--remark=x"), {}, "", "x", False),
        ((), {"REMARK": "x"}, "", "x", False),
        ((), {"REMARK": "x", "NOTE": "y"}, "", "y", False),
        ((), {}, "remark: x", "x", False),
        (("--remark=x",), {"NOTE": "y"}, "note: z", "x", False),
        (("--node-writes=false",), {}, "", "", True),
        (("--node-writes", "false"), {}, "", "", True),
        (("-node-writes",), {}, "read-only: true", "", False),
        (("--node-writes=false", "--read-only=false"), {}, "", "", False),
        ((), {"NODE_WRITES": "no"}, "", "", True),
        ((), {"NODE_WRITES": "yes"}, "read-only: yes", "", False),
        ((), {}, "node-writes: false", "", True),
    ],
)
def test_aliases(
    yaml_file: Write,
    argv: tuple[str, ...],
    environ: dict[str, str],
    text: str,
    note: str,
    read_only: bool,
) -> None:
    variables = {f"KOORD_EXAMPLE_{name}": value for name, value in environ.items()}
    settings = read(*argv, "--config", yaml_file(text), **variables)
    assert (settings.note, settings.read_only) == (note, read_only)


def test_help_shows_aliases_but_no_negated_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("--help")
    text = capsys.readouterr().out
    assert "--remark NOTE" in text
    assert "--read-only [true|false]" in text
    assert "--node-writes" not in text


YAML = """
# a comment
cri-socket: /run/yaml.sock
worker-count: 5
timeout: 1.5
managed: no
plugins:
  - a
  - b
log-level: debug
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, {}) for text in ("", "# nothing set yet\n", "---\n", "cri-socket:\nnote: ~\n")),
        (
            YAML,
            {"cri_socket": "/run/yaml.sock", "workers": 5, "timeout": 1.5, "managed": False,
             "plugins": ("a", "b"), "log_level": "debug"},
        ),
        # Values stay as written.
        *((f"note: {text}", {"note": text}) for text in ("0660", "1:30", "1.10", "yes", "-x")),
        *((f"note: {text}", {"note": text}) for text in ("2024-01-01", "nullable")),
        ('note: "null"', {"note": "null"}),
        ("note: !!python/name:os.system", {"note": ""}),
        ("plugins: a,b", {"plugins": ("a", "b")}),
        ("plugins: [a, b]", {"plugins": ("a", "b")}),
        ("plugins: []", {"plugins": ()}),
        ('plugins: ["--note", -x]', {"plugins": ("--note", "-x")}),
        ("plugins: [a, --]", {"plugins": ("a", "--")}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("spelling", ["--config={}", "-config={}"])
def test_yaml(yaml_file: Write, spelling: str, text: str, expected: dict[str, object]) -> None:
    found = read(spelling.format(yaml_file(text)))
    assert found == dataclasses.replace(Example(), **expected)  # type: ignore[arg-type]


def test_flags_win_over_environment_over_yaml(yaml_file: Write) -> None:
    path = yaml_file("worker-count: lots\ntimeout: 1\nnote: yaml\nplugins: [yaml]\nmanaged: true\n")
    environ = {"WORKERS": "x", "TIMEOUT": "2", "PLUGINS": "env", "MANAGED": "false"}
    variables = {f"KOORD_EXAMPLE_{name}": value for name, value in environ.items()}
    # What is set elsewhere as well is not even read.
    found = read("-worker-count=3", "--extra=flag", "--config", path, **variables)
    expected = Example(workers=3, timeout=2.0, managed=False, plugins=("env",), extra=("flag",))
    assert found == dataclasses.replace(expected, note="yaml")
    # A list replaces another, and is not added to it.
    variables["KOORD_EXAMPLE_WORKERS"] = "1"
    assert read("--plugins=flag", "--config", path, **variables).plugins == ("flag",)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("--worker-count", "lots"), 'argument --worker-count: is "lots"; expected a whole number'),
        (("-worker-count=1.5",), 'argument --worker-count: is "1.5"; expected a whole number'),
        (("--timeout=soon",), f'argument --timeout: is "soon"; {SECONDS}'),
        (("--timeout=nan",), f'argument --timeout: is "nan"; {SECONDS}'),
        (("--timeout=inf",), f'argument --timeout: is "inf"; {SECONDS}'),
        (("--managed=maybe",), 'argument --managed: is "maybe"; expected true or false'),
        (("--log-level=loud",), f'argument --log-level: is "loud"; {EITHER}'),
        (("--worker-count",), "argument --worker-count: expected one argument"),
        (("--bogus",), 'unknown flag "--bogus" (see'),
        (("-bogus=1",), 'unknown flag "-bogus" (see'),
        (("stray",), 'unexpected argument "stray"'),
        (("two\nlines",), 'unexpected argument "two lines"'),
        (("--worker-cont=3",), 'unknown flag "--worker-cont", did you mean --worker-count? (see'),
        (("--bogus", "1", "-tineout=3"), 'unknown flag "--bogus"; unknown flag "-tineout", did'),
    ],
)
def test_bad_flags(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], line: str) -> None:
    said = refused(capsys, *argv)
    assert said.startswith(line)
    assert said.endswith("(see koord-example --help)")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("WORKERS", "x", "expected a whole number"),
        ("WORKERS", "", "expected a whole number"),
        ("LOG_LEVEL", "loud", EITHER),
    ],
)
def test_bad_environment(
    capsys: pytest.CaptureFixture[str], name: str, text: str, expected: str
) -> None:
    variable = f"KOORD_EXAMPLE_{name}"
    line = f'{variable} is "{text}"; {expected} (see koord-example --help)'
    assert refused(capsys, **{variable: text}) == line


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nope: 3", 'settings.yaml: "nope" is not a setting'),
        ("workers: 3", 'settings.yaml: "workers" is not a setting'),
        (
            "worker-cont: 3",
            'settings.yaml: "worker-cont" is not a setting; did you mean "worker-count"?',
        ),
        ("3: 3", 'settings.yaml: "3" is not a setting'),
        ("nope: [1, 2]", 'settings.yaml: "nope" is not a setting'),
        ("worker-count: lots", 'settings.yaml: worker-count is "lots"; expected a whole number'),
        ("worker-count: [1, 2]", 'settings.yaml: worker-count is "1,2"; expected a whole number'),
        ("log-level: loud", f'settings.yaml: log-level is "loud"; {EITHER}'),
        ("note: a\nremark: b", 'settings.yaml: "note" and "remark" set the same; keep one'),
        ("plugins: {a: 1}", 'settings.yaml: "plugins" holds a nested value'),
        ("plugins: [[a]]", 'settings.yaml: "plugins" holds a nested value'),
        ("plugins: [a, b", "settings.yaml: line 1, column 15: expected ',' or ']'"),
        ("note: a\nnote: b", 'settings.yaml: line 1, column 1: "note" is set twice'),
        ("only text", 'settings.yaml: expected "setting: value" lines'),
        ("- a\n- b", 'settings.yaml: expected "setting: value" lines'),
        ("version: 1", 'settings.yaml: "version" cannot be set in a file'),
        ("--help: 1", 'settings.yaml: "--help" cannot be set in a file'),
        ("config: other.yaml", 'settings.yaml: "config" cannot be set in a file'),
        ("? [a]\n: b", "settings.yaml: line 1"),
        ("plugins: " + "[" * 9999, "settings.yaml: its values are nested too deeply"),
        ("note: \x01", "settings.yaml: not YAML text"),
    ],
)
def test_bad_yaml(
    capsys: pytest.CaptureFixture[str], yaml_file: Write, text: str, reason: str
) -> None:
    assert reason in refused(capsys, "--config", yaml_file(text))


def test_yaml_that_is_not_utf8(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"note: \xe9\n")
    assert "latin.yaml: not YAML text" in refused(capsys, "--config", str(path))


def test_missing_config_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    for path, reason in ((missing, "No such file"), (str(tmp_path), "Is a directory")):
        said = refused(capsys, "--config", path)
        assert said.startswith(f"--config: cannot read {path}: {reason}")


def test_settings_that_contradict(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--worker-count=101") == "--worker-count is 101; at most 100"
    with pytest.raises(SettingsError, match="at most 100"):
        read("--worker-count=101")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        read("--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"{describe_version('koord-example')}\n"


@pytest.mark.parametrize("flag", ["--help", "-h", "-help"])
def test_help(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    with pytest.raises(SystemExit) as stop:
        read(flag, "--config", "/missing.yaml")
    text = " ".join(capsys.readouterr().out.split())
    assert stop.value.code == 0
    assert "An example." in text
    assert "100% of the calls (default: /run/proxy.sock)" in text
    assert "which hooks to load (default: batch,cpuset)" in text
    assert "whether to act (default: true)" in text
    assert "free text" in text
    assert "(default: )" not in text
    assert "(default: ())" not in text
