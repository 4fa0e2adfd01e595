"""Random volumes: claims with the volumes, classes and drivers behind them."""

from __future__ import annotations

from random import Random

from tests.support.clusters.selectors import ZONE, Object, chance, some

DRIVER = "csi.example.com"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def storage_classes() -> list[Object]:
    late, early = {"volumeBindingMode": "WaitForFirstConsumer"}, {"volumeBindingMode": "Immediate"}
    local = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", **late}
    zones = {"key": ZONE, "values": ["z1", "z2"]}
    zonal = {
        "metadata": {"name": "zonal"},
        "provisioner": DRIVER,
        **late,
        "allowedTopologies": [{"matchLabelExpressions": [zones]}],
    }
    return [local, zonal, {"metadata": {"name": "now"}, "provisioner": DRIVER, **early}]


def _volume(rng: Random, name: str, storage_class: str, claim: Object | None) -> Object:
    spec: Object = {
        "capacity": {"storage": rng.choice(["1Gi", "5Gi", "10Gi"])},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    metadata: Object = {"name": name}
    if chance(rng, 0.5):
        values = some(rng, ["z1", "z2", "z3"], 1, 2)
        row = {"key": ZONE, "operator": "In", "values": values}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [row]}]}}
    if chance(rng, 0.35):
        metadata["labels"] = {ZONE: rng.choice(["z1", "z2", "z1__z2"])}
    if claim:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", **claim}
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Bound" if claim else "Available"},
    }


def _claim(rng: Random, name: str, namespace: str, bound: str) -> Object:
    mode = "ReadWriteOncePod" if chance(rng, 0.3) else "ReadWriteOnce"
    spec: Object = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": rng.choice(["1Gi", "4Gi"])}},
        "storageClassName": "now" if bound or chance(rng, 0.08) else rng.choice(["local", "zonal"]),
    }
    metadata: Object = {"name": name, "namespace": namespace}
    if bound:
        metadata["annotations"] = BOUND
        spec["volumeName"] = bound
    elif spec["storageClassName"] == "local":
        spec["accessModes"] = ["ReadWriteOnce"]
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def _claim_volumes(names: list[str]) -> list[Object]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def _disk(rng: Random) -> Object:
    disk = {"pdName": rng.choice(["d1", "d2"]), "readOnly": chance(rng, 0.3)}
    return {"name": "disk", "gcePersistentDisk": disk}


def add_volumes(rng: Random, cluster: Object) -> None:
    """Give the pods of a cluster claims and disks, and the cluster what is behind them."""
    pod, namespace = cluster["pod"], cluster["pod"]["metadata"]["namespace"]
    claims, volumes = [], []
    for number in range(rng.choice([1, 1, 2, 3])):
        bound = f"v{number}" if chance(rng, 0.65) else ""
        claim = _claim(rng, f"claim{number}", namespace, bound)
        claims.append(claim)
        if bound and chance(rng, 0.96):
            volumes.append(_volume(rng, bound, "now", {**claim["metadata"], "annotations": None}))
            del volumes[-1]["spec"]["claimRef"]["annotations"]
    volumes += [_volume(rng, f"free{n}", "local", None) for n in range(rng.choice([0, 1, 2, 3]))]
    names = [one["metadata"]["name"] for one in claims]
    own = names if chance(rng, 0.95) else [*names, "missing"]
    pod["spec"]["volumes"] = [*pod["spec"].get("volumes", []), *_claim_volumes(own)]
    if chance(rng, 0.3):
        pod["spec"]["volumes"].append(_disk(rng))
    for one in cluster["pods"]:
        if one["metadata"]["namespace"] == namespace and chance(rng, 0.4):
            one["spec"]["volumes"] = _claim_volumes(some(rng, names, 1, 2))
        if chance(rng, 0.2):
            one["spec"]["volumes"] = [*one["spec"].get("volumes", []), _disk(rng)]
    cluster.update(pvcs=claims, pvs=volumes, storageClasses=storage_classes())
    cluster["csiNodes"] = [_csi_node(rng, one["metadata"]["name"]) for one in cluster["nodes"]]


def _csi_node(rng: Random, name: str) -> Object:
    driver: Object = {"name": DRIVER, "nodeID": name, "topologyKeys": None}
    if chance(rng, 0.7):
        driver["allocatable"] = {"count": rng.choice([1, 2, 3])}
    return {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
