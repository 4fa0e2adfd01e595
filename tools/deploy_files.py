"""Write what is made from other files in deploy: ``python tools/deploy_files.py``.

The chart is made from the files of ``deploy/base``, and of ``deploy/components``. A
line there that ends with ``# chart: NAME`` or ``# chart: NAME, what it is`` is a setting: its value
is NAME's default in ``values.yaml``, and the template has NAME in its place. A component is in the
chart under a condition, a line of its kustomization: ``# chart: switch NAME, what it is`` (NAME is
true) or ``# chart: if EXPRESSION`` (of Helm's templates). What a component patches, values do in
the chart. Its definitions are made from ``koord_kube.definitions``, its README from
``deploy/chart-readme.txt`` and its values, and what Helm says after an installation from
``deploy/notes.txt``, with a line for each component that it has.

The names of images, in the manifests too, are made by ``tools/published.py``. In the chart the
value ``registry`` is put before those that have no "/".
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import yaml
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_model.version import VERSION

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import published

DEPLOY = published.ROOT / "deploy"
BASE = DEPLOY / "base"
CHART = DEPLOY / "chart"
COMPONENTS = DEPLOY / "components"
NOTES = DEPLOY / "notes.txt"
README = DEPLOY / "chart-readme.txt"
MADE = "# Made by tools/deploy_files.py; do not edit.\n"
_LONGEST_DEFAULT = 60
"""Characters that still fit into the table of the chart's README."""
_SETTING = re.compile(
    r"^(\s*(?:- (?:[\w.-]+: )?|[\w.-]+: ))(\S.*?) # chart: ([A-Za-z.]+)(?:, (.+))?$"
)
_CONDITION = re.compile(r"^# chart: (?:switch ([A-Za-z.]+), (.+)|if (.+))$", re.MULTILINE)
_TYPES = {
    str: ["string", "number", "boolean"],
    int: "integer",
    dict: "object",
    list: "array",
    bool: "boolean",
    type(None): ["string", "null"],
}


class Setting(NamedTuple):
    """A value of the chart: its default, and what it is."""

    default: Any
    about: str


@cache
def sources() -> Mapping[str, str]:
    """The files of every installation, by their path in ``deploy/base``."""
    named = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    return {name: (BASE / name).read_text() for name in named}


class Component(NamedTuple):
    """An optional part of an installation: its files, and the chart's condition for them.

    ``switch`` is the value that says so and what it is, if there is one of its own.
    """

    texts: Mapping[str, str]
    condition: str
    switch: tuple[str, str] | None


@cache
def components() -> Mapping[str, Component]:
    """Every component by the name of its folder."""
    return {path.name: component(path.name) for path in sorted(COMPONENTS.iterdir())}


@cache
def component(name: str) -> Component:
    """The component in a folder.

    Raises:
        ValueError: it does not say when the chart has it.
    """
    text = (COMPONENTS / name / "kustomization.yaml").read_text()
    match = _CONDITION.search(text)
    if match is None:
        raise ValueError(
            f'components/{name}: expected a line "# chart: switch NAME, …" or "… if …"'
        )
    files = (f"components/{name}/{file}" for file in yaml.safe_load(text)["resources"])
    texts = {file: (DEPLOY / file).read_text() for file in files}
    switch = (match[1], match[2]) if match[1] else None
    return Component(texts, match[3] or f".Values.{match[1]}", switch)


@cache
def values() -> Mapping[str, Setting]:
    """All values of the chart by their names with dots."""
    known = components().values()
    texts = {**sources()} | {
        file: text for component in known for file, text in component.texts.items()
    }
    switches = {
        component.switch[0]: Setting(default=False, about=component.switch[1])
        for component in known
        if component.switch
    }
    registry = Setting(published.registry()["images"], "registry of images that are named without")
    return {"registry": registry} | settings(texts) | switches


def settings(texts: Mapping[str, str]) -> dict[str, Setting]:
    """The values in texts by their names with dots, as they come.

    Raises:
        ValueError: one has two defaults.
    """
    found: dict[str, Setting] = {}
    for file, text in texts.items():
        for line in text.splitlines():
            match = _match(file, line)
            if match is None:
                continue
            default, name = yaml.safe_load(match[2]), match[3]
            if _is_image(name):
                default = published.local_name(default)
            known = found.get(name, Setting(default, ""))
            if known.default != default:
                raise ValueError(f"{file}: {name} is {default!r} here, {known.default!r} elsewhere")
            found[name] = Setting(default, known.about or match[4] or "")
    return found


