import errno
import functools
import inspect
import itertools
import subprocess
import sys
import warnings
from pathlib import Path

import lightning
import numpy as np
import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from data import store
from data.errors import DuetError
from data.module import PairData
from data.sources import BuiltIn, Pair, PairedText
from data.tokenizer import EOS, PAD, Characters, SentencePiece

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def no_cache_of_the_user(monkeypatch):
    monkeypatch.delenv("DUET_CACHE", raising=False)


def write(root, file, pairs):
    root.mkdir(parents=True, exist_ok=True)
    for place, language in enumerate(("en", "de")):
        (root / f"{file}.{language}").write_text("".join(pair[place] + "\n" for pair in pairs), encoding="utf-8", newline="\n")


def random_pairs(count, seed=0, longest=20):
    rng = np.random.default_rng(seed)
    return [["".join(rng.choice(list("abcdef "), rng.integers(1, longest))) + "x" for _ in "st"] for _ in range(count)]


@pytest.fixture
def corpus(tmp_path):
    write(tmp_path / "corpus", "train", random_pairs(230))
    write(tmp_path / "corpus", "valid", random_pairs(30, seed=1))
    write(tmp_path / "corpus", "test", random_pairs(21, seed=2))
    write(tmp_path / "corpus", "extra", random_pairs(5, seed=3))
    return tmp_path / "corpus"


def data_of(folder, source=PairedText, make=Characters.train, make_tgt=None, **options):
    defaults = {"root": str(folder), "cache_dir": str(folder.parent / "cache")}
    defaults |= {"max_tokens": 200, "max_length": 60, "max_ratio": None}
    return PairData(source, make, make_tgt or make, **{**defaults, **options})


def rows_of(loader):
    """(index, source ids, target ids) of every row, in the order of the loader."""
    for batch in loader:
        for row, index in enumerate(batch.index.tolist()):
            source, target = batch.src[row][batch.src_mask[row]], batch.gold[row][batch.gold[row] != PAD]
            assert source[-1] == target[-1] == EOS
            yield index, source[:-1].tolist(), target[:-1].tolist()


# Training data


def test_every_training_pair_is_served_once_as_its_text(corpus):
    data = data_of(corpus)
    data.prepare_data()
    data.setup("fit")
    pairs = random_pairs(230)
    served = list(rows_of(data.train_dataloader()))
    assert sorted(index for index, _, _ in served) == list(range(230))
    for index, source, target in served:
        assert [data.src_tokenizer.decode(source), data.tgt_tokenizer.decode(target)] == pairs[index]


CLEANING = [
    ("aaaa", "bbbb"),
    ("", "bbbb"),
    ("aaaa", " \u00a0\t"),
    ("a" * 11, "b" * 11),
    ("aa", "b" * 10),
    ("aaaa", "bbbb"),
    ("aaa", "bb"),
    ("aaaa", "bbbb"),
    ("a" * 10, "b" * 10),
]


@pytest.mark.parametrize("options, account", [
    ({}, {"read": 9, "kept": 5, "blank": 2, "too_long": 1, "ratio": 1, "duplicate": 0}),
    ({"drop_duplicates": True}, {"read": 9, "kept": 3, "blank": 2, "too_long": 1, "ratio": 1, "duplicate": 2}),
    ({"max_ratio": None}, {"read": 9, "kept": 6, "blank": 2, "too_long": 1, "ratio": 0, "duplicate": 0}),
    ({"max_length": 60}, {"read": 9, "kept": 6, "blank": 2, "too_long": 0, "ratio": 1, "duplicate": 0}),
])  # fmt: skip
@pytest.mark.parametrize("chunk", [2, 10_000])
def test_cleaning_and_its_account(tmp_path, capsys, monkeypatch, options, account, chunk):
    monkeypatch.setattr("data.module.CHUNK", chunk)
    write(tmp_path / "c", "train", CLEANING)
    data = data_of(tmp_path / "c", valid_file=None, test_file=None, **{"max_length": 10, "max_ratio": 4.0, **options})
    data.prepare_data()
    assert data.account == account
    assert sum(account.values()) - account["read"] == account["read"]
    assert len(list(rows_of(data.train_dataloader()))) == account["kept"]
    printed = capsys.readouterr().out
    for name in ("read", "kept", "blank"):
        assert f"{account[name]}\n" in next(line + "\n" for line in printed.splitlines() if name in line)


