"""A program's settings: one frozen dataclass, filled from four places.

Flags win over environment variables, those over the YAML file named by
``--config``, that over the defaults. A field is declared once, with ``option``;
its flag, environment variable, YAML key and help line follow from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import configargparse
import msgspec
from koord_model import duration
from koord_model.version import VERSION

S = TypeVar("S")

# What YAML and Go programs take for booleans.
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "f", "n"), False),
}


def option(default: Any, help: str, *, flag: str = "", choices: Sequence[str] = ()) -> Any:  # noqa: A002
    """Declare one setting; ``flag`` where the name is not the field's with dashes."""
    return dataclasses.field(
        default=default, metadata={"help": help, "flag": flag, "choices": tuple(choices)}
    )


class SettingsError(ValueError):
    """A setting that cannot be used; the message is one line for people."""


class _SettingsFile(configargparse.ConfigFileParser):  # type: ignore[misc]
    """Reads YAML; the library for it costs a megabyte, so it is loaded only for a file."""

    def parse(self, stream: Iterable[str]) -> dict[str, str | list[str]]:
        from koord_service.settings_file import YamlSettings

        return YamlSettings().parse(stream)


class _Parser(configargparse.ArgumentParser):  # type: ignore[misc]
    """Says what is wrong in one line, to whoever asked: a running program does not exit."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{_one_line(message)} (see {self.prog} --help)")

    def get_command_line_key_for_unknown_config_file_setting(self, key: str) -> NoReturn:
        self.error(f'the --config file sets "{key}", which is no setting')


class _Collect(configargparse.Action):  # type: ignore[misc]
    """Adds up the values of a repeated flag, as Go's string slices do."""

    def __call__(
        self, parser: object, namespace: object, values: list[str], option_string: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        # The default is a tuple; the first use of the flag replaces it.
        setattr(namespace, self.dest, [*(before if isinstance(before, list) else ()), *values])


def parse_or_exit(
    settings: type[S],
    *,
    prog: str,
    description: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> S:
    """The settings of this run; on bad input one line on stderr and exit code 2."""
    try:
        return parse(settings, prog=prog, description=description, argv=argv, environ=environ)
    except SettingsError as error:
        sys.stderr.write(f"{prog}: {_one_line(str(error))}\n")
        raise SystemExit(2) from None


def parse(
    settings: type[S],
    *,
    prog: str,
    description: str,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> S:
    """The settings of this run.

    Raises:
        SettingsError: a value is of the wrong kind or the settings contradict.
    """
    parser = _Parser(
        prog=prog,
        description=description,
        config_file_parser_class=_SettingsFile,
        add_env_var_help=False,
        add_config_file_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{prog} {VERSION}")
    parser.add_argument(
        "--config",
        is_config_file=True,
        metavar="FILE",
        default=configargparse.SUPPRESS,
        help="YAML file with any of the settings below, named as the flags without dashes in front",
    )
    fields = dataclasses.fields(settings)  # type: ignore[arg-type]
    kinds = typing.get_type_hints(settings)
    prefix = prog.replace("-", "_").upper()
    for field in fields:
        _add(parser, field, kinds[field.name], prefix)
    arguments = _double_dashes(sys.argv[1:] if argv is None else argv, parser)
    given = vars(parser.parse_args(arguments, env_vars=os.environ if environ is None else environ))
    values = {field.name: _value(given[field.name]) for field in fields}
    try:
        return settings(**values)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def flag_of(field: dataclasses.Field[Any]) -> str:
    """The command-line flag of a settings field."""
    return field.metadata["flag"] or "--" + field.name.replace("_", "-")


def _add(parser: _Parser, field: dataclasses.Field[Any], kind: Any, prefix: str) -> None:
    flag = flag_of(field)
    help_line = field.metadata["help"]
    common: dict[str, Any] = {
        "dest": field.name,
        "env_var": f"{prefix}_{field.name.upper()}",
        "default": field.default,
        "help": f"{help_line}{_default_note(field.default)}".replace("%", "%%"),
    }
    if field.metadata["choices"]:
        parser.add_argument(flag, choices=field.metadata["choices"], **common)
        return
    metavar = "true|false" if kind is bool else field.name.rsplit("_", 1)[-1].upper()
    if typing.get_origin(kind) is tuple:
        parser.add_argument(flag, nargs="*", action=_Collect, metavar=metavar, **common)
        return
    if kind is bool:
        # "--flag" alone means true, as in Go's flag package.
        common |= {"nargs": "?", "const": True}
    parser.add_argument(flag, type=_converter(kind), metavar=metavar, **common)


def _default_note(default: Any) -> str:
    if default in ("", ()):
        return ""
    if isinstance(default, tuple):
        return f" (default: {','.join(default)})"
    return f" (default: {str(default).lower() if isinstance(default, bool) else default})"


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _double_dashes(argv: Sequence[str], parser: _Parser) -> list[str]:
    """Let "-flag" stand for "--flag", as Go programs do; unit files in use have it."""
    known = {name for action in parser._actions for name in action.option_strings}  # noqa: SLF001
    return [f"-{word}" if f"-{word.partition('=')[0]}" in known else word for word in argv]


def _value(given: Any) -> Any:
    """A list, however it was written ("a,b", "a b", a YAML list), becomes a tuple."""
    if not isinstance(given, list):
        return given
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


def _converter(kind: Any) -> Callable[[str], Any]:
    """Text to the field's type, with an error that says what was expected."""
    expected = {
        int: "a whole number",
        float: "seconds, or a duration like 1m30s",
        bool: "true or false",
    }.get(kind, "text")

    def convert(text: str) -> Any:
        value: object = _BOOLEANS.get(text.lower(), text) if kind is bool else text
        if kind is float:
            # Seconds; Go programs write them "10s", "1m30s", "500ms".
            with contextlib.suppress(ValueError):
                value = duration.seconds(text)
        try:
            converted = msgspec.convert(value, kind, strict=False)
            if kind is float and not math.isfinite(converted):
                raise msgspec.ValidationError
        except msgspec.ValidationError:
            raise configargparse.ArgumentTypeError(f'is "{text}"; expected {expected}') from None
        return converted

    return convert
