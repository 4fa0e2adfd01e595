"""Selectors of devices: what Kubernetes has in CEL, and no more time than a device is worth."""

from __future__ import annotations

import pytest
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceAttribute,
    DeviceCapacity,
    DRADevice,
)
from koord_scheduler.plugins.dynamic_resources.selectors import (
    Selector,
    SelectorError,
    compile_selector,
)

DEVICE = DRADevice(
    name="gpu0",
    attributes={
        "model": DeviceAttribute(string="a100"),
        "numa": DeviceAttribute(integer=1),
        "version": DeviceAttribute(version="1.10.0-rc.2+build.7"),
        "example.com/fast": DeviceAttribute(boolean=True),
    },
    capacity={"memory": DeviceCapacity(value="40Gi"), "half": DeviceCapacity(value="500m")},
)
OURS = 'device.attributes["d"]'
HALF = 'device.capacity["d"].half'
MEMORY = 'device.capacity["d"].memory'
TEN = "[0,1,2,3,4,5,6,7,8,9]"


def matches(expression: str) -> bool:
    selector = compile_selector(expression)
    assert isinstance(selector, Selector), selector
    return selector.matches("d", DEVICE)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "d" && !device.allowMultipleAllocations', True),
        (f'cel.bind(a, {OURS}, a.model == "a100" && a.numa == 1)', True),
        ('device.attributes["example.com"].fast', True),
        (f"{OURS}.?none.orValue(true)", True),
        ('"none" in device.attributes["nobody.example.com"]', False),
        ('device.attributes[?"nobody.example.com"].?x.hasValue()', False),
        (f'{OURS}.version.isGreaterThan(semver("1.9.0"))', True),
        (f'{OURS}.version.isLessThan(semver("1.10.0"))', True),
        (f'{OURS}.version.isGreaterThan(semver("1.10.0-rc.11"))', False),
        (f'{OURS}.version.isGreaterThan(semver("1.10.0-rc"))', True),
        (f'{OURS}.version == semver("1.10.0-rc.2")', True),
        (f"{OURS}.version.minor() == 10 && {OURS}.version.patch() == 0", True),
        ('isSemver("1.0") || isQuantity("1Qi")', False),
        (f'{MEMORY} == quantity("40960Mi")', True),
        (f'{MEMORY}.compareTo(quantity("50G"))', None),
        (f'{MEMORY}.compareTo(quantity("50G")) == -1', True),
        (f"{MEMORY}.sub(1).isLessThan({MEMORY})", True),
        (f'{HALF}.add({HALF}) == quantity("1") && {HALF}.sign() == 1', True),
        (f"{HALF}.isInteger() || {HALF}.asApproximateFloat() > 0.6", False),
        (f"{HALF}.asInteger() == 1", None),
        (f"{OURS}.numa", None),
        (f"{OURS}.none == 1", None),
        (f"{OURS}.model.compareTo({OURS}.model) == 0", None),
        (f'{MEMORY}.isGreaterThan(quantity("much"))', None),
    ],
)
def test_expressions(expression: str, expected: bool | None) -> None:
    """``None``: an error, which keeps claims off the device."""
    if expected is None:
        with pytest.raises(SelectorError):
            matches(expression)
    else:
        assert matches(expression) is expected


def test_an_expression_that_is_none_is_reported_once() -> None:
    assert isinstance(compile_selector("device.driver =="), SelectorError)
    assert compile_selector("device.driver ==") is compile_selector("device.driver ==")


def test_a_long_loop_is_stopped() -> None:
    loop = "a + b + c + d + e >= 0"
    for variable in "abcde":
        loop = f"{TEN}.all({variable}, {loop})"
    with pytest.raises(SelectorError):
        matches(loop)
