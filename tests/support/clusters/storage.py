"""Random clusters that are about volumes alone: what stands behind claims, and who uses them."""

from __future__ import annotations

from random import Random

from tests.support.clusters.selectors import HOSTNAME, REGION, ZONE, Object, chance, some

CSI, OTHER_CSI = "csi.example.com", "other.example.com"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"
ZONES = ["eu-a-1", "eu-a-2", "us-b-1"]
CSI_ZONES = [
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.cinder.csi.openstack.org/zone",
]
IN_TREE = ["gce-pd", "aws-ebs", "azure-disk", "cinder", "portworx-volume"]
DELETED = "2026-01-01T00:00:00Z"
CLASSES = ["local", "late", "zonal", "measured", "gce", "ebs", "file"]
"""Classes whose claims wait for a node."""


def random_storage_cluster(rng: Random) -> Object:
    """A case in plain JSON: nodes, pods, storage objects, the ``pod``, and the one ``next``."""
    names = [f"n{number}" for number in range(1, rng.choice([1, 2, 3, 4, 5, 6]) + 1)]
    classes = ["local"] if chance(rng, 0.25) else CLASSES
    claims = [_claim(rng, number, names, classes) for number in range(rng.randint(1, 7))]
    volumes = _volumes(rng, claims, names)
    pods = [_pod(rng, f"p{number}", claims) for number in range(rng.randint(0, 6))]
    for one in pods:
        one["spec"]["nodeName"] = "gone" if chance(rng, 0.03) else rng.choice(names)
    waiting = [_pod(rng, name, claims, waits=True) for name in ("pod", "next")]
    cluster = {
        "nodes": [_node(rng, name) for name in names],
        "pods": pods,
        "namespaces": [],
        "pod": waiting[0],
        "next": waiting[1],
        "pvs": volumes,
        "storageClasses": [one for one in _classes(rng) if chance(rng, 0.99)],
        "csiNodes": [_csi_node(rng, name) for name in names if chance(rng, 0.9)],
        "csiDrivers": _drivers(rng),
        "csiStorageCapacities": [
            _capacity(rng, number, names) for number in range(rng.randint(0, 4))
        ],
        "volumeAttachments": [
            _attachment(rng, number, volumes, names) for number in range(rng.randint(0, 6))
        ],
    }
    owners = [*pods, *waiting]
    cluster["pvcs"] = [one for one in claims if chance(rng, 0.98)] + [
        made for pod in owners for made in _ephemeral_claims(rng, pod, pod in waiting)
    ]
    cluster["after"] = {
        "pvcs": [_claim_after(rng, one, names) for one in cluster["pvcs"] if chance(rng, 0.98)],
        "pvs": [_volume_after(rng, one, claims) for one in volumes if chance(rng, 0.98)],
    }
    return cluster


def _claim_after(rng: Random, claim: Object, names: list[str]) -> Object:
    """A claim as it is some time after it was written with version 2000."""
    if chance(rng, 0.05):
        return claim
    annotations = dict(claim["metadata"].get("annotations", {}))
    spec = dict(claim["spec"])
    if chance(rng, 0.93):
        annotations.setdefault(SELECTED, names[0] if chance(rng, 0.8) else rng.choice(names))
    if chance(rng, 0.8):
        spec.setdefault("volumeName", rng.choice(["v0", "v1", "free0", "free0", "free1", "gone"]))
    if chance(rng, 0.9):
        annotations |= BOUND
    version = rng.choice(["2000", "2000", "2001", "10000"])
    metadata = claim["metadata"] | {"annotations": annotations, "resourceVersion": version}
    return {**claim, "metadata": metadata, "spec": spec}


def _volume_after(rng: Random, volume: Object, claims: list[Object]) -> Object:
    if chance(rng, 0.05):
        return volume
    after = {**volume, "metadata": volume["metadata"] | {"resourceVersion": "2000"}}
    after["spec"] = dict(volume["spec"])
    if chance(rng, 0.9):
        after["spec"].pop("claimRef", None)
        claim = rng.choice(claims)
        _refer(after, claim, claim["metadata"]["uid"] if chance(rng, 0.9) else "")
    if chance(rng, 0.05):
        after["spec"].pop("nodeAffinity", None)
    return after


def _node(rng: Random, name: str) -> Object:
    zone = rng.choice(ZONES)
    labels = {ZONE: zone, REGION: zone[:4], HOSTNAME: name, "rack": rng.choice("123")}
    if chance(rng, 0.15):
        labels[BETA_ZONE] = labels.pop(ZONE)
    if chance(rng, 0.08):
        labels = {HOSTNAME: name}
    if chance(rng, 0.6):
        labels |= dict.fromkeys(CSI_ZONES, zone if chance(rng, 0.9) else rng.choice(ZONES))
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"pods": "99"}}}


