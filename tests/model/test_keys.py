from koord_model import keys


def test_keys_are_spelled_as_koordinator_spells_them() -> None:
    assert keys.LABEL_QOS == "koordinator.sh/qosClass"
    assert keys.ANNOTATION_EXTENDED_RESOURCE_SPEC == "node.koordinator.sh/extended-resource-spec"
    assert keys.ANNOTATION_RESOURCE_STATUS == "scheduling.koordinator.sh/resource-status"
    assert (keys.BATCH_CPU, keys.BATCH_MEMORY) == (
        "kubernetes.io/batch-cpu",
        "kubernetes.io/batch-memory",
    )
