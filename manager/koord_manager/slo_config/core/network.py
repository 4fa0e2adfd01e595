"""Check for classes that are promised more of the network than there is. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_model.fields import Fields, quantity
from koord_model.quantity import whole

_CLASSES = ("lsrClass", "lsClass", "beClass")
_REQUESTS = ("ingressRequest", "egressRequest")
_EVERYTHING = 100


def over_promised(spec: Mapping[str, object], total: int = 0) -> Iterator[str]:
    """Lines on requests of a NodeSLO's spec; ``total`` is the node's bits a second, 0 unknown."""
    strategy = Fields(spec, "", []).of("resourceQOSStrategy")
    found = {name: list(_requests(strategy, name)) for name in _REQUESTS}
    kinds = {type(request) for requests in found.values() for request in requests}
    if len(kinds) > 1:
        yield "networkQOS has requests in percent and in bits a second; expected one of the two"
        return
    for name, requests in found.items():
        if kinds == {int} and sum(requests) > _EVERYTHING:  # type: ignore[arg-type]
            yield f"{name} of all classes is {sum(requests)} percent; expected up to 100"  # type: ignore[arg-type]
        bits = sum(_bits(request) for request in requests) if kinds == {str} else 0
        if total and bits > total:
            yield f"{name} of all classes is {bits} bits a second; the node has {total}"


def _requests(strategy: Fields, name: str) -> Iterator[int | str]:
    for qos in _CLASSES:
        for field, given in strategy.of(qos).of("networkQOS").entries():
            # 0 is how nothing is written, beside bits a second too.
            if field == name and isinstance(given, int | str) and given != 0:
                yield given


def _bits(given: int | str) -> int:
    try:
        return whole(quantity(given))
    except ValueError:
        return 0  # a line says so already
