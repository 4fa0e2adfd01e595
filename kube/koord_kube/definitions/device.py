"""Device: the accelerators and RDMA cards of a node. No IO."""

from __future__ import annotations

from koord_model.keys import LABEL_GPU_DRIVER_VERSION, LABEL_GPU_MODEL, LABEL_GPU_VENDOR

from koord_kube.definitions.definition import AGE, Column, definition, label_path
from koord_kube.definitions.schema import (
    Schema,
    conditions,
    flag,
    labels,
    list_of,
    object_of,
    resources,
    text,
    whole,
)
from koord_kube.protocol.resources import DEVICES


def device_info() -> Schema:
    """One device, as Device lists it, and NodeMetric what was used of it."""
    function = object_of(
        "One virtual function.",
        minor=whole("Its number.", bits=32),
        busID=text("Its PCI address."),
    )
    return object_of(
        "One device.",
        type=text("What it is.", "gpu", "rdma", "fpga"),
        id=text("Its UUID."),
        minor=whole("Its number, from 0.", bits=32),
        moduleID=whole("Its physical number.", bits=32),
        health=flag("Whether it works."),
        labels=labels("What it may be selected by."),
        resources=resources("What it has, or what was used of it."),
        topology=object_of(
            "Where it is.",
            socketID=whole("CPU socket, −1 where not known.", bits=32),
            nodeID=whole("NUMA node, −1 where not known.", bits=32),
            pcieID=text("PCIe switch."),
            busID=text("PCI address."),
        ),
        vfGroups=list_of(
            "Its virtual functions.",
            object_of(
                "Those that are alike.",
                labels=labels("What they may be selected by."),
                vfs=list_of("The functions.", function),
            ),
        ),
        conditions=conditions("How it fares."),
    )


_ENTRY = object_of(
    "A pod's share.",
    name=text("The pod."),
    namespace=text("Its namespace."),
    uuid=text("Its UID."),
    minors=list_of("The devices' numbers.", {"type": "integer", "format": "int32"}),
)

DEVICE = definition(
    DEVICES,
    "The devices of the node of the same name.",
    {
        "spec": object_of(
            "What there is.", devices=list_of("All devices of the node.", device_info())
        ),
        "status": object_of(
            "Who has what.",
            allocations=list_of(
                "By type.",
                object_of(
                    "One type.",
                    type=text("What it is."),
                    entries=list_of("Who has it.", _ENTRY),
                ),
            ),
        ),
    },
    [
        Column("GPU-Vendor", label_path(LABEL_GPU_VENDOR)),
        Column("GPU-Model", label_path(LABEL_GPU_MODEL)),
        Column("Driver", label_path(LABEL_GPU_DRIVER_VERSION)),
        AGE,
    ],
    status=False,
)
