"""Settings from flags, environment and YAML, and what is said when they are wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from koord_model.version import VERSION
from koord_service.settings import SettingsError, flag_of, option, parse, parse_or_exit


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


def test_flag_names_follow_the_field_unless_given() -> None:
    flags = [flag_of(field) for field in dataclasses.fields(Example)]
    assert flags[:3] == ["--cri-socket", "--worker-count", "--timeout"]


@pytest.mark.parametrize(
    "argv",
    [
        ("--worker-count", "7"),
        ("--worker-count=7",),
        ("-worker-count", "7"),
        ("-worker-count=7",),
    ],
)
def test_flags_with_one_or_two_dashes(argv: tuple[str, ...]) -> None:
    assert read(*argv).workers == 7


def test_a_value_that_looks_like_no_known_flag_keeps_its_dash() -> None:
    assert read("--note=-x").note == "-x"
    assert read("--note=--cri-socket").note == "--cri-socket"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("--managed",), True),
        (("-managed",), True),
        (("--managed=false",), False),
        (("--managed", "False"), False),
        (("-managed=0",), False),
        (("--managed=off",), False),
        (("--managed=f",), False),
        (("--managed=YES",), True),
    ],
)
def test_booleans(argv: tuple[str, ...], expected: bool) -> None:
    assert read(*argv).managed is expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("--plugins", "a", "b"), ("a", "b")),
        (("--plugins", "a,b"), ("a", "b")),
        (("--plugins=a, b,",), ("a", "b")),
        (("--plugins=a", "--plugins=b,c"), ("a", "b", "c")),
        (("--plugins",), ()),
        (("--plugins=",), ()),
        ((), ("batch", "cpuset")),
    ],
)
def test_lists(argv: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert read(*argv).plugins == expected


def test_a_repeated_list_leaves_no_trace_in_the_next_run() -> None:
    read("--plugins=a", "--extra=x")
    assert read("--plugins=b").plugins == ("b",)
    assert read().extra == ()


def test_numbers() -> None:
    assert read("--timeout", "3").timeout == 3.0
    assert read("--timeout=0.25").timeout == 0.25
    assert read("--worker-count=-1").workers == -1


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


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOORD_EXAMPLE_WORKERS", "11")
    settings = parse(Example, prog="koord-example", description="", argv=())
    assert settings.workers == 11


def test_the_process_arguments_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["koord-example", "-worker-count=12"])
    settings = parse(Example, prog="koord-example", description="", environ={})
    assert settings.workers == 12


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


def test_yaml(yaml_file: Write) -> None:
    path = yaml_file(
        "# a comment\n"
        "cri-socket: /run/yaml.sock\n"
        "worker-count: 5\n"
        "timeout: 1.5\n"
        "managed: no\n"
        "plugins:\n  - a\n  - b\n"
        "log-level: debug\n"
    )
    assert read("--config", path) == Example(
        "/run/yaml.sock", 5, 1.5, False, ("a", "b"), (), "debug"
    )


@pytest.mark.parametrize("spelling", ["--config={}", "-config={}"])
def test_the_config_flag_like_the_others(yaml_file: Write, spelling: str) -> None:
    assert read(spelling.format(yaml_file("worker-count: 5\n"))).workers == 5


@pytest.mark.parametrize("text", ["", "# nothing set yet\n", "---\n", "cri-socket:\nnote: ~\n"])
def test_yaml_that_sets_nothing(yaml_file: Write, text: str) -> None:
    assert read("--config", yaml_file(text)) == Example()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("note: 0660", "0660"),
        ("note: 1:30", "1:30"),
        ("note: 1.10", "1.10"),
        ("note: 2024-01-01", "2024-01-01"),
        ("note: yes", "yes"),
        ("note: -x", "-x"),
        ('note: "null"', "null"),
        ("note: nullable", "nullable"),
        ("note: !!python/name:os.system", ""),
    ],
)
def test_yaml_values_stay_as_written(yaml_file: Write, text: str, expected: str) -> None:
    assert read("--config", yaml_file(text)).note == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins: a,b", ("a", "b")),
        ("plugins: [a, b]", ("a", "b")),
        ("plugins: []", ()),
        ('plugins: ["--note", -x]', ("--note", "-x")),
        ("plugins: [a, --]", ("a", "--")),
    ],
)
def test_yaml_lists(yaml_file: Write, text: str, expected: tuple[str, ...]) -> None:
    assert read("--config", yaml_file(text)).plugins == expected


def test_flags_win_over_environment_over_yaml(yaml_file: Write) -> None:
    path = yaml_file("worker-count: 1\ntimeout: 1\nnote: yaml\nplugins: [yaml]\nmanaged: true\n")
    settings = read(
        "-worker-count=3",
        "--config",
        path,
        KOORD_EXAMPLE_WORKERS="2",
        KOORD_EXAMPLE_TIMEOUT="2",
        KOORD_EXAMPLE_PLUGINS="env",
        KOORD_EXAMPLE_MANAGED="false",
    )
    assert settings.workers == 3
    assert settings.timeout == 2.0
    assert settings.note == "yaml"
    assert settings.plugins == ("env",)
    assert settings.managed is False


def test_lists_are_replaced_across_sources_not_added(yaml_file: Write) -> None:
    path = yaml_file("plugins: [yaml]\n")
    assert read("--plugins=flag", "--config", path).plugins == ("flag",)
    environ = {"KOORD_EXAMPLE_PLUGINS": "env"}
    assert read("--plugins=flag", "--config", path, **environ).plugins == ("flag",)


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


def test_what_a_flag_sets_is_not_read_elsewhere(yaml_file: Write) -> None:
    path = yaml_file("worker-count: lots\n")
    assert read("--worker-count=3", "--config", path, KOORD_EXAMPLE_WORKERS="x").workers == 3


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
    assert capsys.readouterr().out == f"koord-example {VERSION}\n"


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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("1m30s", 90), ("500ms", 0.5), ("2h", 7200), ("1.5s", 1.5), ("0.25", 0.25)],
)
def test_seconds_may_be_written_as_go_writes_durations(text: str, seconds: float) -> None:
    assert read(f"--timeout={text}").timeout == pytest.approx(seconds)
