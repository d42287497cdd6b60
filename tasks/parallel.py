"""Batches of a search, several at a time.

On a CPU a step of a search is many small operations, which two threads together do hardly faster than one. So batches are
searched side by side instead, each by one thread; PyTorch lets others run while it computes.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item, Result = TypeVar("Item"), TypeVar("Result")
MOST = 4  # more threads wait for Python more than they compute


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], device: torch.device | str) -> Iterator[Result]:
    """work(item) of each item, in order; on a CPU, as many at once as torch has threads, up to MOST."""
    threads = torch.get_num_threads()
    workers = min(threads, MOST) if torch.device(device).type == "cpu" else 1
    items = iter(items)
    known = list(itertools.islice(items, 2))
    if workers == 1 or len(known) < 2:
        yield from map(work, itertools.chain(known, items))
        return
    pool, pending = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)), deque()
    try:
        for item in itertools.chain(known, items):
            pending.append(pool.submit(work, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # some of its libraries have one number for all threads
