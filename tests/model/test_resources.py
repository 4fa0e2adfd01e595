import dataclasses

from koord_model.resources import SCALARS, TEXTS, LinuxResources


def test_scalars_and_maps_are_all_fields() -> None:
    fields = {field.name for field in dataclasses.fields(LinuxResources)}
    assert {*SCALARS, "hugepage_limits", "unified"} == fields
    assert set(SCALARS) >= TEXTS


def test_every_field_is_unset_at_first() -> None:
    assert all(getattr(LinuxResources(), name) is None for name in SCALARS)
