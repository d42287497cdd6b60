"""Files that are written as a whole, or not at all, and what tells two of them apart."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of `path` at the end, all at once, or leaves nothing behind."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            unfinished.unlink()


def write_text(path: Path, text: str) -> None:
    """A reader never sees half a file."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, values: dict) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def digest(lines: Iterable[str]) -> str:
    """SHA-256 of lines."""
    result = hashlib.sha256()
    for line in lines:
        result.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return result.hexdigest()


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        result = hashlib.sha256()
        while block := file.read(2**20):
            result.update(block)
    return result.hexdigest()
