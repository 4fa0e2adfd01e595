import errno

import pytest
from koord_host.planning.desired_values import Target
from koord_host.planning.outcomes import EMPTY, Outcome, Result, Retry, Round, retry


@pytest.mark.parametrize(
    ("code", "when"),
    [
        (errno.EBUSY, Retry.SOON),
        (errno.EAGAIN, Retry.SOON),
        (errno.EINVAL, Retry.REFRESH),
        (errno.EACCES, Retry.REFRESH),
        (errno.ENOENT, Retry.NEVER),
        (errno.ENODEV, Retry.NEVER),
        (errno.EXDEV, Retry.REFRESH),
        (0, Retry.REFRESH),
    ],
)
def test_the_rule_by_errno(code: int, when: Retry) -> None:
    assert retry(code) is when


def test_a_round_says_what_is_new() -> None:
    target = Target("g", "cpu.shares")
    old = Result(target, Outcome.REFUSED, news=False)
    new = Result(target, Outcome.WRITTEN)
    found = Round((old, new))
    assert found.news == (new,)
    assert EMPTY.news == ()
