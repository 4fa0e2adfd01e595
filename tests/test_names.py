"""One public class name stands for one thing in all packages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.test_layout import COMPONENTS, ROOT

# Each file of these folders has a class of this name: that is how it is found.
CONTRACTS = {
    "Collector": "koordlet/koordlet/metrics_advisor/collectors",
    "Settings": "koordlet/koordlet/qos_manager/strategies",
    "Vendor": "device_daemon/koord_devices/vendors",
}
_CLASS = re.compile(r"^class ([^_]\w*)", re.MULTILINE)


def _classes() -> Iterator[tuple[str, str]]:
    for component in COMPONENTS:
        for module in component.rglob("*.py"):
            if "build" in module.parts or module.name.endswith("_pb2.py"):
                continue
            path = str(module.relative_to(ROOT))
            for name in _CLASS.findall(module.read_text()):
                yield name, path


def test_a_class_name_stands_for_one_thing() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in _classes():
        if not (name in CONTRACTS and Path(path).is_relative_to(CONTRACTS[name])):
            found[name].append(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
