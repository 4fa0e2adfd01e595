"""Controllers look again and again, and what fails is tried again."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import pytest
from koord_kube.protocol.api import ApiError, ConflictError, NotFoundError, NotLeadingError
from koord_kube.shared_backoff import SharedBackoff
from koord_scheduler.io.controller_loop import run_controller

from tests.support.waiting import until


class Controller:
    """Has nothing to do but ``a``, once, which fails at first."""

    name = "letters"
    every = 0.005

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.looks = 0
        self.done: list[str] = []

    def due(self) -> Iterable[str]:
        self.looks += 1
        return ["a"] if self.looks == 1 else []

    async def reconcile(self, key: str) -> None:
        if self.errors:
            raise self.errors.pop()
        self.done.append(key)


@pytest.mark.parametrize("error", [ApiError("no answer"), ApiError("broken", 500)])
async def test_what_fails_is_tried_again(error: ApiError) -> None:
    controller, warnings = Controller(error), list[str]()
    async with anyio.create_task_group() as group:
        group.start_soon(run_controller, controller, SharedBackoff(), warnings.append)
        await until(lambda: controller.done == ["a"])
        await until(lambda: controller.looks > 2)
        group.cancel_scope.cancel()
    assert str(error) in warnings[0]


@pytest.mark.parametrize(
    "error", [ConflictError("newer", 409), NotFoundError("gone", 404), NotLeadingError("another")]
)
async def test_what_changed_meanwhile_is_left_to_the_next_look(error: ApiError) -> None:
    controller, warnings = Controller(error), list[str]()
    async with anyio.create_task_group() as group:
        group.start_soon(run_controller, controller, SharedBackoff(), warnings.append)
        await until(lambda: controller.looks > 2)
        group.cancel_scope.cancel()
    assert (controller.errors, controller.done, warnings) == ([], [], [])
