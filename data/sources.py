"""Where sentence pairs come from. A source is an iterable of `Pair` and nothing else."""

import gzip
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from data.errors import DuetError, Missing

if TYPE_CHECKING:
    import datasets

BOM = "\ufeff"


class Pair(NamedTuple):
    src: str
    tgt: str


# Lines


def find(root: str | Path | None, file: str, *suffixes: str) -> Path:
    """The first of `{root}/{file}`, the same with `.gz`, and both with each suffix, that is a file."""
    if root is None:
        raise Missing("data.root is null: name the folder of the corpus")
    path = Path(root) / file
    names = [path.name, *(path.name + suffix for suffix in suffixes)]
    for name in names:
        for candidate in (path.with_name(name), path.with_name(name + ".gz")):
            if candidate.is_file():
                return candidate
    raise Missing(f"file missing: {path.with_name(names[-1])} (with or without .gz)")


def read_lines(path: str | Path) -> Iterator[str]:
    """Lines of a UTF-8 file (`.gz` too), as `decoded` reads them."""
    try:
        with gzip.open(path) if Path(path).suffix == ".gz" else open(path, "rb") as file:
            yield from decoded(file, path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DuetError(f"{path} is damaged or cut off: {error}") from None
    except OSError as error:
        raise DuetError(f"cannot read {path}: {error.strerror or error}") from None


def decoded(lines: Iterable[bytes], where: str | Path) -> Iterator[str]:
    """Lines of UTF-8, split at `\\n` only; a `\\r` before it and a byte order mark go. where: to name them in errors."""
    for number, raw in enumerate(lines, 1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DuetError(f"{where}, line {number}: not UTF-8 ({error.reason} at byte {error.start})") from None
        yield (line.removeprefix(BOM) if number == 1 else line).removesuffix("\n").removesuffix("\r")


def _not_empty(pairs: Iterable[Pair], where: str | Path) -> Iterator[Pair]:
    pair = None
    for pair in pairs:
        yield pair
    if pair is None:
        raise DuetError(f"{where} is empty: a corpus needs at least one line")


# Plain text


class TwoFiles:
    """Line n of one file with line n of the other."""

    def __init__(self, source: str | Path, target: str | Path):
        self.source, self.target = Path(source), Path(target)

    def __iter__(self) -> Iterator[Pair]:
        return _not_empty(self._pairs(), self.source)

    def _pairs(self) -> Iterator[Pair]:
        sources, targets = read_lines(self.source), read_lines(self.target)
        pairs = 0
        for source in sources:
            target = next(targets, None)
            if target is None:
                raise self._unequal(pairs + 1 + _count(sources), pairs)
            yield Pair(source, target)
            pairs += 1
        if surplus := _count(targets):
            raise self._unequal(pairs, pairs + surplus)

    def _unequal(self, sources: int, targets: int) -> DuetError:
        return DuetError(
            f"{self.source} has {sources} lines, {self.target} has {targets}: line n of one is the translation"
            " of line n of the other, so both need the same number"
        )


class PairedText(TwoFiles):
    """`{root}/{file}.{source_column}` and `{root}/{file}.{target_column}`, one sentence a line."""

    def __init__(self, root: str, file: str, *, source_column: str, target_column: str):
        super().__init__(find(root, f"{file}.{source_column}"), find(root, f"{file}.{target_column}"))


class SpacedText(TwoFiles):
    """`{root}/{file}/{source_column}[.txt]` and the same of the target, a blank between any two characters: blanks go.

    So the public sets of couplets are laid out, with train/ and test/. Where `valid` is no folder of its own, about
    `held_back` pairs of `train`, a tenth at most, are that split and not `train`; equal sources stay together.
    """

    def __init__(self, root: str, file: str, *, source_column: str, target_column: str, held_back: int = 2000):
        shares = file in ("train", "valid") and root is not None and not (Path(root) / "valid").is_dir()
        self.file, self.held_back = file, held_back if shares else 0
        folder = "train" if self.held_back else file
        super().__init__(*(find(root, f"{folder}/{column}", ".txt") for column in (source_column, target_column)))

    def _pairs(self) -> Iterator[Pair]:
        pairs = (Pair(*("".join(text.split()) for text in pair)) for pair in super()._pairs())
        if not self.held_back:
            return pairs
        bound = 2**32 * min(self.held_back / max(_count(read_lines(self.source)), 1), 0.1)
        return (pair for pair in pairs if (zlib.crc32(pair.src.encode()) < bound) == (self.file == "valid"))


def _count(lines: Iterable[str]) -> int:
    return sum(1 for _ in lines)


# Tab-separated values


class Tsv:
    """`{root}/{file}[.tsv]`, split at tabs, without quoting.

    Columns are names in the header line; where both are numbers (from 0), the file has no header.
    An empty line is a blank pair.
    """

    def __init__(self, root: str, file: str, *, source_column: str | int, target_column: str | int):
        self.path = find(root, file, ".tsv")
        self.columns = (source_column, target_column)
        for column in self.columns:
            if isinstance(column, int) and column < 0:
                raise DuetError(f"{self.path} has no column {column}: they are counted from 0")

    def __iter__(self) -> Iterator[Pair]:
        return _not_empty(self._pairs(), self.path)

    def _pairs(self) -> Iterator[Pair]:
        lines = enumerate(read_lines(self.path), 1)
        header = None if all(isinstance(column, int) for column in self.columns) else next(lines, (1, ""))[1]
        source, target = self.columns if header is None else self._places(header.split("\t"))
        needed = max(source, target) + 1 if header is None else header.count("\t") + 1
        for number, line in lines:
            fields = line.split("\t")
            if not line:
                yield Pair("", "")
            elif len(fields) < needed or (header is not None and len(fields) > needed):
                raise DuetError(f"{self.path}, line {number}: {len(fields)} fields where {needed} are expected")
            else:
                yield Pair(fields[source], fields[target])

    def _places(self, names: list[str]) -> list[int]:
        for column in self.columns:
            if str(column) not in names:
                raise DuetError(f"{self.path} has no column {column!r}: there are {', '.join(names)}")
        return [names.index(str(column)) for column in self.columns]


# JSON lines


class Jsonl:
    """`{root}/{file}[.jsonl]`, one object a line; `translation.en` names a key of a nested object."""

    def __init__(self, root: str, file: str, *, source_column: str, target_column: str):
        self.path = find(root, file, ".jsonl", ".json")
        self.columns = (source_column, target_column)

    def __iter__(self) -> Iterator[Pair]:
        return _not_empty(self._pairs(), self.path)

    def _pairs(self) -> Iterator[Pair]:
        for number, line in enumerate(read_lines(self.path), 1):
            where = f"{self.path}, line {number}"
            record = _parse(line, where) if line.strip() else None
            yield Pair(*("" if record is None else _text(record, column, where) for column in self.columns))


def _parse(line: str, where: str) -> dict:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise DuetError(f"{where}: not JSON ({error})") from None
    except RecursionError:
        raise DuetError(f"{where}: brackets are nested too deeply") from None
    if not isinstance(record, dict):
        raise DuetError(f"{where}: {type(record).__name__} where an object is expected")
    return record


def _text(record: dict, column: str, where: str) -> str:
    """The text of one column on one line: line breaks inside it become blanks; null is a blank text."""
    value = _lookup(record, str(column), where)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DuetError(f"{where}: {column!r} is {type(value).__name__} where text is expected")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise DuetError(f"{where}: {column!r} holds half a surrogate pair, which is no character") from None
    return value.replace("\r\n", " ").replace("\n", " ")


def _lookup(record: dict, column: str, where: str) -> Any:
    translation = record.get("translation")
    for place in (record, translation if isinstance(translation, dict) else {}):
        if column in place:
            return place[column]
    value = record
    for key in column.split("."):
        if not isinstance(value, dict) or key not in value:
            raise DuetError(f"{where} has no column {column!r}: there are {', '.join(_columns(record))}")
        value = value[key]
    return value


def _columns(record: dict) -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from (f"{name}.{key}" for key in value)
        else:
            yield name


# One column of a file


def column_of(lines: Iterator[str], column: str | int, where: str) -> Iterator[str]:
    """The text in that column of each line: a key of JSON where the file's name (`where`) says so, or says nothing and the
    first line is an object of JSON; else tab-separated values.

    There a number counts from 0, and a name is looked up in the first line, which is none of the lines then. An empty line
    is a blank text.
    """
    first = next(lines, None)
    lines = itertools.chain([] if first is None else [first], lines)
    name = where.removesuffix(".gz")
    if name.endswith((".jsonl", ".json")) or (not name.endswith(".tsv") and _is_object(first or "")):
        for number, line in enumerate(lines, 1):
            here = f"{where}, line {number}"
            yield _text(_parse(line, here), str(column), here) if line.strip() else ""
        return
    place, start = column, 1
    if isinstance(column, str):
        names, start = next(lines, "").split("\t"), 2
        if column not in names:
            raise DuetError(f"{where} has no column {column!r}: there are {', '.join(names)}")
        place = names.index(column)
    for number, line in enumerate(lines, start):
        fields = line.split("\t")
        if line and not 0 <= place < len(fields):
            raise DuetError(f"{where}, line {number}: no column {place}, it has {len(fields)}, counted from 0")
        yield fields[place] if line else ""


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


# Hugging Face datasets


class Hub:
    """Split `file` of `root`: a data set's name on the Hub, or a local folder or file in a format of `datasets`.

    Locally, in this order: a folder written by `save_to_disk` (one of several splits, or a single one), `{root}/{file}` with
    the ending .parquet, .csv, .json or .jsonl, also with .gz, then what `datasets` finds there. `config` is the Hub's.
    """

    def __init__(
        self, root: str, file: str, *, source_column: str, target_column: str, config: str | None = None
    ):
        self.where = f"{root}, split {file}"
        self.columns = (str(source_column), str(target_column))
        with _one_line_errors(self.where):
            self._rows = _load_rows(str(root), file, config)

    def __iter__(self) -> Iterator[Pair]:
        return _not_empty(self._pairs(), self.where)

    def _pairs(self) -> Iterator[Pair]:
        with _one_line_errors(self.where):
            for number, record in enumerate(_records(self._rows)):
                where = f"{self.where}, row {number}"
                yield Pair(*(_text(record, column, where) for column in self.columns))


VALIDATION = ("validation", "valid", "val", "dev")  # names of one split
BUILDERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


def _load_rows(root: str, file: str, config: str | None) -> "datasets.Dataset | datasets.IterableDataset":
    import datasets  # takes a second

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # what fails is raised as well
    path = Path(root)
    if not path.exists():
        return datasets.load_dataset(root, config, split=file)
    if saved := _saved_to_disk(path, file):
        return datasets.load_from_disk(str(saved))
    if found := _data_file(path, file):
        builder = BUILDERS[found.with_suffix("").suffix if found.suffix == ".gz" else found.suffix]
        split = "train" if path.is_file() else file
        files = {split: str(found.resolve())}
        return datasets.load_dataset(builder, data_files=files, split=file, streaming=True, **_options(builder))
    builder = "csv" if any(path.rglob("*.csv*")) else ""
    folder = str(path.resolve())
    splits = datasets.get_dataset_split_names(folder)
    split = next((name for name in _names(file) if name in splits), None)
    if split is None:
        raise Missing(f"{root} has no split {file!r}: there are {', '.join(splits)}")
    return datasets.load_dataset(folder, split=split, streaming=True, **_options(builder))


def _names(split: str) -> tuple[str, ...]:
    return (split, *VALIDATION) if split in VALIDATION else (split,)


def _saved_to_disk(root: Path, file: str) -> Path | None:
    for name in _names(file):
        if (root / name / "state.json").is_file():
            return root / name
    if (root / "dataset_dict.json").is_file():
        splits = json.loads((root / "dataset_dict.json").read_text())["splits"]
        raise Missing(f"{root} has no split {file!r}: there are {', '.join(splits)}")
    if not (root / "state.json").is_file():
        return None
    split = json.loads((root / "state.json").read_text()).get("_split") or "train"
    if split != file:
        raise Missing(f"{root} has no split {file!r}: there is {split}")
    return root


def _data_file(root: Path, file: str) -> Path | None:
    if root.is_file():
        return root
    names = [f"{file}{ending}{packed}" for ending in BUILDERS for packed in ("", ".gz")]
    return next((root / name for name in names if (root / name).is_file()), None)


def _options(builder: str) -> dict:
    return {"keep_default_na": False} if builder == "csv" else {}  # the sentence "None" is a sentence


def _records(rows: "datasets.Dataset | datasets.IterableDataset") -> Iterator[dict]:
    for columns in rows.iter(batch_size=1000):
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


@contextmanager
def _one_line_errors(where: str) -> Iterator[None]:
    try:
        yield
    except DuetError:
        raise
    except Exception as error:  # `datasets` and what it calls raise of every kind
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        kind = Missing if isinstance(error, FileNotFoundError | ConnectionError) else DuetError
        raise kind(f"cannot read {where}: {reason}") from None


# The built-in corpus


class BuiltIn:
    """The grammar of `data/grammar.py`: split `file`, English (`en`) to German (`de`) or back. It is in no folder."""

    LANGUAGES = ("en", "de")

    def __init__(self, root: str | None, file: str, *, source_column: str, target_column: str, seed: int = 1):
        from data.grammar import SPLITS

        if root is not None:
            raise DuetError(f"data.root is {root}, but the built-in corpus has none: choose other data, or data.root=null")
        if file not in SPLITS:
            raise DuetError(f"the built-in corpus has no split {file!r}: there are {', '.join(SPLITS)}")
        for column in (source_column, target_column):
            if column not in self.LANGUAGES:
                raise DuetError(f"the built-in corpus has no column {column!r}: there are {', '.join(self.LANGUAGES)}")
        self.file, self.seed = file, seed
        self.places = [self.LANGUAGES.index(column) for column in (source_column, target_column)]

    def __iter__(self) -> Iterator[Pair]:
        from data.grammar import Grammar

        source, target = self.places
        return (Pair(pair[source], pair[target]) for pair in Grammar(self.file, seed=self.seed))

    def alignments(self) -> list[tuple[tuple[int, int], ...]]:
        """The gold word alignment of each pair: (source word, target word) from 0, words split at blanks."""
        from data.grammar import Grammar

        pairs = Grammar(self.file, seed=self.seed).alignments()
        return [tuple(sorted((link[self.places[0]], link[self.places[1]]) for link in pair)) for pair in pairs]
