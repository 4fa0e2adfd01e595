"""Files of the io controller with a line for each block device, read and written.

Formats are those of the kernel's Documentation/admin-guide/cgroup-v2.rst and of
block/{blk-throttle,blk-iolatency,blk-iocost}.c (Linux 6.1 to 6.18). Values are as on
cgroup v1, "8:0 4096" a line, but for io.cost, whose lines have many keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from koord_host.knobs.forms import (
    Form,
    Value,
    devices,
    limited,
    render_devices,
    render_lines,
)

_Keys = dict[str, str]

_RATES = ("rbps", "wbps", "riops", "wiops")
_DEVICE = re.compile(r"\d+:\d+")
_WEIGHT_LINE = re.compile(r"(\d+:\d+|default)\s+(\d+)")
_MOST_WEIGHT = 10_000
_NUMBER = re.compile(r"\d+(\.\d+)?")
_WORDS = {"ctrl": ("auto", "user"), "model": ("linear",)}

_QOS_KEYS = ("enable", "ctrl", "rpct", "rlat", "wpct", "wlat", "min", "max")
_MODEL_KEYS = (
    *("ctrl", "model", "rbps", "rseqiops", "rrandiops"),
    *("wbps", "wseqiops", "wrandiops"),
)


def by_key(text: str) -> dict[str, _Keys]:
    """The keys of each device of lines like "8:0 rbps=4096 wbps=max".

    Raises:
        ValueError: a line is none; the message shows it.
    """
    found: dict[str, _Keys] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        device, *tokens = line.split()
        pairs = [token.partition("=") for token in tokens]
        if not _DEVICE.fullmatch(device) or not all(equals for _, equals, _ in pairs):
            raise ValueError(f'{line!r} is not the line of a device; expected one like "8:0 key=1"')
        found[device] = {key: value for key, _, value in pairs}
    return found


def _render_keys(found: Mapping[str, _Keys]) -> str:
    return render_lines({device: _tokens(keys) for device, keys in found.items()})


def _tokens(keys: _Keys) -> str:
    return " ".join(f"{key}={value}" for key, value in keys.items())


# ---- one key of several: io.max, io.latency


def one_key(key: str, beside: tuple[str, ...]) -> Form:
    """The form of limits that one key of a file holds; no limit is "max", or no line.

    ``beside`` are all keys of the file, in the order in which it shows them.
    """

    def decode(text: str) -> str:
        shown = ((device, keys.get(key, "max")) for device, keys in by_key(text).items())
        return render_devices({device: int(limit) for device, limit in shown if limit != "max"})

    def encode(value: Value, current: str) -> str:
        merged = by_key(current)
        for device, limit in devices(str(value)).items():
            shown = dict.fromkeys(beside, "max") | merged.get(device, {})
            merged[device] = shown | {key: str(limit or "max")}
        return _render_keys(merged)

    def lines(value: str, current: str) -> list[str]:
        now = devices(decode(current))
        wanted = devices(value).items()
        return [
            f"{device} {key}={limit or 'max'}"
            for device, limit in wanted
            if now.get(device, 0) != limit
        ]

    return Form(encode, decode, text=True, lines=lines, plain=lambda value: limited(str(value)))


# ---- weights


def weights(text: str) -> dict[str, int]:
    """Weights by device, and that of all others as "default"; 0 is none of its own.

    Raises:
        ValueError: a line is none, or a weight is not within 1 to 10000.
    """
    found = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _WEIGHT_LINE.fullmatch(line.strip())
        if match is None:
            raise ValueError(
                f'{line!r} is not a weight; expected one like "default 100" or "8:0 50"'
            )
        weight = int(match[2])
        if weight > _MOST_WEIGHT or (match[1] == "default" and not weight):
            raise ValueError(f"{line!r} is out of range; expected a weight from 1 to 10000")
        found[match[1]] = weight
    return found


def _plain_weights(text: Value) -> str:
    return render_devices(
        {device: weight for device, weight in weights(str(text)).items() if weight}
    )


def _encode_weights(value: Value, current: str) -> str:
    return render_devices(weights(current) | weights(str(value)))


def _weight_lines(value: str, current: str) -> list[str]:
    now, wanted = weights(current), weights(value).items()
    return [
        f"{device} {weight or 'default'}"
        for device, weight in wanted
        if now.get(device, 0) != weight
    ]


# ---- io.cost


def _numbers(keys: _Keys, known: Iterable[str]) -> _Keys:
    """Keys as the kernel shows them, numbers without the zeros behind their point."""
    for key, value in keys.items():
        words = _WORDS.get(key)
        fine = value in words if words else _NUMBER.fullmatch(value)
        if key not in known or not fine:
            raise ValueError(f"{key}={value} is none of {', '.join(known)}")
    short = {key: _short(value) for key, value in keys.items()}
    return {key: short[key] for key in known if key in short}


def _short(value: str) -> str:
    return value.rstrip("0").rstrip(".") if "." in value else value


def _select_qos(keys: _Keys) -> _Keys:
    """The numbers somebody set for a device; the kernel chooses the others."""
    if keys.get("enable", "0") == "0":
        return {}
    if keys.get("ctrl", "auto") == "auto":
        return {"enable": "1", "ctrl": "auto"}
    return keys


def _select_model(keys: _Keys) -> _Keys:
    return {} if keys.get("ctrl", "auto") == "auto" else keys


def _cost(known: tuple[str, ...], select: Callable[[_Keys], _Keys], without: str) -> Form:
    def read(text: str) -> dict[str, _Keys]:
        return {device: _numbers(keys, known) for device, keys in by_key(text).items()}

    def plain(text: Value) -> str:
        desired_keys = {device: select(keys) for device, keys in read(str(text)).items()}
        return _render_keys({device: keys for device, keys in desired_keys.items() if keys})

    def merged(value: Value, current: str) -> dict[str, _Keys]:
        now = read(current)
        wanted = read(str(value))
        return now | {
            device: _numbers(now.get(device, {}) | keys, known) for device, keys in wanted.items()
        }

    def encode(value: Value, current: str) -> str:
        return _render_keys(merged(value, current))

    def lines(value: str, current: str) -> list[str]:
        now, after = read(current), merged(value, current)
        changed = (
            device for device in read(value) if select(after[device]) != select(now.get(device, {}))
        )
        return [f"{device} {_tokens(by_key(value)[device])}" for device in changed]

    return Form(encode, plain, text=True, lines=lines, plain=plain, without=without)


IO_MAX = {key: one_key(key, _RATES) for key in _RATES}
"""``io.max``, of which each key is a knob."""
IO_LATENCY = one_key("target", ("target",))
WEIGHTS = Form(
    _encode_weights, _plain_weights, text=True, lines=_weight_lines, plain=_plain_weights
)
COST_QOS = _cost(_QOS_KEYS, _select_qos, "enable=0")
COST_MODEL = _cost(_MODEL_KEYS, _select_model, "ctrl=auto")
