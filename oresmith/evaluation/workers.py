"""A function over a stream of items, in this process or in several; results come in the order of the items."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from oresmith.blocks.lifeline import end_with, identity
from oresmith.errors import OresmithError

Item = TypeVar("Item")
Result = TypeVar("Result")
_AHEAD = 3
"""Items a worker that wait or are done before their turn; bounds memory."""


def in_order(work: Callable[[Item], Result], items: Iterable[Item], workers: int = 1) -> Iterator[Result]:
    """The result of each item, in their order.

    Args:
        work: a function of a module; its results can be pickled.
        items: read as they are needed.
        workers: processes; 1 is this one.

    Raises:
        OresmithError: a worker was killed; and whatever `work` raises.
    """
    if workers <= 1:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("spawn")  # direct children: their CPU time is counted
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=end_with, initargs=(identity(),))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= _AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise OresmithError(
            "a worker process was killed",
            got="no error of its own: most likely the system ran out of memory",
            todo="use fewer workers, and run the same command again",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