def _classes(rng: Random) -> list[Object]:
    provisioners = {
        "local": "kubernetes.io/no-provisioner",
        "late": CSI,
        "zonal": CSI,
        "measured": CSI,
        "gce": "kubernetes.io/gce-pd",
        "ebs": "kubernetes.io/aws-ebs",
        "file": "kubernetes.io/azure-file",
        "now": CSI,
    }
    found = [
        {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "Immediate" if name == "now" else "WaitForFirstConsumer",
        }
        for name, provisioner in provisioners.items()
    ]
    found[2]["allowedTopologies"] = [_topology(rng) for _ in range(rng.choice([0, 1, 1, 2]))]
    return found


def _topology(rng: Random) -> Object:
    keys = some(rng, [ZONE, "rack", "missing"], 0 if chance(rng, 0.1) else 1, 2)
    values = {ZONE: ZONES, "rack": ["1", "2"], "missing": ["x"]}
    rows = [{"key": key, "values": some(rng, values[key], 1, 2)} for key in keys]
    return {"matchLabelExpressions": rows}


def _drivers(rng: Random) -> list[Object]:
    if chance(rng, 0.2):
        return []
    return [{"metadata": {"name": CSI}, "spec": {"storageCapacity": chance(rng, 0.6)}}]


def _csi_node(rng: Random, name: str) -> Object:
    drivers = []
    for driver in (
        CSI,
        OTHER_CSI,
        "pd.csi.storage.gke.io",
        "ebs.csi.aws.com",
        "disk.csi.azure.com",
    ):
        one: Object = {"name": driver, "nodeID": name, "topologyKeys": None}
        if chance(rng, 0.6):
            one["allocatable"] = {"count": rng.choice([0, 1, 1, 2, 2, 3, 4])}
        elif chance(rng, 0.1):
            one["allocatable"] = {}
        if chance(rng, 0.85):
            drivers.append(one)
    metadata: Object = {"name": name}
    if chance(rng, 0.6):
        migrated = [f"kubernetes.io/{one}" for one in some(rng, IN_TREE, 0, 5)]
        metadata["annotations"] = {MIGRATED: ",".join(migrated)}
    return {"metadata": metadata, "spec": {"drivers": drivers}}


def _capacity(rng: Random, number: int, names: list[str]) -> Object:
    one: Object = {
        "metadata": {"name": f"c{number}", "namespace": "storage"},
        "storageClassName": rng.choice(["measured", "measured", "measured", "late"]),
    }
    kind = rng.random()
    if kind < 0.4:
        one["nodeTopology"] = {"matchLabels": {ZONE: rng.choice(ZONES)}}
    elif kind < 0.6:
        one["nodeTopology"] = {"matchLabels": {HOSTNAME: rng.choice(names)}}
    elif kind < 0.9:
        operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        row: Object = {"key": rng.choice([ZONE, "rack"]), "operator": operator}
        if operator in ("In", "NotIn"):
            row["values"] = some(rng, [*ZONES, "1", "2"], 1, 3)
        one["nodeTopology"] = {"matchExpressions": [row]}
    elif kind < 0.95:
        one["nodeTopology"] = {}
    if chance(rng, 0.9):
        one["capacity"] = rng.choice(["1Gi", "4Gi", "10Gi", "4294967296"])
    if chance(rng, 0.3):
        one["maximumVolumeSize"] = rng.choice(["1Gi", "4Gi", "5000M"])
    return one


def _claim(rng: Random, number: int, names: list[str], classes: list[str]) -> Object:
    spec: Object = {
        "accessModes": some(rng, ["ReadWriteOnce", "ReadOnlyMany"], 1, 2),
        "storageClassName": rng.choice(classes),
    }
    if chance(rng, 0.97):
        spec["resources"] = {"requests": {"storage": rng.choice(["1Gi", "4Gi", "2G", "0.5Gi"])}}
    if chance(rng, 0.12):
        spec["accessModes"] = ["ReadWriteOncePod"]
    if chance(rng, 0.05):
        spec["volumeMode"] = rng.choice(["Block", "Filesystem"])
    if chance(rng, 0.04):
        spec["volumeAttributesClassName"] = rng.choice(["gold", ""])
    if chance(rng, 0.1):
        spec["selector"] = _selector(rng)
    metadata: Object = {
        "name": f"claim{number}",
        "namespace": "default",
        "uid": f"uid-{number}",
        "resourceVersion": str(100 + number),
    }
    claim = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    kind = rng.random()
    if kind < 0.5:
        metadata["annotations"] = dict(BOUND)
        spec["volumeName"] = f"v{number}"
        claim["status"] = {"phase": "Lost" if chance(rng, 0.02) else "Bound"}
    elif kind < 0.53:
        spec["volumeName"] = f"v{number}"
    elif kind < 0.56:
        spec["storageClassName"] = rng.choice(["now", "unknown", ""])
    elif kind < 0.64:
        metadata["annotations"] = {SELECTED: rng.choice(names)}
    if chance(rng, 0.04):
        metadata.setdefault("annotations", {})[BETA_CLASS] = spec.pop("storageClassName")
    if chance(rng, 0.01):
        metadata["deletionTimestamp"] = DELETED
    return claim