def test_nothing_left_to_train_on(tmp_path):
    write(tmp_path / "c", "train", [("aaaa", "bbbb")] * 3)
    data = data_of(tmp_path / "c", valid_file=None, test_file=None, max_length=2)
    with pytest.raises(DuetError, match="no pair is left to train on: read 3, kept 0, blank 0, too_long 3"):
        data.prepare_data()


@pytest.mark.parametrize("options, message", [
    ({"max_tokens": 0}, "max_tokens is 0: it must be a whole number from 1"),
    ({"batch_size": "many"}, "batch_size is 'many': it must be a whole number"),
    ({"max_ratio": 0.5}, "max_ratio is 0.5: it must be at least 1, or null"),
])  # fmt: skip
def test_mistakes_in_options(corpus, options, message):
    with pytest.raises(DuetError, match=message):
        data_of(corpus, **options)


def test_a_pair_that_no_batch_can_hold_is_named(corpus):
    pairs = [("a" * 99, "b"), ("", "c" * 40), ("a", "b" * 40), ("a" * 39, "b"), ("a" * 50, "b")]
    write(corpus, "train", pairs)
    message = "pair 3 of train is 41 tokens long .*data.max_tokens is 40: raise it, or lower data.max_length=60"
    with pytest.raises(DuetError, match=message):
        data_of(corpus, max_tokens=40).prepare_data()
    data_of(corpus, max_tokens=40, max_length=39).prepare_data()


@pytest.mark.parametrize("missing", ["valid", "test", "extra"])
def test_a_missing_evaluation_file_is_found_before_training(corpus, missing):
    (corpus / f"{missing}.de").unlink()
    with pytest.raises(DuetError, match=f"file missing: .*{missing}.de"):
        data_of(corpus, test_file=["test", "extra"]).prepare_data()


# Tokenizers


def sentencepiece_of(size):
    return functools.partial(SentencePiece.train, vocab_size=size)


@pytest.mark.parametrize("make_tgt, shared, one", [
    (sentencepiece_of(40), True, True),
    (sentencepiece_of(40), False, False),
    (sentencepiece_of(42), True, False),
    (functools.partial(Characters.train, min_count=1), True, False),
])  # fmt: skip
def test_one_vocabulary_only_where_both_sides_are_alike(corpus, make_tgt, shared, one):
    data = data_of(corpus, make=sentencepiece_of(40), make_tgt=make_tgt, shared=shared)
    data.setup("fit")
    assert (data.src_tokenizer is data.tgt_tokenizer) == one


def test_tokenizers_see_the_training_split_only(tmp_path):
    for split, letter in {"train": "a", "valid": "v", "test": "t"}.items():
        write(tmp_path / "c", split, [(letter * 3, letter.upper() * 3)])
    data = data_of(tmp_path / "c", shared=False)
    data.setup("fit")
    assert data.src_tokenizer.state()["alphabet"] == "a" and data.tgt_tokenizer.state()["alphabet"] == "A"


def test_restored_tokenizers_serve_without_training_data(corpus, tmp_path):
    first = data_of(corpus)
    first.setup("fit")
    write(tmp_path / "elsewhere", "test", random_pairs(21, seed=2))
    tokenizers = (first.src_tokenizer, first.tgt_tokenizer)
    data = data_of(tmp_path / "elsewhere", tokenizers=tokenizers, cache_dir=str(tmp_path / "unused"))
    data.setup("test")
    assert list(rows_of(data.loader("test"))) == list(rows_of(first.loader("test")))
    assert not (tmp_path / "unused").exists()


