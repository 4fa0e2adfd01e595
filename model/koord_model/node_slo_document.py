"""A NodeSLO as the API server has it, laid over Koordinator's defaults.

A field that cannot be used is ignored with a line that names it; all others apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

import msgspec

from koord_model import (
    blkio_qos,
    cpu_burst,
    memory_qos,
    service_profile,
    system_strategy,
    used_threshold,
)
from koord_model.annotations import decode
from koord_model.cpu_burst import CPUBurst
from koord_model.fields import Fields, quantity, shown, text
from koord_model.node_slo import (
    RECOMMENDED,
    Bandwidth,
    ClassQoS,
    CPUPolicy,
    CPUQoS,
    HostApplication,
    NetPolicy,
    NetworkQoS,
    NodeSLO,
    ResctrlQoS,
    RolloutVersion,
)
from koord_model.qos import QoSClass
from koord_model.quantity import whole
from koord_model.used_threshold import UsedThreshold

MAX_BITS = 10**15
"""1 Pbit/s; larger bandwidths are typing errors."""

_KIND = "NodeSLO"
_CLASSES = {
    QoSClass.LSR: "lsrClass",
    QoSClass.LS: "lsClass",
    QoSClass.BE: "beClass",
    QoSClass.SYSTEM: "systemClass",
}
_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


class _CgroupBase(StrEnum):
    ROOT = "CgroupRoot"
    KUBEPODS = "Kubepods"
    BURSTABLE = "KubepodsBurstable"
    BEST_EFFORT = "KubepodsBesteffort"


def parse(document: Mapping[str, object] | str | bytes) -> tuple[NodeSLO, tuple[str, ...]]:
    """The NodeSLO, given as JSON or decoded, whole or its spec, and lines on what was ignored.

    Raises:
        ValueError: not a NodeSLO at all; the caller keeps an older one.
    """
    ignored: list[str] = []
    spec = Fields(_spec(document), _KIND, ignored)
    strategy = spec.of("resourceQOSStrategy")
    policies = strategy.of("policies")
    system = spec.of("systemStrategy")
    ours = spec.of("extensions").of("pykoord")
    services = ours.objects("services", service_profile.MOST_PROFILES)
    classes = {qos: _class(strategy.of(name), qos) for qos, name in _CLASSES.items()}
    total = _total_bandwidth(system)
    ours = spec.of("extensions").of("pykoord")
    shaped = total > 0 or any(class_qos.network.enable for class_qos in classes.values())
    slo = NodeSLO(
        cpu_policy=policies.word("cpuPolicy", CPUPolicy.GROUP_IDENTITY),
        # Koordinator's default is tc, also where nothing is said of the network.
        net_policy=policies.word("netQOSPolicy", NetPolicy.TC if shaped else NetPolicy.NONE),
        classes={qos: class_qos for qos, class_qos in classes.items() if class_qos != ClassQoS()},
        threshold=used_threshold.read(spec.of("resourceUsedThresholdWithBE"), UsedThreshold()),
        burst=cpu_burst.read(spec.of("cpuBurstStrategy"), CPUBurst()),
        system=system_strategy.read(system),
        root_blkio=blkio_qos.read(strategy.of("cgroupRoot").of("blkioQOS")),
        strategies=_strategies(ours.of("strategies")),
        total_network_bandwidth=total,
        host_applications=_host_applications(spec),
        services=tuple(service_profile.read(services)),
    )
    if "rollout" in dict(ours.entries()):
        slo = replace(slo, rollout=_rollout(ours.of("rollout"), ignored))
    return slo, tuple(ignored)


def _rollout(fields: Fields, ignored: Sequence[str]) -> RolloutVersion | None:
    """The version that the manager gave this; ``None`` of one that is none."""
    entry, version = fields.text("entry"), fields.text("version")
    return RolloutVersion(entry, version, next(iter(ignored), "")) if version else None


def _spec(document: Mapping[str, object] | str | bytes) -> object:
    given: object = document
    if isinstance(document, str | bytes):
        try:
            given = decode(_ANY, document if isinstance(document, str) else document.decode())
        except ValueError as error:
            raise ValueError(f"{_KIND}: {error}") from None
    if not isinstance(given, Mapping):
        raise ValueError(f"{_KIND} is {shown(given)}; expected an object")  # noqa: TRY004 - input
    if given.get("kind", _KIND) != _KIND:
        raise ValueError(f"kind is {shown(given['kind'])}; expected {_KIND}")
    whole_object = "kind" in given or "spec" in given
    return given.get("spec") if whole_object else given


def _class(fields: Fields, qos: QoSClass) -> ClassQoS:
    usual = RECOMMENDED[qos]
    return ClassQoS(
        cpu=_cpu(fields.of("cpuQOS"), usual.cpu),
        resctrl=_resctrl(fields.of("resctrlQOS"), usual.resctrl),
        network=_network(fields.of("networkQOS")),
        memory=memory_qos.read(fields.of("memoryQOS"), usual.memory),
        blkio=blkio_qos.read(fields.of("blkioQOS")),
    )


def _cpu(fields: Fields, usual: CPUQoS) -> CPUQoS:
    read = CPUQoS(
        enable=fields.flag("enable", default=False),
        group_identity=fields.number("groupIdentity", usual.group_identity, -1, 2),
        sched_idle=fields.number("schedIdle", usual.sched_idle, 0, 1),
        core_expeller=fields.flag("coreExpeller", usual.core_expeller),
    )
    return read if read.enable else CPUQoS()


def _resctrl(fields: Fields, usual: ResctrlQoS) -> ResctrlQoS:
    read = ResctrlQoS(
        enable=fields.flag("enable", default=False),
        cat_start=fields.number("catRangeStartPercent", usual.cat_start, 0, 100),
        cat_end=fields.number("catRangeEndPercent", usual.cat_end, 0, 100),
        mba=fields.number("mbaPercent", usual.mba, 0, 100),
    )
    if read.cat_start >= read.cat_end:
        kept = f"defaults {usual.cat_start} and {usual.cat_end} kept"
        name = (
            "catRangeStartPercent" if fields.has("catRangeStartPercent") else "catRangeEndPercent"
        )
        fields.refuse(name, "catRangeStartPercent below catRangeEndPercent", kept)
        read = replace(read, cat_start=usual.cat_start, cat_end=usual.cat_end)
    return read if read.enable else ResctrlQoS()


def _network(fields: Fields) -> NetworkQoS:
    read = NetworkQoS(
        enable=fields.flag("enable", default=False),
        ingress_request=_bandwidth(fields, "ingressRequest"),
        ingress_limit=_bandwidth(fields, "ingressLimit"),
        egress_request=_bandwidth(fields, "egressRequest"),
        egress_limit=_bandwidth(fields, "egressLimit"),
    )
    return read if read.enable else NetworkQoS()


def _bandwidth(fields: Fields, name: str) -> Bandwidth:
    expected = 'a percentage from 0 to 100, or bits a second as text like "50M"'
    return fields.take(name, Bandwidth(), _percent_or_bits, expected, "default 0 kept")


def _percent_or_bits(given: object) -> Bandwidth:
    if isinstance(given, str):
        return Bandwidth(bits=_bits(given))
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 100:
        raise ValueError(given)
    return Bandwidth(percent=given)


def _total_bandwidth(fields: Fields) -> int:
    expected = 'bits a second like "10G"'
    return fields.take("totalNetworkBandwidth", 0, _bits, expected, "default 0 kept")


def _bits(given: object) -> int:
    bits = whole(quantity(given))
    if not 0 <= bits <= MAX_BITS:
        raise ValueError(given)
    return bits


def _strategies(fields: Fields) -> Mapping[str, Mapping[str, object]]:
    """Our own section, strategy by strategy; koordlet's ``qos_manager`` knows its fields."""
    found = {}
    for name, given in fields.entries():
        if isinstance(given, Mapping):
            found[name] = dict(given)
        else:
            fields.refuse(name, "an object", "left out")
    return found