def template(file: str, text: str, condition: str = "") -> str:
    """A file with the chart's values in their places, and nothing where a condition is not met."""
    lines = []
    for line in text.splitlines():
        match = _match(file, line)
        lines.append(f"{match[1]}{{{{ {_expression(match)} }}}}" if match else line)
    body = "\n".join(lines)
    return (
        f"{MADE}{{{{- if {condition} }}}}\n{body}\n{{{{- end }}}}\n"
        if condition
        else f"{MADE}{body}\n"
    )


def made() -> dict[str, str]:
    """All files of the chart by their path in it."""
    known = values()
    files = {
        "Chart.yaml": _chart(),
        "values.yaml": MADE + "".join(f"{line}\n" for line in _values(_tree(known))),
        "README.md": _readme(known),
        "values.schema.json": json.dumps(_schema(_tree(known)), indent=2) + "\n",
    }
    files |= {f"templates/{_flat(file)}": template(file, text) for file, text in sources().items()}
    files |= {
        f"templates/{_flat(file)}": template(file, text, component.condition)
        for component in components().values()
        for file, text in component.texts.items()
    }
    files |= {
        f"crds/{definition['metadata']['name']}.yaml": _definition(definition)
        for definition in DEFINITIONS
    }
    files["templates/NOTES.txt"] = _notes()
    return files


def write() -> None:
    """Make the chart anew, once manifests and documents name this version's images."""
    for path in DEPLOY.rglob("*.yaml"):
        if CHART not in path.parents:
            path.write_text(published.manifest(path.read_text()))
    for page in published.PAGES:
        page.write_text(published.page(page.read_text()))
    shutil.rmtree(CHART, ignore_errors=True)
    for name, text in made().items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _match(file: str, line: str) -> re.Match[str] | None:
    match = _SETTING.match(line)
    if match is None and "# chart:" in line:
        raise ValueError(f'{file}: expected "VALUE # chart: NAME", not "{line.strip()}"')
    if match is None and "{{" in line:
        raise ValueError(f'{file}: "{line.strip()}" would be read as a template')
    return match


def _is_image(name: str) -> bool:
    return name.endswith(".image")


def _expression(match: re.Match[str]) -> str:
    """JSON is YAML: it quotes what has to be, and does for lists and maps too."""
    value = f".Values.{match[3]}"
    if _is_image(match[3]):
        return (
            f'if and .Values.registry (not (contains "/" (toString {value}))) }}}}'
            f'{{{{ printf "%v/%v" .Values.registry {value} | toJson }}}}'
            f"{{{{ else }}}}{{{{ toString {value} | toJson }}}}{{{{ end"
        )
    text = isinstance(yaml.safe_load(match[2]), str)
    # Whoever sets a text to 2 or true means "2" or "true".
    return f"toString {value} | toJson" if text else f"toJson {value}"


def _flat(file: str) -> str:
    return "-".join(PurePath(file).parts)


def _chart() -> str:
    about = {
        "apiVersion": "v2",
        "name": "pykoord",
        "description": "QoS-aware co-location: koord-manager, koordlet and koord-scheduler",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
    }
    return MADE + yaml.safe_dump(about, sort_keys=False)


def _notes() -> str:
    lines = (
        f"{{{{- if {component.condition} }}}}\n  - {name}\n{{{{- end }}}}"
        for name, component in components().items()
    )
    text = NOTES.read_text().replace("VERSION", VERSION)
    return text.replace("COMPONENTS\n", "".join(f"{line}\n" for line in lines))


def _readme(known: Mapping[str, Setting]) -> str:
    rows = []
    for name, value in sorted(known.items()):
        default = json.dumps(value.default)
        shown = f"`{default}`" if len(default) <= _LONGEST_DEFAULT else "…"
        rows.append(f"| `{name}` | {shown} | {value.about} |\n")
    return f"<!--\n{MADE}-->\n" + README.read_text().replace("VALUES\n", "".join(rows))


def _tree(known: Mapping[str, Setting]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, setting in known.items():
        *parents, last = name.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = setting
    return tree


def _values(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Setting):
            if value.about:
                yield f"{indent}# {value.about}"
            yield f"{indent}{name}: {json.dumps(value.default)}"
        else:
            yield f"{indent}{name}:"
            yield from _values(value, f"{indent}  ")


def _schema(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Schema of the chart's values for Helm, which then rejects unknown names."""
    fields = {
        name: {"type": _TYPES[type(value.default)], "description": value.about}
        if isinstance(value, Setting)
        else _schema(value)
        for name, value in tree.items()
    }
    # Helm hands "global" to every chart.
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": fields | {"global": {"type": "object"}},
    }


def _definition(given: Mapping[str, Any]) -> str:
    return MADE + yaml.safe_dump(given, sort_keys=False, allow_unicode=True, width=100)


if __name__ == "__main__":
    write()
