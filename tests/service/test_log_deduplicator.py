from koord_service.log_deduplicator import LogDeduplicator


def test_a_line_is_new_once_until_all_is_well() -> None:
    lines = LogDeduplicator()
    assert lines.is_new("pod", "defect")
    assert not lines.is_new("pod", "defect")
    assert lines.is_new("pod", "other")
    lines.clear()
    assert lines.is_new("pod", "defect")