# The cache


def files_of(cache):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in cache.rglob("*") if path.is_file()}


def trained(corpus, **options):
    data = data_of(corpus, make=sentencepiece_of(40), **options)
    data.setup("fit")
    return data


def test_a_second_run_reads_the_cache(corpus, monkeypatch):
    first = trained(corpus)
    before = files_of(corpus.parent / "cache")
    assert sorted(path.suffix for path in before) == [".arrow", ".json", ".pt"]

    def never(*_):
        raise AssertionError("tokenized or trained again")

    monkeypatch.setattr(PairData, "_tokenized", never)
    monkeypatch.setattr(SentencePiece, "train", never)
    second = data_of(corpus, make=first._make_tokenizers[0])
    second.setup("fit")
    assert files_of(corpus.parent / "cache") == before
    assert list(rows_of(second.train_dataloader())) == list(rows_of(first.train_dataloader()))
    assert second.account == first.account


@pytest.mark.parametrize("options", [{"max_length": 12}, {"max_ratio": 2.0}, {"drop_duplicates": True}])
def test_other_options_are_tokenized_anew(corpus, options):
    trained(corpus)
    before = len(files_of(corpus.parent / "cache"))
    trained(corpus, **options)
    assert len(files_of(corpus.parent / "cache")) == before + 2


def test_other_text_is_trained_and_tokenized_anew(corpus):
    trained(corpus)
    pairs = random_pairs(230)
    pairs[200][1] += "!"
    write(corpus, "train", pairs)
    served = {index: target for index, _, target in rows_of(trained(corpus).train_dataloader())}
    assert len(files_of(corpus.parent / "cache")) == 6
    assert trained(corpus).tgt_tokenizer.decode(served[200]).endswith("!")


