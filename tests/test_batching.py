import numpy as np
import pytest
import torch

from data.batching import TokenBuckets, collate
from data.errors import DuetError
from data.tokenizer import BOS, EOS, PAD


def lengths(rows=3000, seed=0, longest=90):
    rng = np.random.default_rng(seed)
    sources = np.minimum(rng.gamma(4, 4, rows).astype(np.int32) + 1, longest)
    return sources, np.clip(sources + rng.integers(-4, 5, rows), 1, longest).astype(np.int32)


def buckets(sources, targets, **options):
    return TokenBuckets(sources, targets, **{"max_tokens": 500, "seed": 1, **options})


def epoch(batches, number):
    batches.set_epoch(number)
    return list(batches)


# Collating


def test_a_batch():
    batch = collate([([5, 6], [7]), ([8], [9, 10, 11])], [3, 1])
    assert batch.src.tolist() == [[5, 6, EOS], [8, EOS, PAD]]
    assert batch.src_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.tgt.tolist() == [[BOS, 7, PAD, PAD], [BOS, 9, 10, 11]]
    assert batch.gold.tolist() == [[7, EOS, PAD, PAD], [9, 10, 11, EOS]]
    assert batch.index.tolist() == [3, 1]
    assert [tensor.dtype for tensor in batch] == [torch.int64, torch.bool, *[torch.int64] * 3]


def test_blank_rows():
    batch = collate([([], []), ([5], [])], [0, 1])
    assert batch.src.tolist() == [[EOS, PAD], [5, EOS]]
    assert batch.tgt.tolist() == [[BOS], [BOS]]
    assert batch.gold.tolist() == [[EOS], [EOS]]


def test_rows_may_be_lists_or_arrays_of_any_integer():
    rows = [([5, 300], [7]), ([8], [9, 60_000])]
    arrays = [(np.array(source, np.uint16), np.array(target, np.uint16)) for source, target in rows]
    for one, other in zip(collate(rows, [0, 1]), collate(arrays, np.array([0, 1])), strict=True):
        assert torch.equal(one, other)


def test_any_batch_is_shifted_and_padded_right():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = [(rng.integers(4, 99, rng.integers(0, 9)), rng.integers(4, 99, rng.integers(0, 9))) for _ in range(7)]
        batch = collate(rows, range(7))
        for row, (source, target) in enumerate(rows):
            assert batch.src[row][batch.src_mask[row]].tolist() == [*source, EOS]
            gold, tgt = batch.gold[row], batch.tgt[row]
            assert gold[gold != PAD].tolist() == [*target, EOS]
            assert tgt[tgt != PAD].tolist() == [BOS, *target]
            assert (gold != PAD).tolist() == (tgt != PAD).tolist()
        assert (batch.src_mask == (batch.src != PAD)).all()


# Batches


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("max_tokens", [91, 200, 2000])
def test_every_row_once_and_no_batch_too_large(seed, max_tokens):
    sources, targets = lengths(seed=seed)
    batches = epoch(buckets(sources, targets, max_tokens=max_tokens), 0)
    assert sorted(row for batch in batches for row in batch) == list(range(len(sources)))
    longest = np.maximum(sources, targets) + 1
    assert max(len(batch) * longest[batch].max() for batch in batches) <= max_tokens


def test_batches_are_full_and_of_similar_length():
    sources, targets = lengths(rows=20_000)
    batches = epoch(buckets(sources, targets, max_tokens=2000), 0)
    longest = np.maximum(sources, targets) + 1
    filled = sum(longest.sum() for longest in [longest[batch] for batch in batches]) / (2000 * len(batches))
    assert filled > 0.9
    padded = sum(len(batch) * (sources[batch].max() + targets[batch].max() + 2) for batch in batches)
    assert (sources.sum() + targets.sum() + 2 * len(sources)) / padded > 0.85


def test_batches_depend_on_seed_and_epoch_alone():
    one, other = buckets(*lengths()), buckets(*lengths())
    np.random.seed(5), torch.manual_seed(5)
    assert epoch(one, 3) == epoch(other, 3)
    epoch(other, 8)
    assert epoch(one, 3) == epoch(one, 3) == epoch(other, 3)
    assert epoch(one, 3) != epoch(one, 4)
    assert epoch(one, 3) != epoch(buckets(*lengths(), seed=2), 3)


def test_epochs_differ_in_rows_and_in_order_but_not_in_number():
    batches = buckets(*lengths())
    first, second = epoch(batches, 0), epoch(batches, 1)
    assert len(first) == len(second) == len(batches)
    together = {frozenset(batch) for batch in first}
    assert sum(frozenset(batch) in together for batch in second) < len(second) / 10
    assert [len(batch) for batch in first] != [len(batch) for batch in second]


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_ranks_share_an_epoch(world_size):
    whole = epoch(buckets(*lengths()), 2)
    ranks = [buckets(*lengths(), rank=rank, world_size=world_size) for rank in range(world_size)]
    parts = [epoch(rank, 2) for rank in ranks]
    assert {len(part) for part in parts} == {len(ranks[0])} == {len(whole) // world_size}
    rows = [row for part in parts for batch in part for row in batch]
    assert len(rows) == len(set(rows))
    assert all(batch in whole for part in parts for batch in part)


def test_a_resumed_epoch_goes_on_where_it_stopped():
    batches = buckets(*lengths())
    whole, following = epoch(batches, 3), epoch(batches, 4)
    resumed = buckets(*lengths())
    resumed.resume(epoch=3, skip=5)
    assert len(resumed) == len(whole)
    assert list(resumed) == epoch(resumed, 3) == whole[5:]
    assert epoch(resumed, 4) == following
    assert epoch(resumed, 3) == whole  # what is skipped is skipped once
    resumed.resume(epoch=3, skip=5, shift=-1)
    assert epoch(resumed, 4) == whole[5:] and epoch(resumed, 5) == following


def test_a_row_too_long_is_named():
    sources, targets = lengths()
    targets[17] = 500
    with pytest.raises(DuetError, match="row 17 is 501 tokens long .*max_tokens is 500"):
        buckets(sources, targets)
    targets[17] = 499
    assert sum(len(batch) for batch in buckets(sources, targets)) == len(sources)


def test_too_few_batches_or_rows():
    few = np.array([3, 4], np.int32)
    with pytest.raises(DuetError, match="1 batches cannot feed 2 devices"):
        buckets(few, few, world_size=2)
    with pytest.raises(DuetError, match="no training pair"):
        buckets(few[:0], few[:0])


def test_a_million_rows_stay_small_and_quick():
    import time
    import tracemalloc

    sources, targets = lengths(rows=1_000_000)
    tracemalloc.start()
    batches = buckets(sources, targets, max_tokens=2000)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    start = time.perf_counter()
    next(iter(batches))
    assert kept < 12e6  # bytes
    assert time.perf_counter() - start < 5
