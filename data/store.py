"""Token ids kept in Arrow files: memory-mapped, written atomically, checked when opened."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from data.errors import DuetError
from data.files import replacing

Ids = Sequence[list[int]]


class Table:
    """Pairs of token ids: `table[i]` is (source ids, target ids), two numpy views into the Arrow buffers."""

    def __init__(self, batches: list[pa.RecordBatch]):
        sizes = [len(batch) for batch in batches]
        self._starts = np.cumsum([0, *sizes])
        self._sources = [_views(batch.column("src")) for batch in batches]
        self._targets = [_views(batch.column("tgt")) for batch in batches]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        batch = int(np.searchsorted(self._starts, row, side="right")) - 1
        place = row - int(self._starts[batch])
        return _slice(self._sources[batch], place), _slice(self._targets[batch], place)

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each source and of each target, int32."""
        return _lengths(self._sources), _lengths(self._targets)


class MappedTable(Table):
    """A table in a file. Another process that needs it maps the file again."""

    def __init__(self, path: Path):
        with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
            super().__init__([reader.get_batch(i) for i in range(reader.num_record_batches)])
        self._path = path

    def __reduce__(self):
        return MappedTable, (self._path,)


Views = tuple[np.ndarray, np.ndarray]  # offsets, values


def _views(column: pa.ListArray) -> Views:
    return column.offsets.to_numpy(), column.values.to_numpy()


def _slice(views: Views, place: int) -> np.ndarray:
    offsets, values = views
    return values[offsets[place] : offsets[place + 1]]


def _lengths(chunks: list[Views]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int32), *(np.diff(offsets) for offsets, _ in chunks)])


def record_batch(sources: Ids, targets: Ids, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(sources, schema.types[0]), pa.array(targets, schema.types[1])], schema=schema)


def schema(source_vocabulary: int, target_vocabulary: int) -> pa.Schema:
    return pa.schema([("src", _ids_type(source_vocabulary)), ("tgt", _ids_type(target_vocabulary))])


def _ids_type(vocabulary: int) -> pa.DataType:
    return pa.list_(pa.uint16() if vocabulary <= 2**16 else pa.int32())


# The cache: `<key>.arrow` and, written after it, `<key>.json` with its checksum and an account of what is in it.


def cached_table(
    folder: Path, key: str, schema: pa.Schema, build: Callable[[], tuple[Iterable[pa.RecordBatch], dict]]
) -> tuple[Table, dict]:
    """The table stored under `key`, built first where it is missing or damaged.

    build: record batches, and a dict that is complete when the last batch has been taken.
    """
    arrow, note = folder / f"{key}.arrow", folder / f"{key}.json"
    account = _stored_account(arrow, note)
    if account is None:
        batches, account = build()
        with caching(arrow) as path, pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with caching(note) as path:
            path.write_text(json.dumps({"checksum": _checksum(arrow), "account": account}))
    return MappedTable(arrow), account


def _stored_account(arrow: Path, note: Path) -> dict | None:
    try:
        stored = json.loads(note.read_text())
        return stored["account"] if stored["checksum"] == _checksum(arrow) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _checksum(path: Path) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


@contextmanager
def caching(path: Path) -> Iterator[Path]:
    """`replacing` for a file of the cache, whose folder is made. Raises DuetError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            yield unfinished
    except OSError as error:
        raise DuetError(
            f"cannot write {path}: {error.strerror or error}; data.cache_dir or the environment variable DUET_CACHE"
            " names another folder"
        ) from None
