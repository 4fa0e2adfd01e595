"""A program's settings: one frozen dataclass, filled from four places.

Flags win over environment variables, those over the YAML file named by
``--config``, that over the defaults. A field is declared once, with ``option``;
its flag, environment variable, YAML key and help line follow from it.

A program with a ``--config`` of its own has no such file.

Renaming a setting. The old name stays usable as a flag, a YAML key and an
environment variable when it is listed as an alias::

    pod_list_source: str = option("", "where the pods are listed", aliases=("--pods",))
    read_only: bool = option(False, "write nothing", negated_aliases=("--node-writes",))

``aliases`` mean the same as the flag and ``--help`` shows them beside it.
``negated_aliases`` mean the opposite of a boolean flag: ``--node-writes=false``
is ``--read-only``. ``--help`` leaves them out. An alias' environment variable is the
program's name and its own, ``KOORDLET_PODS``. In one place (the command line, the
environment, the file) the last flag, the new variable, and one YAML key count:
two YAML keys for one setting are an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn, TypeVar

from koord_model.version import describe_version

from koord_service.go_flags import GoFlagError, GoFlags
from koord_service.help_text import HelpFormatter, example
from koord_service.setting_values import SettingValueError, is_list, parse_value, show_value
from koord_service.terminal import exit_with

S = TypeVar("S")


def option(
    default: Any,
    help: str,  # noqa: A002
    *,
    flag: str = "",
    choices: Sequence[str] = (),
    aliases: Sequence[str] = (),
    negated_aliases: Sequence[str] = (),
) -> Any:
    """Declare one setting; ``flag`` where the name is not the field's with dashes."""
    metadata = {
        "help": help,
        "flag": flag,
        "choices": tuple(choices),
        "aliases": tuple(aliases),
        "negated_aliases": tuple(negated_aliases),
    }
    return dataclasses.field(default=default, metadata=metadata)


class SettingsError(ValueError):
    """A setting that cannot be used; the message is one line for people."""


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The command-line flag of a settings field."""
    return field.metadata["flag"] or "--" + field.name.replace("_", "-")


def parse_or_exit(
    settings: type[S],
    *,
    prog: str,
    description: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    ignored: GoFlags | None = None,
    variables: str = "",
    examples: Sequence[str] = (),
) -> S:
    """The settings of this run; on bad input one line on stderr and exit code 2."""
    try:
        return parse(
            settings,
            prog=prog,
            description=description,
            argv=argv,
            environ=environ,
            ignored=ignored,
            variables=variables,
            examples=examples,
        )
    except SettingsError as error:
        exit_with(prog, 2, str(error))


def parse(
    settings: type[S],
    *,
    prog: str,
    description: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    ignored: GoFlags | None = None,
    variables: str = "",
    examples: Sequence[str] = (),
) -> S:
    """The settings of this run; ``ignored`` flags are accepted and have no meaning.

    ``variables`` is what environment variables begin with, where that is not the program's name,
    ``examples`` are calls with which its help ends.

    Raises:
        SettingsError: a value is of the wrong type, or two settings contradict each other.
    """
    declared = _declare(settings, variables or prog)
    parser = _parser(declared, prog, description, examples)
    try:
        ours, _ = (ignored or GoFlags()).split(sys.argv[1:] if argv is None else argv)
        found, unknown = parser.parse_known_args(_double_dashes(ours, declared))
        if unknown:
            known = [*_flags(declared), *(f"--{name}" for name in (ignored or GoFlags()).names)]
            raise _SourceError(_unknown(unknown, known))
        values = _flag_values(vars(found), declared)
        _set_from_environment(values, declared, os.environ if environ is None else environ)
        path = "" if _has_own_config(declared) else getattr(found, "config", "")
        if path:
            _set_from_file(values, declared, path)
    except (GoFlagError, _SourceError) as error:
        parser.error(str(error))
    try:
        return settings(**values)
    except ValueError as error:
        raise SettingsError(str(error)) from None


class _SourceError(ValueError):
    """Error in one place that sets something, before ``parse`` adds the source of help."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Setting:
    """A field of the settings class by one of its names: its own, an alias or a negated alias."""

    field: dataclasses.Field[Any]
    kind: Any
    flag: str
    variable: str
    negated: bool = False

    @property
    def key(self) -> str:
        """The name in the YAML file."""
        return self.flag.removeprefix("--")

    def parse(self, text: str) -> Any:
        """The field's value where this name is given that text."""
        value = parse_value(self.kind, self.field.metadata["choices"], text)
        return not value if self.negated else value


def _declare(settings: type[Any], variables: str) -> list[_Setting]:
    """Every name of every setting, a setting's own name first."""
    kinds = typing.get_type_hints(settings)
    prefix = _variable(variables)
    names = []
    for field in dataclasses.fields(settings):
        kind, aliases = _without_none(kinds[field.name]), field.metadata["aliases"]
        names.append(_Setting(field, kind, flag_of(field), f"{prefix}_{field.name.upper()}"))
        for flag in (*aliases, *field.metadata["negated_aliases"]):
            variable = f"{prefix}_{_variable(flag)}"
            names.append(_Setting(field, kind, flag, variable, negated=flag not in aliases))
    return names


def _without_none(kind: Any) -> Any:
    """The type of a setting that is ``None`` unless it is given."""
    kinds = [arg for arg in typing.get_args(kind) if arg is not type(None)]
    return kinds[0] if isinstance(kind, types.UnionType) and len(kinds) == 1 else kind


def _has_own_config(declared: Iterable[_Setting]) -> bool:
    """True if ``--config`` is a setting itself: Kubernetes' programs have a file of their own."""
    return any(setting.flag == "--config" for setting in declared)


