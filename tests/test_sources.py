import gzip
import json

import pytest

from data.errors import DuetError, Missing
from data.sources import BuiltIn, Hub, Jsonl, Pair, PairedText, SpacedText, Tsv, TwoFiles, read_lines

COLUMNS = {"source_column": "en", "target_column": "de"}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def error_of(make):
    """The message of the mistake that reading shows: one line."""
    message = str(fault_of(make))
    assert "\n" not in message
    return message


def fault_of(make):
    with pytest.raises(DuetError) as raised:
        list(make())
    return raised.value


# Lines


@pytest.mark.parametrize("content, lines", [
    ("a\nb\n", ["a", "b"]),
    ("a\nb", ["a", "b"]),                                       # no final newline
    ("a\r\nb\r\n", ["a", "b"]),
    ("a\r\r\nb\rc\n", ["a\r", "b\rc"]),                         # one \r goes, and only before \n
    ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),                   # a byte order mark, and what is none
    ("\n\na\n\n", ["", "", "a", ""]),
    ("", []),
    ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\n", ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"]),
    (" a\u00a0b\tc \n", [" a\u00a0b\tc "]),
    ("a\x00b\n", ["a\x00b"]),
])  # fmt: skip
@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_lines(tmp_path, name, content, lines):
    assert list(read_lines(write(tmp_path / name, content))) == lines


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_invalid_utf8_names_file_and_line(tmp_path, name):
    path = write(tmp_path / name, b"good\n\xc3\xa4\nb\xffd\nmore\n")
    assert error_of(lambda: read_lines(path)).startswith(f"{path}, line 3: not UTF-8")


