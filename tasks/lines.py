"""Lines of text into a command and out of it: from stdin or a file, to stdout or a file."""

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omegaconf import DictConfig

from data.errors import DuetError
from data.files import write_json
from data.sources import column_of, decoded, read_lines

FIRST_WINDOW = 1  # lines; each window is twice as long as the one before, so that the first results come at once
HEAD = 16  # lines of an input that it is known again by


# Reading


def lines_of(config: DictConfig) -> Iterator[str]:
    """The texts to translate, one a line of the input."""
    where = "stdin" if config.input is None else config.input
    lines = decoded(sys.stdin.buffer, where) if config.input is None else read_lines(config.input)
    return lines if config.get("column") is None else column_of(lines, config.column, where)


def begun(lines: Iterator[str], count: int = 1) -> tuple[list[str], Iterator[str]]:
    """The first lines, and all of them. They have been read, so that a file that is not there is told before anything is
    written.
    """
    first = list(itertools.islice(lines, count))
    return first, itertools.chain(first, lines)


def typed(config: DictConfig) -> bool:
    """Whether a person writes the lines."""
    if config.input is None and sys.stdin is None:
        raise DuetError("stdin is closed: give input=FILE")
    return config.input is None and sys.stdin.isatty()


def terminal_asks(config: DictConfig) -> bool:
    """Whether a person writes the lines and reads the answers, as text: a conversation."""
    read = config.output is None and sys.stdout is not None and sys.stdout.isatty()
    return typed(config) and read and config.format == "text"


def windows(lines: Iterator[str], largest: int) -> Iterator[list[str]]:
    """Lists of lines to be sorted by length: short at first, then longer, up to `largest`."""
    size = min(FIRST_WINDOW, largest)
    while window := list(itertools.islice(lines, size)):
        yield window
        size = min(2 * size, largest)


# Writing


@contextmanager
def piped() -> Iterator[None]:
    """For all that a command writes: its end, without an error, where nobody reads stdout any more (… | head)."""
    try:
        yield
        if sys.stdout is not None:  # closed, with output=FILE
            sys.stdout.flush()
    except BrokenPipeError:
        _stop_telling()


def say(text: str) -> None:
    """Prints at once. Where nobody reads stdout any more, the work goes on all the same."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _stop_telling()


def _stop_telling() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Output:
    """Where lines go: stdout, or a file that is `.<name>.part` until all is written, so that it is never mistaken for whole.

    resume: goes on with such a part; None: this command cannot, and begins anew. source: the file that is read. origin: all
    that the lines depend on, by name. It is kept beside the part, as `.<name>.part.json`, which is gone on with for the same
    origin only. What is no ordinary file (a pipe, a device) is written to as it is.
    """

    def __init__(
        self, path: str | None, *, resume: bool | None = None, source: str | None = None, origin: dict | None = None
    ):
        self.path = Path(path) if path is not None else None
        self.part, self.done = None, 0  # lines that an interrupted run has written
        if self.path is None:
            if resume:
                raise DuetError("resume=true goes on with a file: give output=FILE")
            if sys.stdout is None:
                raise DuetError("stdout is closed: give output=FILE")
            self.file: BinaryIO = sys.stdout.buffer
        elif self.path.exists() and not self.path.is_file():
            if resume or self.path.is_dir():
                raise DuetError(f"output={path} is no ordinary file{': it cannot be gone on with' if resume else ''}")
            self.file = open(self.path, "wb")  # noqa: SIM115  closed by `close`
        else:
            self.path = self.path.resolve()  # a link stays a link
            if self.path.suffix == ".gz":
                raise DuetError(f"output={path}: what is written is plain text; leave out output and pipe it through gzip")
            if source is not None and self.path == Path(source).resolve():
                raise DuetError(f"input and output are the same file, {path}")
            self.part = self.path.with_name(f".{self.path.name}.part")
            self.record = self.part.with_name(f"{self.part.name}.json")
            self._open(resume, origin)

    def _open(self, resume: bool | None, origin: dict | None) -> None:
        there = self.part.exists() and self.part.stat().st_size > 0
        if there and resume is False:
            raise DuetError(f"{self.part} is left from a run that was interrupted: go on with resume=true, or remove it")
        if there and origin is not None and self.record.exists():
            self._compare(origin)
        self.file = open(self.part, "r+b" if there and resume else "w+b")  # noqa: SIM115  closed by `close`
        whole = 0
        for line in self.file:
            if line.endswith(b"\n"):
                whole += len(line)
                self.done += 1
        self.file.seek(whole)
        self.file.truncate()
        if origin is not None and not there:
            write_json(self.record, origin)

    def _compare(self, origin: dict) -> None:
        """Raises DuetError where the part is of another origin, as far as both are known."""
        try:
            known = json.loads(self.record.read_text(encoding="utf-8"))
        except ValueError:
            known = None
        new = json.loads(json.dumps(origin))
        if not isinstance(known, dict):
            raise DuetError(f"{self.record} is damaged: nothing tells what {self.part} was begun with; remove one of the two")
        other = [name for name, value in new.items() if name in known and known[name] != value]
        if other:
            raise DuetError(f"{self.part} was begun with another {', '.join(other)}: go on with the same, or remove it")

    def write(self, lines: Iterable[str]) -> None:
        self.file.write("".join(line + "\n" for line in lines).encode("utf-8"))
        self.file.flush()

    def close(self) -> None:
        """All is written."""
        if self.path is not None:
            self.file.close()
        if self.part is not None:
            os.replace(self.part, self.path)
            self.record.unlink(missing_ok=True)