def _variable(name: str) -> str:
    return name.lstrip("-").replace("-", "_").upper()


# ---- the command line


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong as one line: a running program that reads its settings does not exit."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{_one_line(message)} (see {self.prog} --help)")


def _parser(
    declared: Sequence[_Setting], prog: str, description: str, examples: Sequence[str]
) -> _Parser:
    parser = _Parser(
        prog=prog,
        description=description,
        epilog=example(*examples) if examples else None,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
        # A flag that is not there leaves the setting to the environment and the file.
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--version", action="version", version=describe_version(prog))
    if not _has_own_config(declared):
        parser.add_argument(
            "--config",
            metavar="FILE",
            help="YAML file with any of the settings below, named as the flags without dashes in "
            "front",
        )
    for setting in declared:
        if setting.negated:
            _add(parser, setting, [setting.flag], argparse.SUPPRESS)
        elif setting.flag == flag_of(setting.field):
            flags = [setting.flag, *setting.field.metadata["aliases"]]
            _add(parser, setting, flags, _help(setting.field))
    return parser


def _add(parser: _Parser, setting: _Setting, flags: Sequence[str], help_line: str) -> None:
    kind: dict[str, Any] = {}
    if is_list(setting.kind):
        kind = {"nargs": "*", "action": "extend"}
    elif setting.kind is bool:
        # "--flag" alone means true, as in Go's flag package.
        kind = {"nargs": "?", "const": not setting.negated}
    parser.add_argument(
        *flags,
        dest=setting.field.name,
        help=help_line,
        metavar=_metavar(setting),
        type=_argument(setting),
        **kind,
    )


def _metavar(setting: _Setting) -> str:
    if choices := setting.field.metadata["choices"]:
        return f"{{{','.join(choices)}}}"
    return "true|false" if setting.kind is bool else setting.field.name.rsplit("_", 1)[-1].upper()


def _help(field: dataclasses.Field[Any]) -> str:
    line: str = field.metadata["help"]
    if shown := show_value(field.default):
        line += f" (default: {shown})"
    return line.replace("%", "%%")


def _argument(setting: _Setting) -> Callable[[str], Any]:
    def parse_argument(text: str) -> Any:
        try:
            return setting.parse(text)
        except SettingValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_argument


def _flag_values(found: Mapping[str, Any], declared: Iterable[_Setting]) -> dict[str, Any]:
    """The fields that flags set; the words of a list, each "a" or "a,b", become one tuple."""
    values = {}
    for setting in declared:
        name = setting.field.name
        if name in found:
            value = found[name]
            values[name] = tuple(chain(*value)) if is_list(setting.kind) else value
    return values


def _flags(declared: Iterable[_Setting]) -> list[str]:
    return ["--help", "--version", "--config", *(setting.flag for setting in declared)]


def _double_dashes(argv: Iterable[str], declared: Iterable[_Setting]) -> list[str]:
    """Let "-flag" stand for "--flag", as Go programs do; unit files in use have it."""
    known = set(_flags(declared))
    return [f"-{word}" if f"-{word.partition('=')[0]}" in known else word for word in argv]


def _unknown(words: Sequence[str], known: Sequence[str]) -> str:
    """Name each unknown flag, and the flag that it may have been meant for."""
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    parts = []
    for flag in flags:
        near = _nearest(flag, known)
        parts.append(f'unknown flag "{flag}"' + (f", did you mean {near}?" if near else ""))
    return "; ".join(parts) or f'unexpected argument "{words[0]}"'


def _nearest(flag: str, known: Sequence[str]) -> str:
    """The known flag most like this one, "" where none is like it."""
    return next(iter(difflib.get_close_matches(f"--{flag.lstrip('-')}", known, 1, 0.75)), "")


# ---- the environment and the file: only what is not set yet is read


def _set_from_environment(
    values: dict[str, Any], declared: Iterable[_Setting], environ: Mapping[str, str]
) -> None:
    for setting in declared:
        text = environ.get(setting.variable)
        if text is not None:
            _set(values, setting, setting.variable, text)


def _set_from_file(values: dict[str, Any], declared: Sequence[_Setting], path: str) -> None:
    keys = {setting.key: setting for setting in declared}
    set_by: dict[str, str] = {}
    for written, text in _read(path).items():
        setting = keys.get(written.removeprefix("--"))
        if setting is None:
            near = _nearest(f"--{written}", _flags(declared)).removeprefix("--")
            hint = f'; did you mean "{near}"?' if near else ""
            raise _SourceError(f'{path}: "{written}" is not a setting{hint}')
        name = setting.field.name
        if name in set_by:
            raise _SourceError(f'{path}: "{set_by[name]}" and "{written}" set the same; keep one')
        set_by[name] = written
        _set(values, setting, f"{path}: {written}", text)


def _read(path: str) -> dict[str, str]:
    # The library for YAML costs a megabyte, so it is loaded only for a file.
    from koord_service.settings_file import SettingsFileError, read_settings_file

    try:
        return read_settings_file(path)
    except OSError as error:
        raise _SourceError(f"--config: cannot read {path}: {error.strerror}") from None
    except SettingsFileError as error:
        raise _SourceError(str(error)) from None


def _set(values: dict[str, Any], setting: _Setting, place: str, text: str) -> None:
    if setting.field.name in values:
        return
    if not text and (setting.kind is bool or is_list(setting.kind)):
        # Unit files that leave a variable empty mean the default.
        return
    try:
        values[setting.field.name] = setting.parse(text)
    except SettingValueError as error:
        raise _SourceError(f"{place} {error}") from None


def _one_line(message: str) -> str:
    return " ".join(message.split())