@pytest.mark.parametrize("damage", [
    lambda packed: packed[: len(packed) // 2],
    lambda packed: b"no gzip at all",
    lambda packed: packed[:40] + bytes(40) + packed[80:],
    lambda packed: packed[:-8] + bytes(8),
])  # fmt: skip
def test_damaged_gz_names_the_file(tmp_path, damage):
    text = "".join(f"line {number * 7919 % 1000}\n" for number in range(1000))
    path = tmp_path / "text.gz"
    path.write_bytes(damage(gzip.compress(text.encode())))
    assert str(path) in error_of(lambda: read_lines(path))


def test_lines_are_streamed(tmp_path):
    path = write(tmp_path / "text", b"first\n\xff\n")
    assert next(read_lines(path)) == "first"


# Paired text


def paired(root, file="train"):
    return PairedText(str(root), file, **COLUMNS)


@pytest.mark.parametrize("endings", [("en", "de"), ("en.gz", "de"), ("en.gz", "de.gz")])
def test_paired_text(tmp_path, endings):
    folder = tmp_path / "a folder with blanks 语料"
    write(folder / f"train.{endings[0]}", "one\n\ntab\there\n")
    write(folder / f"train.{endings[1]}", "eins\nzwei\n\n")
    source = paired(folder)
    expected = [Pair("one", "eins"), Pair("", "zwei"), Pair("tab\there", "")]
    assert list(source) == expected
    assert list(source) == expected  # again from the beginning


def test_direction_is_configuration(tmp_path):
    write(tmp_path / "train.en", "one\n")
    write(tmp_path / "train.de", "eins\n")
    assert list(PairedText(tmp_path, "train", source_column="de", target_column="en")) == [("eins", "one")]


def test_a_missing_file_is_named(tmp_path):
    write(tmp_path / "train.en", "one\n")
    assert f"file missing: {tmp_path}/train.de" in error_of(lambda: paired(tmp_path))
    assert "data.root is null" in error_of(lambda: PairedText(None, "train", **COLUMNS))
    assert "cannot read" in error_of(lambda: TwoFiles(tmp_path, tmp_path))


@pytest.mark.parametrize("lines", [(100, 99), (99, 100), (3, 0), (0, 3)])
def test_unequal_files_are_named_with_their_counts(tmp_path, lines):
    for language, count in zip(("en", "de"), lines, strict=True):
        write(tmp_path / f"train.{language}", "x\n" * count)
    message = error_of(lambda: paired(tmp_path))
    for language, count in zip(("en", "de"), lines, strict=True):
        assert f"{tmp_path}/train.{language} has {count}" in message


def test_an_empty_corpus(tmp_path):
    write(tmp_path / "train.en", "")
    write(tmp_path / "train.de", "")
    assert f"{tmp_path}/train.en is empty" in error_of(lambda: paired(tmp_path))


# Text with a blank between any two characters


def spaced(root, file="train", held_back=2000):
    return SpacedText(str(root), file, source_column="in", target_column="out", held_back=held_back)


def write_spaced(folder, count):
    lines = [chr(0x4E00 + number // 3) + " " + chr(0x4E00) for number in range(count)]
    for name in ("in", "out"):
        write(folder / f"{name}.txt", "".join(line + " \n" for line in lines))
    return [Pair(*2 * (line.replace(" ", ""),)) for line in lines]


@pytest.mark.parametrize("content, text", [
    ("晚 风 摇 树 \n", "晚风摇树"),
    ("晚 风 ， 摇 树\r\n", "晚风，摇树"),
    ("晚风摇树\n", "晚风摇树"),
    ("晚\u3000风\t摇  树\n", "晚风摇树"),
    ("\ufeff晚 风\n", "晚风"),
    ("\n", ""),
])  # fmt: skip
@pytest.mark.parametrize("ending", ["", ".txt", ".txt.gz"])
def test_blanks_between_characters_go(tmp_path, content, text, ending):
    for name in ("in", "out"):
        write(tmp_path / "test" / f"{name}{ending}", content)
    write(tmp_path / "vocabs", "<s>\n</s>\n")
    assert list(spaced(tmp_path, "test")) == [(text, text)]


def test_a_validation_split_is_held_back_where_there_is_none(tmp_path):
    pairs = write_spaced(tmp_path / "train", 30_000)
    train, valid = (list(spaced(tmp_path, file)) for file in ("train", "valid"))
    assert abs(len(valid) - 2000) < 150
    assert sorted(train + valid) == sorted(pairs)
    assert not {pair.src for pair in train} & {pair.src for pair in valid}
    assert len(list(spaced(tmp_path, "valid", held_back=20_000))) < 3600  # a tenth at most


def test_a_validation_split_of_its_own_is_taken(tmp_path):
    pairs = write_spaced(tmp_path / "train", 300)
    assert list(spaced(tmp_path, held_back=0)) == pairs
    assert "file missing: " + str(tmp_path / "valid/in.txt") in error_of(lambda: spaced(tmp_path, "valid", held_back=0))
    own = write_spaced(tmp_path / "valid", 10)
    assert list(spaced(tmp_path)) == pairs
    assert list(spaced(tmp_path, "valid")) == own


def test_mistakes_of_spaced_text(tmp_path):
    assert "data.root is null" in error_of(lambda: SpacedText(None, "train", source_column="in", target_column="out"))
    write_spaced(tmp_path / "train", 300)
    write(tmp_path / "train/out.txt", "一\n" * 299)
    for file in ("train", "valid"):
        assert "in.txt has 300 lines" in error_of(lambda file=file: spaced(tmp_path, file))


# Tab-separated values


def tsv(root, source="en", target="de", file="train"):
    return Tsv(str(root), file, source_column=source, target_column=target)


@pytest.mark.parametrize("content, pairs", [
    ("en\tde\none\teins\n", [("one", "eins")]),
    ("de\ten\neins\tone\n", [("one", "eins")]),
    ("id\tde\ten\r\n1\teins\tone\r\n", [("one", "eins")]),
    ("\ufeffen\tde\none\teins", [("one", "eins")]),
    ('en\tde\n"one\t"two" three\n', [('"one', '"two" three')]),  # quotes are text
    ("en\tde\n\teins\none\t\n\n", [("", "eins"), ("one", ""), ("", "")]),
    ("en\tde\na\u2028b\tc\x85d\n", [("a\u2028b", "c\x85d")]),
])  # fmt: skip
@pytest.mark.parametrize("name", ["train", "train.tsv", "train.tsv.gz"])
def test_tsv(tmp_path, name, content, pairs):
    write(tmp_path / name, content)
    assert list(tsv(tmp_path)) == pairs


def test_tsv_without_a_header(tmp_path):
    write(tmp_path / "train.tsv", "1\tone\teins\n2\ttwo\tzwei\textra\n")
    assert list(tsv(tmp_path, 1, 2)) == [("one", "eins"), ("two", "zwei")]
    assert list(tsv(tmp_path, 2, 1)) == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize("content, columns, message", [
    ("en\tfr\na\tb\n", ("en", "de"), "train.tsv has no column 'de': there are en, fr"),
    ("en\tde\na\tb\nc\n", ("en", "de"), "train.tsv, line 3: 1 fields where 2 are expected"),
    ("en\tde\na\tb\tc\n", ("en", "de"), "train.tsv, line 2: 3 fields where 2 are expected"),
    ("a\tb\nc\n", (0, 1), "train.tsv, line 2: 1 fields where 2 are expected"),
    ("en\tde\n", ("en", "de"), "train.tsv is empty"),
    ("", ("en", "de"), "train.tsv has no column 'en'"),
    (b"en\tde\n\xff\tb\n", ("en", "de"), "train.tsv, line 2: not UTF-8"),
])  # fmt: skip
def test_tsv_mistakes(tmp_path, content, columns, message):
    path = write(tmp_path / "train.tsv", content)
    found = error_of(lambda: tsv(tmp_path, *columns))
    assert message in found and str(path) in found


def test_a_missing_tsv_is_named(tmp_path):
    assert f"file missing: {tmp_path}/train.tsv" in error_of(lambda: tsv(tmp_path))


# JSON lines


def jsonl(root, source="en", target="de"):
    return Jsonl(str(root), "train", source_column=source, target_column=target)


@pytest.mark.parametrize("record, pair", [
    ({"en": "one", "de": "eins", "id": 3}, ("one", "eins")),
    ({"translation": {"en": "one", "de": "eins"}}, ("one", "eins")),
    ({"en": None, "de": ""}, ("", "")),
    ({"en": "two\nlines\r\nhere", "de": "a\u2028b\tc"}, ("two lines here", "a\u2028b\tc")),
])  # fmt: skip
@pytest.mark.parametrize("name", ["train", "train.jsonl", "train.json", "train.jsonl.gz"])
def test_jsonl(tmp_path, name, record, pair):
    write(tmp_path / name, json.dumps(record) + "\n")
    assert list(jsonl(tmp_path)) == [pair]


def test_jsonl_columns_inside_objects(tmp_path):
    write(tmp_path / "train.jsonl", '{"text": {"en": "one", "de": "eins"}, "a.b": "dot"}\n\n')
    assert list(jsonl(tmp_path, "text.en", "text.de")) == [("one", "eins"), ("", "")]
    message = error_of(lambda: jsonl(tmp_path, "a.b", "text.fr"))
    assert message == f"{tmp_path}/train.jsonl, line 1 has no column 'text.fr': there are text.en, text.de, a.b"


@pytest.mark.parametrize("content, message", [
    ('{"en": "a", "de": "b"}\n{"en": "a", \n', "train.jsonl, line 2: not JSON"),
    ('["a", "b"]\n', "train.jsonl, line 1: list where an object is expected"),
    ('{"en": "a"}\n', "train.jsonl, line 1 has no column 'de': there are en"),
    ('{"en": "a", "de": 5}\n', "train.jsonl, line 1: 'de' is int where text is expected"),
    ('{"en": "a", "de": "\\ud800"}\n', "train.jsonl, line 1: 'de' holds half a surrogate pair"),
    ("", "train.jsonl is empty"),
])  # fmt: skip
def test_jsonl_mistakes(tmp_path, content, message):
    write(tmp_path / "train.jsonl", content)
    assert message in error_of(lambda: jsonl(tmp_path))


# Hugging Face datasets

ROWS = [{"en": "one\u2028here", "de": '"eins"'}, {"en": "None", "de": "NA"}, {"en": "", "de": "drei"}]
PAIRS = [(row["en"], row["de"]) for row in ROWS]


@pytest.fixture
def dataset():
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_list(ROWS)


def hub(root, file="train", source="en", target="de", **options):
    return Hub(str(root), file, source_column=source, target_column=target, **options)


def test_hub_reads_what_save_to_disk_writes(tmp_path, dataset):
    import datasets

    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset, valid=dataset).save_to_disk(tmp_path / "splits")
    assert list(hub(tmp_path / "one")) == PAIRS
    assert list(hub(tmp_path / "splits")) == PAIRS
    assert list(hub(tmp_path / "splits", "validation")) == PAIRS  # valid, val and dev are names of it
    assert "has no split 'test': there are train, valid" in error_of(lambda: hub(tmp_path / "splits", "test"))
    assert "has no split 'test': there is train" in error_of(lambda: hub(tmp_path / "one", "test"))


def test_hub_reads_a_translation_feature(tmp_path, dataset):
    import datasets

    features = datasets.Features({"translation": datasets.Translation(languages=["en", "de"])})
    datasets.Dataset.from_list([{"translation": row} for row in ROWS], features=features).save_to_disk(tmp_path / "t")
    assert list(hub(tmp_path / "t")) == PAIRS
    assert list(hub(tmp_path / "t", source="translation.de", target="translation.en")) == [pair[::-1] for pair in PAIRS]
    assert "row 0 has no column 'fr': there are" in error_of(lambda: hub(tmp_path / "t", source="fr"))


@pytest.mark.parametrize("ending, packed", [("parquet", ""), ("csv", ""), ("csv", ".gz"), ("json", ""), ("jsonl", ".gz")])
def test_hub_reads_files(tmp_path, dataset, ending, packed):
    getattr(dataset, f"to_{ending.removesuffix('l')}")(tmp_path / "plain")
    path = write(tmp_path / "folder" / f"train.{ending}{packed}", (tmp_path / "plain").read_bytes())
    assert list(hub(tmp_path / "folder")) == PAIRS
    assert list(hub(path)) == PAIRS
    assert "Available splits" in error_of(lambda: hub(path, "test"))


def test_hub_reads_a_folder_as_datasets_does(tmp_path, dataset):
    (tmp_path / "data").mkdir()
    dataset.to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    dataset.to_parquet(tmp_path / "data" / "valid-00000-of-00001.parquet")
    assert list(hub(tmp_path)) == list(hub(tmp_path, "valid")) == list(hub(tmp_path, "validation")) == PAIRS


def test_what_is_not_there_can_be_told_from_what_is_damaged(tmp_path, dataset, monkeypatch):
    dataset.save_to_disk(tmp_path / "saved")
    (tmp_path / "folder").mkdir()
    dataset.to_parquet(tmp_path / "folder" / "train-00000-of-00001.parquet")
    (tmp_path / "nothing").mkdir()
    write(tmp_path / "damaged/train.parquet", "no parquet")
    assert isinstance(fault_of(lambda: PairedText(tmp_path, "train", **COLUMNS)), Missing)
    assert isinstance(fault_of(lambda: hub(tmp_path / "saved", "test")), Missing)
    told = fault_of(lambda: hub(tmp_path / "folder", "test"))
    assert isinstance(told, Missing) and str(told) == f"{tmp_path}/folder has no split 'test': there are train"
    assert isinstance(fault_of(lambda: hub(tmp_path / "nothing")), Missing)
    assert not isinstance(fault_of(lambda: hub(tmp_path / "damaged")), Missing)

    def unreachable(name, config, *, split):
        raise ConnectionError("Couldn't reach it")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    assert isinstance(fault_of(lambda: hub("nobody/nothing")), Missing)


def test_hub_mistakes(tmp_path, dataset, monkeypatch):
    write(tmp_path / "train.parquet", "no parquet")
    assert "cannot read" in error_of(lambda: hub(tmp_path))

    def unreachable(name, config, *, split):
        raise ConnectionError(f"Couldn't reach {name} {config}\non the Hub")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    message = error_of(lambda: hub("nobody/nothing", config="de-en"))
    assert message == "cannot read nobody/nothing, split train: Couldn't reach nobody/nothing de-en"


# The built-in corpus


def test_the_built_in_corpus_in_both_directions():
    forth = list(BuiltIn(None, "valid", **COLUMNS))
    back = list(BuiltIn(None, "valid", source_column="de", target_column="en"))
    assert forth and back == [pair[::-1] for pair in forth]
    assert "data.root is /a, but the built-in corpus has none: choose other data" in error_of(
        lambda: BuiltIn("/a", "valid", **COLUMNS)
    )
    assert "no split 'dev': there are train, valid" in error_of(lambda: BuiltIn(None, "dev", **COLUMNS))
    assert "no column 'fr': there are en, de" in error_of(
        lambda: BuiltIn(None, "valid", source_column="fr", target_column="de")
    )
