"""Several processes give the same results in the same order, and a dead one is an error of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from oresmith.errors import OresmithError
from oresmith.evaluation.workers import in_order


def squared(number: int) -> int:
    return number * number


def refused(number: int) -> int:
    raise OresmithError("no such number", got=str(number))


def killed(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items(workers: int):
    assert list(in_order(squared, range(20), workers)) == [number * number for number in range(20)]
    assert list(in_order(squared, [], workers)) == []


def test_items_are_read_only_as_they_are_needed():
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000):
            read.append(number)
            yield number

    results = in_order(squared, items(), 2)
    assert next(results) == 0
    assert len(read) < 20
    results.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_work_refuses_is_refused_here(workers: int):
    with pytest.raises(OresmithError, match="no such number"):
        list(in_order(refused, [7], workers))


def test_a_killed_process_is_told_as_such():
    with pytest.raises(OresmithError, match="a worker process was killed"):
        list(in_order(killed, [1], 2))