def _selector(rng: Random) -> Object:
    if chance(rng, 0.6):
        return {"matchLabels": {"tier": rng.choice(["fast", "slow"])}}
    return {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["slow"]}]}


def _volumes(rng: Random, claims: list[Object], names: list[str]) -> list[Object]:
    """The volumes of bound claims, free ones, and some that are meant for a claim."""
    found = []
    for number, claim in enumerate(claims):
        if "volumeName" in claim["spec"] and chance(rng, 0.97):
            one = _volume(rng, f"v{number}", names, claim["spec"].get("storageClassName", ""))
            _refer(one, claim, claim["metadata"]["uid"])
            one["status"] = {"phase": "Bound"}
            found.append(one)
        elif "volumeName" not in claim["spec"] and chance(rng, 0.1):
            one = _volume(rng, f"for{number}", names, claim["spec"].get("storageClassName", ""))
            uid = rng.choice(["", claim["metadata"]["uid"], claim["metadata"]["uid"], "another"])
            _refer(one, claim, uid)
            found.append(one)
    sizes = rng.sample(["1Gi", "2Gi", "3Gi", "4Gi", "5Gi", "6Gi", "2500M", "7G", "8Gi"], 9)
    for number in range(rng.choice([0, 1, 2, 3, 5, 8])):
        storage_class = rng.choice(["local", "local", "local", "late", "zonal", "measured"])
        one = _volume(rng, f"free{number}", names, storage_class)
        one["spec"]["capacity"]["storage"] = sizes[number]
        found.append(one)
    return found


def _volume(rng: Random, name: str, names: list[str], storage_class: str) -> Object:
    spec: Object = {
        "capacity": {"storage": rng.choice(["1Gi", "4Gi", "10Gi"])},
        "accessModes": some(rng, ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"], 1, 3),
        "storageClassName": storage_class,
        **_source(rng, name),
    }
    metadata: Object = {"name": name, "resourceVersion": str(1000 + rng.randint(0, 9))}
    labels: Object = {}
    if chance(rng, 0.3):
        labels[rng.choice([ZONE, ZONE, BETA_ZONE])] = rng.choice([*ZONES, "eu-a-1__eu-a-2", "a__"])
    if chance(rng, 0.1):
        labels[REGION] = rng.choice(["eu-a", "us-b"])
    if chance(rng, 0.4):
        labels["tier"] = rng.choice(["fast", "slow"])
    if labels:
        metadata["labels"] = labels
    if chance(rng, 0.6):
        terms = [_term(rng, names) for _ in range(rng.choice([1, 1, 1, 2]))]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if chance(rng, 0.05):
        spec["volumeMode"] = rng.choice(["Block", "Filesystem"])
    if chance(rng, 0.03):
        spec["volumeAttributesClassName"] = "gold"
    if chance(rng, 0.04):
        metadata["annotations"] = {BETA_CLASS: spec.pop("storageClassName")}
    if chance(rng, 0.03):
        metadata["deletionTimestamp"] = DELETED
    phase = rng.choice(["Available"] * 9 + ["Released", "Pending"])
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def _source(rng: Random, name: str) -> Object:
    shared = f"disk{rng.randint(1, 3)}"
    volume_id = rng.choice([f"vol-{shared}", f"aws://eu-a-1/vol-{shared}", f"aws:///vol-{shared}"])
    kind = "Dedicated" if chance(rng, 0.1) else "Managed"
    in_tree: list[Object] = [
        {"gcePersistentDisk": {"pdName": shared}},
        {"awsElasticBlockStore": {"volumeID": volume_id}},
        {"azureDisk": {"diskName": shared, "diskURI": f"/disks/{shared}", "kind": kind}},
        {"cinder": {"volumeID": shared}},
        {"portworxVolume": {"volumeID": shared}},
        {"hostPath": {"path": "/data"}},
    ]
    if chance(rng, 0.35):
        return rng.choice(in_tree)
    handle = name if chance(rng, 0.8) else "same"
    return {"csi": {"driver": rng.choice([CSI, CSI, OTHER_CSI]), "volumeHandle": handle}}


def _term(rng: Random, names: list[str]) -> Object:
    rows: list[Object] = [
        {"key": ZONE, "operator": "In", "values": some(rng, ZONES, 1, 2)},
        {"key": HOSTNAME, "operator": "In", "values": some(rng, names, 1, 2)},
        {"key": ZONE, "operator": "NotIn", "values": some(rng, ZONES, 1, 2)},
        {"key": BETA_ZONE, "operator": "In", "values": some(rng, ZONES, 1, 2)},
        {"key": ZONE, "operator": "Exists"},
        {"key": "rack", "operator": rng.choice(["Gt", "Lt"]), "values": ["2"]},
        {"key": rng.choice(CSI_ZONES), "operator": "In", "values": some(rng, ZONES, 1, 2)},
    ]
    beta = {"key": BETA_REGION, "operator": "In", "values": some(rng, ["eu-a", "us-b"], 1, 2)}
    some_rows = some(rng, rows, 0 if chance(rng, 0.05) else 1, 2)
    term: Object = {"matchExpressions": [rows[3], beta] if chance(rng, 0.1) else some_rows}
    if chance(rng, 0.05):
        values = [rng.choice(names)]
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": values}]
    return term


def _refer(volume: Object, claim: Object, uid: str) -> None:
    names = {key: claim["metadata"][key] for key in ("name", "namespace")}
    volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **names, "uid": uid}


