from koord_model import keys


def test_those_of_nodes_and_devices_too() -> None:
    named = {name: value for name, value in vars(keys).items() if name.isupper()}
    assert {value.partition("/")[0] for value in named.values()} <= {
        *(
            "cpu",
            "memory",
            "hugepages-",
            "kubernetes.io",
            "huawei.com",
            "pykoord",
            "koordinator.sh",
        ),
        *("kubelet.koordinator.sh", "node.koordinator.sh", "scheduling.koordinator.sh"),
        *("pod.koordinator.sh", "quota.scheduling.koordinator.sh", "config.koordinator.sh"),
        *("analysis.koordinator.sh", "metrics.koordinator.sh", "hami.io"),
        *("gang.scheduling.koordinator.sh", "pod-group.scheduling.sigs.k8s.io"),
        *("internal.scheduling.koordinator.sh", "nvidia.com", "amd.com", "dcu.com"),
        *("katalyst.kubewharf.io", "tracing.pykoord.io"),
    }
    assert keys.ANNOTATION_CPU_QOS == "koordinator.sh/cpuQOS"
    assert keys.ANNOTATION_DEVICE_ALLOCATED == "scheduling.koordinator.sh/device-allocated"
    assert keys.ANNOTATION_BE_CPU_SHARED_POOLS == "node.koordinator.sh/be-cpu-shared-pools"
    assert keys.ANNOTATION_CPU_MANAGER_POLICY == "kubelet.koordinator.sh/cpu-manager-policy"
    assert keys.ANNOTATION_CPU_BURST == "koordinator.sh/cpuBurst"
    assert keys.ANNOTATION_MEMORY_QOS == "koordinator.sh/memoryQOS"
    assert keys.ANNOTATION_BLKIO_QOS == "koordinator.sh/blkioQOS"
    assert keys.LABEL_EVICTION_ENABLED == "koordinator.sh/eviction-enabled"
    assert keys.ANNOTATION_EVICTION_COST == "scheduling.koordinator.sh/eviction-cost"
    assert keys.LABEL_CORE_SCHED_POLICY == "koordinator.sh/core-sched-policy"
    assert len(set(named.values())) == len(named)
