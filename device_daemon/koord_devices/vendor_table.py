"""Available vendors: the modules of ``vendors``, and those of other distributions."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from importlib.metadata import entry_points
from types import ModuleType

from koord_devices import vendors
from koord_devices.contract import AnyVendor

GROUP = "pykoord.device_vendors"


class UnknownVendorError(ValueError):
    """No vendor has this name; the message is one line."""


def load(selected: Sequence[str]) -> dict[str, AnyVendor]:
    """The vendors of these names, "*" for all; "-huawei" leaves one out.

    Raises:
        UnknownVendorError: there is no vendor of a name.
        ImportError, AttributeError: another distribution's module is none.
    """
    ours = [module.name for module in pkgutil.iter_modules(vendors.__path__)]
    others = {point.name: point for point in entry_points(group=GROUP)}
    names = sorted({*ours, *others})
    for name in selected:
        if name != "*" and name.removeprefix("-") not in names:
            expected = ", ".join(names)
            raise UnknownVendorError(f'"{name}" is not a known vendor; expected one of {expected}')
    chosen = [name for name in names if _is_chosen(name, selected)]
    found: dict[str, AnyVendor] = {}
    for name in chosen:
        module: ModuleType
        if name in others:
            module = others[name].load()
        else:
            module = importlib.import_module(f"{vendors.__name__}.{name}")
        found[name] = module.Vendor()
    return found


def _is_chosen(name: str, selected: Sequence[str]) -> bool:
    return f"-{name}" not in selected and (name in selected or "*" in selected)