def _attachment(rng: Random, number: int, volumes: list[Object], names: list[str]) -> Object:
    volume = rng.choice(volumes) if volumes and chance(rng, 0.95) else {"metadata": {"name": "x"}}
    driver = volume.get("spec", {}).get("csi", {}).get("driver", CSI)
    spec: Object = {
        "attacher": driver if chance(rng, 0.8) else rng.choice([CSI, OTHER_CSI, ""]),
        "nodeName": rng.choice(names),
        "source": {"persistentVolumeName": volume["metadata"]["name"]},
    }
    return {"metadata": {"name": f"attachment{number}"}, "spec": spec}


def _pod(rng: Random, name: str, claims: list[Object], *, waits: bool = False) -> Object:
    names = [one["metadata"]["name"] for one in claims]
    used = some(rng, names, 1 if waits and chance(rng, 0.85) else 0, 3)
    if waits and chance(rng, 0.01):
        used.append("missing")
    volumes: list[Object] = [
        {"name": f"v{place}", "persistentVolumeClaim": {"claimName": one}}
        for place, one in enumerate(used)
    ]
    if chance(rng, 0.12):
        volumes.insert(0, {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    if chance(rng, 0.5):
        volumes += [{"name": f"d{place}", **_disk(rng)} for place in range(rng.choice([1, 1, 2]))]
    volumes.append({"name": "token", "projected": {"sources": []}})
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = {"containers": [{"name": "c", "image": "small"}], "volumes": volumes}
    return {"metadata": metadata, "spec": spec}


def _disk(rng: Random) -> Object:
    """A disk that a pod names itself."""
    name, read_only = rng.choice(["disk1", "disk1", "disk2"]), {"readOnly": chance(rng, 0.4)}
    azure = {"diskName": name, "diskURI": f"/disks/{name}", "kind": "Managed"}
    monitors = some(rng, ["m1", "m2", "m3"], 1, 2)
    return rng.choice(
        [
            {"gcePersistentDisk": {"pdName": name, **read_only}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}", **read_only}},
            {"iscsi": {"targetPortal": "t", "iqn": name, "lun": 0, **read_only}},
            {"rbd": {"monitors": monitors, "pool": "rbd", "image": name, **read_only}},
            {"azureDisk": azure},
            {"cinder": {"volumeID": name}},
            {"portworxVolume": {"volumeID": name}},
        ]
    )


def _ephemeral_claims(rng: Random, pod: Object, waits: bool) -> list[Object]:
    """The claims that were made for a pod, now and then one that is another's."""
    metadata = pod["metadata"]
    if not any("ephemeral" in one for one in pod["spec"]["volumes"]) or chance(rng, 0.1):
        return []
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "controller": True}
    uid, claim = metadata["uid"], _claim(rng, 0, ["n1"], CLASSES)
    claim["metadata"] |= {
        "name": f"{metadata['name']}-scratch",
        "uid": f"uid-{metadata['name']}-scratch",
        "ownerReferences": [{**owner, "uid": "x" if waits and chance(rng, 0.1) else uid}],
    }
    if "volumeName" in claim["spec"]:
        claim["spec"]["volumeName"] = "v0"
    return [claim]
