import dataclasses

from koord_host.knobs.table import KNOBS
from koord_model.resources import RESOURCE_FIELDS, SCALARS, LinuxResources
from koord_proto import hook_pb2, nri_pb2


def test_the_table_and_the_maps_are_all_fields() -> None:
    fields = {field.name for field in dataclasses.fields(LinuxResources)}
    assert {*SCALARS, "hugepage_limits", "unified"} == fields
    assert all(getattr(LinuxResources(), name) is None for name in SCALARS)


def test_the_hook_protocol_has_these_fields() -> None:
    described = hook_pb2.LinuxContainerResources.DESCRIPTOR.fields_by_name
    assert {one.cri for one in RESOURCE_FIELDS} == {*described} - {"hugepage_limits", "unified"}
    texts = {name for name, field in described.items() if field.type == field.TYPE_STRING}
    assert {one.cri for one in RESOURCE_FIELDS if one.text} == texts


def test_nri_has_these_fields_but_the_oom_score() -> None:
    resources = nri_pb2.LinuxResources.DESCRIPTOR.fields_by_name
    for section, key in filter(None, (one.oci for one in RESOURCE_FIELDS)):
        assert key in resources[section].message_type.fields_by_name
    assert [one.name for one in RESOURCE_FIELDS if one.oci is None] == ["oom_score_adj"]


def test_each_knob_is_a_row_of_the_table_of_knobs() -> None:
    assert {one.knob for one in RESOURCE_FIELDS} - {""} <= KNOBS.keys()