def _host_applications(spec: Fields) -> tuple[HostApplication, ...]:
    read = [_host_application(fields) for fields in spec.objects("hostApplications")]
    return tuple(application for application in read if application is not None)


def _host_application(fields: Fields) -> HostApplication | None:
    """One application, or ``None`` if its group is not certain: another's must not be changed."""
    out = "the application is left out"
    before = len(fields.ignored)
    name = fields.take("name", "", _name, "a name without slashes", out)
    base = ""
    place = fields.of("cgroupPath")
    if fields.has("cgroupPath"):
        named = " or ".join(_CgroupBase)
        base = place.take("base", _CgroupBase.ROOT, _base, named, out).value
    parent = place.take("parentDir", "", _path, 'a path without ".."', out)
    relative = place.take("relativePath", "", _path, 'a path without ".."', out)
    if len(fields.ignored) > before:
        return None
    if not name:
        fields.refuse("name", "a name without slashes", out)
        return None
    if base and not (parent + relative).strip("/"):
        place.refuse("relativePath", "a group below its base", out)
        return None
    return HostApplication(
        name=name,
        qos=fields.word("qos", QoSClass.NONE),
        priority=fields.text("priority"),
        base=base,
        parent_dir=parent,
        relative_path=relative,
    )


def _name(given: object) -> str:
    name = _path(given)
    if "/" in name or name == ".":
        raise ValueError(given)
    return name


def _path(given: object) -> str:
    path = text(given)
    if ".." in path.split("/") or not path.isprintable():
        raise ValueError(given)
    return path


def _base(given: object) -> _CgroupBase:
    return _CgroupBase(text(given) or _CgroupBase.ROOT)
