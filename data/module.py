"""Sentence pairs of a corpus, cleaned, tokenized and served in batches."""

import functools
import hashlib
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import lightning
import numpy as np
import pyarrow as pa
import torch
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader, Dataset

from data import store
from data.batching import Batch, TokenBuckets, collate
from data.cleaning import Cleaning, as_bytes, new_account
from data.errors import DuetError
from data.sources import Pair
from data.tokenizer import Tokenizer, restore

FORMAT = 1  # of what is cached: raise it when the same input would be stored otherwise
CHUNK = 10_000  # pairs tokenized at once

Source = Callable[..., Iterable[Pair]]
MakeTokenizer = Callable[[Iterable[str]], Tokenizer]


class PairData(lightning.LightningDataModule):
    """Everything between files and `Batch`.

    Splits are called `train`, `valid` and `test`; any other name is a file's own. The training split is cleaned; the others
    keep every line.

    source: `(root, file, *, source_column, target_column) -> pairs`. train_file: several are read one after the other.
    make_src_tokenizer, make_tgt_tokenizer: `(texts) -> Tokenizer`; with `shared`, where the two are the same, one is
        trained on both sides.
    tokenizers: trained ones, for source and target, to use instead; the training split is then needed only for training.

    src_tokenizer, tgt_tokenizer: known after `setup`; the same object where shared.
    account: pairs of the training split read, kept, and dropped by reason.
    max_source, max_target: tokens after which evaluation splits are cut (targets for the loss only); set them before
        `loader` is called where the model cannot take `max_length`.
    """

    def __init__(
        self,
        source: Source,
        make_src_tokenizer: MakeTokenizer,
        make_tgt_tokenizer: MakeTokenizer,
        *,
        shared: bool = True,
        root: str | None = None,
        train_file: str | list[str] = "train",
        valid_file: str | None = "valid",
        test_file: str | list[str] | None = "test",
        source_column: str | int = "en",
        target_column: str | int = "de",
        max_tokens: int = 2048,
        batch_size: int = 64,
        max_length: int = 256,
        max_ratio: float | None = 9.0,
        drop_duplicates: bool = False,
        num_workers: int = 0,
        cache_dir: str | None = None,
        seed: int = 1,
        tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    ):
        super().__init__()
        _check_counts(max_tokens=max_tokens, batch_size=batch_size, max_length=max_length)
        self._open = functools.partial(source, root, source_column=source_column, target_column=target_column)
        tests = _as_list(test_file)
        self._files = {"train": _as_list(train_file), "valid": _as_list(valid_file), "test": tests[:1]}
        if not self._files["train"]:
            raise DuetError("data.train_file is an empty list: name at least one file")
        self.test_splits = ["test", *tests[1:]] if tests else []
        for place, name in enumerate(tests[1:]):
            if name in tests[1 : place + 1] or self._files.get(name, [name]) != [name]:
                told = f"data.test_file has {name!r} behind its first file, but a split is called so already"
                raise DuetError(f"{told}: put it first, or give the file another name")
        self._make_tokenizers = (make_src_tokenizer, make_tgt_tokenizer)
        self._shared = shared and _recipe(make_src_tokenizer) == _recipe(make_tgt_tokenizer)
        self.src_tokenizer, self.tgt_tokenizer = tokenizers or (None, None)
        self._max_tokens, self._batch_size, self._num_workers, self._seed = max_tokens, batch_size, num_workers, seed
        self._cleaning = Cleaning(max_length, max_ratio, drop_duplicates)
        self.max_source = self.max_target = max_length
        self._cache = Path(cache_dir or os.environ.get("DUET_CACHE") or ".cache")
        self.account: dict[str, int] = {}
        self._train: store.Table | None = None
        self._tables: dict[str, store.Table] = {}
        self._texts: dict[str, list[Pair]] = {}
        self._warned: set[tuple[str, int]] = set()

    # Lightning's hooks

    def prepare_data(self) -> None:
        """Cleans, trains tokenizers and tokenizes, and prints the account; finds faults in evaluation splits early."""
        evaluating = self.trainer is not None and self.trainer.state.fn != TrainerFn.FITTING
        if evaluating or self._train is not None:
            return
        for split in ("valid", *self.test_splits):
            if self._files_of(split):
                self.sources(split)
        self._load_training()
        _say(f"training pairs of {self._title('train')}", *self._cleaning.report(self.account))

    def setup(self, stage: str | None = None) -> None:
        if stage in ("fit", None):
            self._load_training()
        self._load_tokenizers()

    def check_training(self) -> None:
        """Raises DuetError where a training pair is longer than max_source or max_target, which a model may have lowered."""
        self._load_training()
        sides = zip(("source", "target"), self._train.lengths(), (self.max_source, self.max_target))
        for side, lengths, limit in sides:
            if lengths.max(initial=0) > limit:
                raise DuetError(
                    f"the longest training {side} has {lengths.max()} tokens, the model has places for {limit} and EOS: "
                    f"raise model.max_positions, or lower data.max_length to {limit}"
                )

    def train_dataloader(self) -> DataLoader:
        self._load_training()
        rank, world_size = self._rank()
        batches = TokenBuckets(
            *self._train.lengths(), max_tokens=self._max_tokens, seed=self._seed, rank=rank, world_size=world_size
        )
        if self.trainer is not None:
            _resume(batches, self.trainer)
        return self._loader(Rows(self._train), batches)

    def val_dataloader(self) -> DataLoader | list:
        return self.loader("valid", mixed=True) if self._files_of("valid") else []

    def test_dataloader(self) -> DataLoader | list:
        return self.loader("test", mixed=True) if self._files_of("test") else []

    # Evaluation

    def loader(self, split: str, *, batch_size: int | None = None, mixed: bool = False) -> DataLoader:
        """Batches of at most `batch_size` sentences of any split, unfiltered, the longest sources first.

        mixed: the batches in another order, always the same one, so that the first of them are like the whole. Every device
        gets as many batches, and each sentence goes to one of them. Raises DuetError where there are more devices than
        sentences.
        """
        self._load_tokenizers()
        table = self._evaluation_table(split)
        lengths = table.lengths()[0]
        self._warn_of_cuts(split, lengths)
        order = np.argsort(-np.minimum(lengths, self.max_source), kind="stable")
        rank, world_size = self._rank()
        if len(order) < world_size:
            raise DuetError(f"{split} has {len(order)} sentences for {world_size} devices: lower trainer.devices")
        count = -(-len(order) // (batch_size or self._batch_size))
        count = min(count + -count % world_size, len(order) // world_size * world_size)  # and none is empty
        batches = [part.tolist() for part in np.array_split(order, count)]
        if mixed:
            batches = [batches[place] for place in np.random.default_rng(1).permutation(count)]
        return self._loader(Rows(table, self.max_source, self.max_target), batches[rank::world_size])

    def sources(self, split: str) -> list[str]:
        """Source text of an evaluation split, in file order."""
        return [pair.src for pair in self._pairs(split)]

    def references(self, split: str) -> list[str]:
        """Target text of an evaluation split, in file order."""
        return [pair.tgt for pair in self._pairs(split)]

    def alignments(self, split: str) -> list[tuple[tuple[int, int], ...]] | None:
        """The gold word alignment of each pair of a split; None where one of its files has none."""
        known = [getattr(source, "alignments", None) for source in map(self._open, self._files_of(split))]
        return [pair for alignments in known for pair in alignments()] if known and None not in known else None

    def add_split(self, name: str, pairs: Iterable[Pair]) -> None:
        """Makes `pairs` the evaluation split `name`."""
        self._texts[name] = list(pairs)
        self._tables.pop(name, None)

    def _pairs(self, split: str) -> list[Pair]:
        if split not in self._texts:
            self._texts[split] = list(self._read(split))
        return self._texts[split]

    def _evaluation_table(self, split: str) -> store.Table:
        if split not in self._tables:
            batches = []
            for rows in self._tokenized(self._pairs(split)):
                _, sources, targets = zip(*rows, strict=True)
                batches.append(store.record_batch(sources, targets, self._schema()))
            self._tables[split] = store.Table(batches)
        return self._tables[split]

    def _warn_of_cuts(self, split: str, lengths: np.ndarray) -> None:
        cut = int((lengths > self.max_source).sum())
        if cut and (split, self.max_source) not in self._warned:
            self._warned.add((split, self.max_source))
            message = f"{cut} of {len(lengths)} sources of {split} are longer than {self.max_source} tokens and cut there"
            _say(f"warning: {message}", file=sys.stderr)

    # Training

    def _load_tokenizers(self) -> None:
        if self.src_tokenizer is None:
            self.src_tokenizer, self.tgt_tokenizer = self._trained_tokenizers()

    def _trained_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        make_src, make_tgt = self._make_tokenizers
        if self._shared:
            both = self._trained_tokenizer(make_src, (0, 1))
            return both, both
        return self._trained_tokenizer(make_src, (0,)), self._trained_tokenizer(make_tgt, (1,))

    def _trained_tokenizer(self, make: MakeTokenizer, sides: Sequence[int]) -> Tokenizer:
        path = self._cache / "tokenizers" / f"{_key(self._train_digest, _recipe(make), list(sides))}.pt"
        state = _load_state(path)
        if state is None:
            texts = (pair[side] for pair in self._read("train") for side in sides if pair[side].strip())
            state = make(texts).state()
            content = io.BytesIO()
            torch.save(state, content)  # it has no words of its own for a disk that is full
            with store.caching(path) as unfinished:
                unfinished.write_bytes(content.getbuffer())
        return restore(state)

    def _load_training(self) -> None:
        if self._train is not None:
            return
        self._load_tokenizers()
        tokenizers = [_state_key(tokenizer) for tokenizer in (self.src_tokenizer, self.tgt_tokenizer)]
        key = _key(self._train_digest, asdict(self._cleaning), tokenizers)
        self._train, self.account = store.cached_table(self._cache / "tokenized", key, self._schema(), self._clean)
        if not len(self._train):
            raise DuetError(f"no pair is left to train on: {_in_words(self.account)}")
        if np.maximum(*self._train.lengths()).max() >= self._max_tokens:
            self._name_too_long_a_pair()

    def _clean(self) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        account = new_account()
        return self._kept_batches(account), account

    def _kept_batches(self, account: dict[str, int]) -> Iterator[pa.RecordBatch]:
        duplicates = self._cleaning.duplicates(self._read("train"))
        for rows in self._tokenized(self._read("train")):
            sources, targets = [], []
            for pair, source, target in rows:
                fault = self._cleaning.fault(pair, source, target)
                if fault is None and duplicates is not None and duplicates[account["read"]]:
                    fault = "duplicate"
                account["read"] += 1
                account[fault or "kept"] += 1
                if fault is None:
                    sources.append(source)
                    targets.append(target)
            yield store.record_batch(sources, targets, self._schema())

    def _name_too_long_a_pair(self) -> None:
        rows = itertools.chain.from_iterable(self._tokenized(self._read("train")))
        for number, (pair, source, target) in enumerate(rows, 1):
            length = max(len(source), len(target)) + 1
            if length > self._max_tokens and self._cleaning.fault(pair, source, target) is None:
                raise DuetError(
                    f"pair {number} of {self._title('train')} is {length} tokens long (BOS or EOS included), data.max_tokens"
                    f" is {self._max_tokens}: raise it, or lower data.max_length={self._cleaning.max_length}"
                )

    @functools.cached_property
    def _train_digest(self) -> str:
        """A hash of all text of the training split."""
        digest = hashlib.sha256()
        for pair in self._read("train"):
            digest.update(as_bytes(pair))
        return digest.hexdigest()

    # Parts

    def _files_of(self, split: str) -> list[str]:
        return self._files.get(split, [split])

    def _title(self, split: str) -> str:
        """A split's files, in words."""
        return " and ".join(self._files_of(split))

    def _read(self, split: str) -> Iterable[Pair]:
        """One file after the other; a missing one is told before any is read."""
        files = self._files_of(split)
        if not files:
            raise DuetError(f"there is no split {split!r}: data.{split}_file is null, name a file")
        return itertools.chain.from_iterable([self._open(file) for file in files])

    def _tokenized(self, pairs: Iterable[Pair]) -> Iterator[list[tuple[Pair, list[int], list[int]]]]:
        """Lists of (pair, source ids, target ids); a blank text has no ids, whatever blanks it is made of."""
        for chunk in _chunks(pairs):
            sources, targets = ([text if text.strip() else "" for text in texts] for texts in zip(*chunk, strict=True))
            ids = self.src_tokenizer.encode_all(sources), self.tgt_tokenizer.encode_all(targets)
            yield list(zip(chunk, *ids, strict=True))

    def _schema(self) -> pa.Schema:
        return store.schema(len(self.src_tokenizer), len(self.tgt_tokenizer))

    def _rank(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer is not None else (0, 1)

    def _loader(self, rows: "Rows", batches: Iterable[list[int]]) -> DataLoader:
        return DataLoader(
            rows,
            batch_sampler=batches,
            collate_fn=_collate,
            num_workers=self._num_workers,
            persistent_workers=self._num_workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator().manual_seed(self._seed),  # iterating must not draw from the global one
        )


def _resume(batches: TokenBuckets, trainer: lightning.Trainer) -> None:
    """Goes on where the trainer's progress, restored from a checkpoint or not, says that training is.

    Lightning counts an epoch that ended half-way (`max_steps`, `max_time`) as a whole one and, when it resumes, does the
    rest of its batches under the next number. The batches seen in all tell the real epoch.
    """
    fit = trainer.fit_loop
    seen = fit.epoch_loop.batch_progress
    limit = trainer.limit_train_batches
    batches_per_epoch = min(len(batches), limit) if isinstance(limit, int) else int(len(batches) * limit)
    skip = seen.current.ready if fit.restarting else 0
    epoch = (seen.total.ready - skip) // max(1, batches_per_epoch)
    if skip >= batches_per_epoch:
        skip = len(batches)
    batches.resume(epoch=epoch, skip=skip, shift=epoch - fit.epoch_progress.current.processed)


class Rows(Dataset):
    """(source ids, target ids, place) of each pair of a table, cut where they are too long."""

    def __init__(self, table: store.Table, max_source: int | None = None, max_target: int | None = None):
        self._table, self._max_source, self._max_target = table, max_source, max_target

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray, int]:
        source, target = self._table[row]
        return source[: self._max_source], target[: self._max_target], row


def _collate(rows: list[tuple[np.ndarray, np.ndarray, int]]) -> Batch:
    sources, targets, index = zip(*rows, strict=True)
    return collate(list(zip(sources, targets, strict=True)), index)


def _as_list(files: str | list[str] | None) -> list[str]:
    return [files] if isinstance(files, str) else list(files or [])


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or value < 1:
            raise DuetError(f"data.{name} is {value!r}: it must be a whole number from 1 on")


@rank_zero_only
def _say(*lines: str, file: TextIO | None = None) -> None:
    print(*lines, sep="\n", file=file, flush=True)


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk


# Keys of the cache


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True).encode()).hexdigest()[:32]


def _recipe(make: MakeTokenizer) -> list:
    """What a tokenizer's factory would do, as plain values: its name and options."""
    function = make.func if isinstance(make, functools.partial) else make
    options = make.keywords if isinstance(make, functools.partial) else {}
    return [function.__module__, function.__qualname__, options]


def _in_words(account: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in account.items())


def _state_key(tokenizer: Tokenizer) -> str:
    state = {name: value.hex() if isinstance(value, bytes) else value for name, value in tokenizer.state().items()}
    return _key(state)


def _load_state(path: Path) -> dict | None:
    try:
        state = torch.load(path, weights_only=True)
        restore(state)
        return state
    except Exception:  # missing, cut off, damaged: whatever it is, it is made again
        return None