def halved(content):
    return content[: len(content) // 2]


def with_a_changed_byte(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def emptied(_):
    return b""


@pytest.mark.parametrize(
    "suffix, damage",
    [*itertools.product([".arrow", ".json", ".pt"], [halved, emptied, None]), (".arrow", with_a_changed_byte)],
)
def test_a_damaged_cache_is_made_again(corpus, suffix, damage):
    expected = list(rows_of(trained(corpus).train_dataloader()))
    [path] = (corpus.parent / "cache").rglob(f"*{suffix}")
    content = path.read_bytes()
    path.write_bytes(damage(content)) if damage else path.unlink()
    assert list(rows_of(trained(corpus).train_dataloader())) == expected
    assert path.exists() and (path.read_bytes() == content or suffix == ".pt")
    assert len(files_of(corpus.parent / "cache")) == 3


def test_an_interrupted_build_leaves_nothing_that_counts(corpus, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PairData, "_kept_batches", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained(corpus)
    assert [path.suffix for path in files_of(corpus.parent / "cache")] == [".pt"]
    trained(corpus)


BUILDER = """
import random, sys, time
from pathlib import Path
from data import store

schema = store.schema(300, 300)

def build():
    account = {"read": 0}
    def batches():
        for number in range(40):
            time.sleep(random.random() / 100)
            account["read"] += 50
            yield store.record_batch([[number, 7]] * 50, [[5] * number] * 50, schema)
    return batches(), account

for _ in range(3):
    table, account = store.cached_table(Path(sys.argv[1]), "key", schema, build)
    assert account == {"read": 2000} and len(table) == 2000
    assert all(table[50 * n + 3][0].tolist() == [n, 7] and len(table[50 * n][1]) == n for n in range(40))
"""


def test_processes_that_build_at_once_do_not_disturb_one_another(tmp_path):
    command = [sys.executable, "-c", BUILDER, str(tmp_path)]
    running = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.arrow", "key.json"]


def test_the_cache_moves_with_the_environment(corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("DUET_CACHE", str(tmp_path / "by environment"))
    trained(corpus, cache_dir=None)
    assert len(files_of(tmp_path / "by environment")) == 3


def test_a_cache_that_cannot_be_written(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DuetError, match="cannot write .*DUET_CACHE names another folder"):
        trained(corpus, cache_dir=str(tmp_path / "file"))


def test_a_disk_that_is_full_is_told_and_nothing_is_left(corpus, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DuetError, match="cannot write .*No space left on device"):
        trained(corpus, cache_dir=str(tmp_path / "cache"))
    assert not files_of(tmp_path / "cache")


def test_tables_keep_every_id(tmp_path):
    rng = np.random.default_rng(0)
    for vocabulary in (300, 70_000):
        rows = [[rng.integers(0, vocabulary, rng.integers(0, 9)).tolist() for _ in "st"] for _ in range(57)]
        schema = store.schema(vocabulary, vocabulary)
        chunks = [rows[:20], [], rows[20:21], rows[21:]]
        batches = [store.record_batch([s for s, _ in chunk], [t for _, t in chunk], schema) for chunk in chunks]
        mapped, _ = store.cached_table(tmp_path, str(vocabulary), schema, lambda batches=batches: (batches, {}))
        for table in (mapped, store.Table(batches)):
            assert [[ids.tolist() for ids in table[row]] for row in range(len(table))] == rows
            assert [list(pair) for pair in zip(*table.lengths(), strict=True)] == [[len(s), len(t)] for s, t in rows]


# Evaluation


def test_evaluation_splits_are_whole_and_sorted(corpus):
    pairs = [("aaa", "bbb"), ("", "c"), ("a" * 50, "d"), (" ", ""), ("dup", "dup"), ("dup", "dup")]
    write(corpus, "test", pairs)
    data = data_of(corpus, max_length=30, max_tokens=31, drop_duplicates=True)
    data.setup("test")
    loader = data.loader("test", batch_size=4)
    assert data.sources("test") == [source for source, _ in pairs]
    assert data.references("test") == [target for _, target in pairs]
    assert max(len(batch.index) for batch in loader) <= 4
    served = list(rows_of(loader))
    assert sorted(index for index, _, _ in served) == list(range(6))
    lengths = [len(source) for _, source, _ in served]
    assert lengths == sorted(lengths, reverse=True)
    assert [index for index, source, _ in served if source == []] == [1, 3]  # blank, of whatever blanks


def test_too_long_a_source_is_cut_with_a_warning(corpus, capsys):
    write(corpus, "test", [("a" * 50, "b" * 55), ("b" * 60, "c"), ("d", "e")])
    data = data_of(corpus)
    data.setup("test")
    list(data.loader("test"))
    assert capsys.readouterr().err == ""
    data.max_source, data.max_target = 40, 45
    served = {index: (len(source), len(target)) for index, source, target in rows_of(data.loader("test"))}
    list(data.loader("test"))
    assert served == {0: (40, 45), 1: (40, 1), 2: (1, 1)}
    assert capsys.readouterr().err == "warning: 2 of 3 sources of test are longer than 40 tokens and cut there\n"


def test_splits_have_names(corpus):
    data = data_of(corpus, train_file="train", valid_file="extra", test_file=["test", "train"])
    data.setup(None)
    assert data.test_splits == ["test", "train"]
    assert len(data.sources("test")) == 21 and len(data.sources("train")) == 230
    assert len(data.sources("valid")) == 5  # the configured file
    assert len(data.loader("extra").dataset) == 5
    with pytest.raises(DuetError, match="file missing: .*/dev.en"):
        data.loader("dev")
    with pytest.raises(DuetError, match="no split 'test': data.test_file is null"):
        data_of(corpus, test_file=None).sources("test")


@pytest.mark.parametrize("valid, tests, name", [
    ("valid", ["valid", "test"], "test"),  # split test is the file valid
    ("extra", ["test", "valid"], "valid"),  # split valid is the file extra
    ("valid", ["test", "extra", "extra"], "extra"),
])  # fmt: skip
def test_two_splits_of_one_name_are_told(corpus, valid, tests, name):
    with pytest.raises(DuetError, match=f"data.test_file has '{name}' behind its first file, but a split is called so already"):
        data_of(corpus, valid_file=valid, test_file=tests)


def test_the_first_mixed_batches_are_like_the_whole(corpus):
    data = data_of(corpus)
    data.setup(None)
    def batches(mixed):
        return [batch.index.tolist() for batch in data.loader("train", batch_size=10, mixed=mixed)]

    by_length, mixed = batches(False), batches(True)
    assert sorted(by_length) == sorted(mixed) and by_length != mixed
    lengths = [len(source) for source in data.sources("train")]
    mean = sum(lengths) / len(lengths)

    def mean_of(some):
        return sum(lengths[index] for batch in some for index in batch) / sum(map(len, some))

    assert mean_of(by_length[:6]) > 1.4 * mean and 0.7 * mean < mean_of(mixed[:6]) < 1.3 * mean
    assert batches(True) == mixed


def test_several_training_files_are_one_split_in_order(corpus, capsys):
    data = data_of(corpus, train_file=["extra", "train"])
    data.prepare_data()
    assert "training pairs of extra and train\n" in capsys.readouterr().out
    assert data.account["read"] == 235
    pairs = random_pairs(5, seed=3) + random_pairs(230)
    assert [list(pair) for pair in zip(data.sources("train"), data.references("train"))] == pairs
    write(corpus, "train", [["a" * 50, "b"]])
    with pytest.raises(DuetError, match="pair 6 of extra and train is 51 tokens long"):
        data_of(corpus, train_file=["extra", "train"], max_tokens=40).prepare_data()


def test_a_missing_second_file_is_told_before_the_first_is_read(corpus):
    (corpus / "extra.en").write_bytes(b"\xff\n")
    with pytest.raises(DuetError, match="file missing: .*/dev.en"):
        data_of(corpus, train_file=["extra", "dev"]).setup("fit")


def test_alignments_of_several_files_are_chained(corpus):
    known = BuiltIn(None, "valid", source_column="en", target_column="de").alignments()
    unlike = BuiltIn(None, "test", source_column="en", target_column="de").alignments()
    data = data_of(corpus, BuiltIn, root=None, train_file=["valid", "test"], valid_file="valid", test_file=None)
    assert data.alignments("train") == known + unlike
    assert data.alignments("valid") == known
    assert data.alignments("test") is None


@pytest.mark.parametrize("files", [["valid", "extra"], ["extra", "valid"], "extra"])
def test_there_are_no_alignments_where_one_file_has_none(corpus, files):
    def source(root, file, **columns):
        return BuiltIn(None, file, **columns) if file == "valid" else PairedText(root, file, **columns)

    assert data_of(corpus, source, train_file=files).alignments("train") is None


def test_pairs_can_be_given(corpus):
    data = data_of(corpus)
    data.setup("test")
    data.add_split("mine", [Pair("abc", "fed")])
    assert data.references("mine") == ["fed"]
    [(index, source, _)] = rows_of(data.loader("mine"))
    assert (index, data.src_tokenizer.decode(source)) == (0, "abc")


@pytest.mark.parametrize("world_size, batch_size", [(2, 4), (2, 64), (3, 5), (2, 1), (20, 1), (21, 1)])
def test_devices_share_an_evaluation_split(corpus, monkeypatch, world_size, batch_size):
    data = data_of(corpus)
    data.setup("test")
    parts = []
    for rank in range(world_size):
        monkeypatch.setattr(data, "_rank", lambda rank=rank: (rank, world_size))
        parts.append(list(data.loader("test", batch_size=batch_size)))
    assert len({len(part) for part in parts}) == 1  # else one device waits for ever
    assert sorted(index for part in parts for batch in part for index in batch.index.tolist()) == list(range(21))


def test_more_devices_than_sentences_are_refused(corpus, monkeypatch):
    data = data_of(corpus)
    data.setup("test")
    monkeypatch.setattr(data, "_rank", lambda: (0, 22))
    with pytest.raises(DuetError, match="test has 21 sentences for 22 devices"):
        data.loader("test")


def test_batches_of_one_hold_the_same_rows(corpus):
    data = data_of(corpus)
    data.setup("test")
    assert list(rows_of(data.loader("test", batch_size=1))) == list(rows_of(data.loader("test", batch_size=64)))


@pytest.mark.parametrize("make_loader", [lambda data: data.train_dataloader(), lambda data: data.loader("test")])
def test_iterating_draws_nothing_from_the_global_generator(corpus, make_loader):
    data = data_of(corpus)
    data.setup("fit")
    before = torch.get_rng_state()
    list(make_loader(data))
    assert torch.equal(torch.get_rng_state(), before)


def test_worker_processes_serve_the_same(corpus):
    data, other = data_of(corpus), data_of(corpus, num_workers=1)
    for module in (data, other):
        module.setup("fit")
    assert list(rows_of(data.train_dataloader())) == list(rows_of(other.train_dataloader()))


# Under a trainer


class Recorder(lightning.LightningModule):
    """Keeps what it is given: rows, whether the trainer takes the batch for the last, and a random number."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append((batch.index.tolist(), self.trainer.is_last_batch, torch.rand(1).item()))
        return (self.weight * batch.src.float().mean()).sum()

    def validation_step(self, batch, _):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    @property
    def rows(self):
        return [seen[:2] for seen in self.seen]


class SaveAtTheEnd(Callback):
    def __init__(self, path):
        self.path = path

    def on_train_end(self, trainer, _):
        trainer.save_checkpoint(self.path)


def fit(corpus, *callbacks, resume=None, num_workers=0, **options):
    lightning.seed_everything(0, verbose=False)
    module = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_epochs=-1,
            logger=False,
            accelerator="cpu",
            callbacks=list(callbacks),
            enable_checkpointing=any(isinstance(callback, ModelCheckpoint) for callback in callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            **options,
        )
        trainer.fit(module, datamodule=data_of(corpus, num_workers=num_workers), ckpt_path=resume, weights_only=True)
    return module, trainer


def test_epochs_of_a_trainer_differ_in_order(corpus):
    module, trainer = fit(corpus, max_steps=50)
    length = trainer.num_training_batches
    assert 15 < length < 25
    first, second = module.rows[:length], module.rows[length : 2 * length]
    assert first != second
    assert [last for _, last in first] == [last for _, last in second] == [False] * (length - 1) + [True]
    for epoch in (first, second):
        assert sorted(row for rows, _ in epoch for row in rows) == list(range(230))


@pytest.mark.parametrize("options", [
    {"val_check_interval": 7, "check_val_every_n_epoch": None},
    {"val_check_interval": 0.5},
    {"val_check_interval": 1.0},
    {"val_check_interval": 7, "check_val_every_n_epoch": None, "limit_train_batches": 10},
    {"val_check_interval": 1.0, "num_workers": 1},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("at_epoch_end", [False, True], ids=["saved at validation", "saved at an epoch's end"])
def test_resumed_from_any_checkpoint_the_batches_are_those_of_one_run(corpus, tmp_path, options, at_epoch_end):
    checkpoints = ModelCheckpoint(
        tmp_path / "ckpt", "{step}", save_top_k=-1, every_n_epochs=1, save_on_train_epoch_end=at_epoch_end
    )
    whole, _ = fit(corpus, checkpoints, max_steps=45, **options)
    paths = sorted((tmp_path / "ckpt").glob("step=*.ckpt"), key=lambda path: int(path.stem.split("=")[1]))
    assert len(paths) > 1
    for path in paths[-3:]:
        step = int(path.stem.split("=")[1])
        resumed, _ = fit(corpus, resume=path, max_steps=45, **options)
        assert resumed.rows == whole.rows[step:], path


@pytest.mark.parametrize("stops", [(3,), (20,), (7, 11, 30), (5, 45)])
def test_a_run_that_stopped_anywhere_goes_on_as_if_it_had_not(corpus, tmp_path, stops):
    whole, trainer = fit(corpus, max_steps=60, val_check_interval=0.5)
    stops = [*stops, 2 * trainer.num_training_batches] if stops == (20,) else stops  # and between two epochs
    rows, path = [], None
    for stop in (*stops, 60):
        part, _ = fit(corpus, SaveAtTheEnd(tmp_path / "end.ckpt"), resume=path, max_steps=stop, val_check_interval=0.5)
        rows += part.rows
        path = tmp_path / "end.ckpt"
    assert rows == whole.rows


# Configuration

GROUPS = list(itertools.product(["text", "tsv", "jsonl", "hub", "grammar"], ["sentencepiece", "characters"]))


def configured(*overrides):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose(overrides=["+seed=1", *overrides])


def options_of(function, skip=()):
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in skip}


@pytest.mark.parametrize("data, tokenizer", GROUPS)
def test_every_configuration_instantiates(data, tokenizer):
    config = configured(f"+data={data}", f"+tokenizer={tokenizer}")
    module = instantiate(config.data, _convert_="all")
    assert isinstance(module, PairData)
    make_src, make_tgt = module._make_tokenizers
    assert module._shared and make_src.keywords == make_tgt.keywords == options_of(make_src.func)


def test_yaml_equals_the_signature():
    # `tokenizers` is no option: a checkpoint gives them
    expected = options_of(PairData, skip=("tokenizers",))
    text = yaml.safe_load((ROOT / "conf/data/text.yaml").read_text())
    assert text.pop("seed") == "${seed}" and text.pop("shared") == "${tokenizer.shared}"
    assert expected.pop("seed") == 1 and expected.pop("shared") is True
    assert {key: text[key] for key in expected} == expected
    assert set(text) == {*expected, "_target_", "source", "make_src_tokenizer", "make_tgt_tokenizer"}


@pytest.mark.parametrize("data", ["text", "tsv", "jsonl", "hub", "grammar"])
def test_yaml_of_a_source_equals_its_signature(data):
    config = configured(f"+data={data}", "+tokenizer=characters").data.source
    source = instantiate(config)
    assert source.keywords == options_of(source.func, skip=("source_column", "target_column"))


@pytest.mark.parametrize("overrides, names, sizes, shared", [
    ([], ("SentencePiece", "SentencePiece"), (8000, 8000), True),
    (["tokenizer.vocab_size=4000", "tokenizer.model_type=unigram"], ("SentencePiece", "SentencePiece"), (4000, 4000), True),
    (["tokenizer.shared=false"], ("SentencePiece", "SentencePiece"), (8000, 8000), False),
    (["tokenizer.target.vocab_size=900"], ("SentencePiece", "SentencePiece"), (8000, 900), False),
    (["+tokenizer/target=characters"], ("SentencePiece", "Characters"), (8000, None), False),
    (["+tokenizer/source=characters", "tokenizer.vocab_size=700"], ("Characters", "SentencePiece"), (None, 700), False),
])  # fmt: skip
def test_tokenizers_of_both_sides_are_configured_together_or_apart(overrides, names, sizes, shared):
    overrides = [override.replace("+tokenizer/", "tokenizer/") for override in overrides]
    module = instantiate(configured("+data=text", "+tokenizer=sentencepiece", *overrides).data, _convert_="all")
    made = module._make_tokenizers
    assert tuple(make.func.__self__.__name__ for make in made) == names
    assert tuple(make.keywords.get("vocab_size") for make in made) == sizes
    assert module._shared == shared
