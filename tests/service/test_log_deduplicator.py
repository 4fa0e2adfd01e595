from koord_service.log_deduplicator import LastingProblems, LogDeduplicator


def test_a_line_is_new_once_until_all_is_well() -> None:
    lines = LogDeduplicator()
    assert lines.is_new("pod", "defect")
    assert not lines.is_new("pod", "defect")
    assert lines.is_new("pod", "other")
    lines.clear()
    assert lines.is_new("pod", "defect")


def test_a_lasting_problem_is_new_once_and_again_after_its_end() -> None:
    problems = LastingProblems()
    said = ["slow", "slow", "gone", "", "gone"]
    assert [problems.is_new("a", reason) for reason in said] == [True, False, True, False, True]
    problems.is_new("b", "slow")
    problems.keep({"b"})
    assert (problems.is_new("a", "gone"), problems.is_new("b", "slow")) == (True, False)
