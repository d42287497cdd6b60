"""Small real runs for the tests: the commands themselves, in a folder of their own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import evaluate
import train
from data import prepare
from tasks import cli, compare

ROOT = Path(__file__).resolve().parents[1]

WORDS = [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf"), ("six", "sechs")]

# models that train in a second, on the corpus of `write_corpus`
SMALL = [
    "data=text",
    "data.source_column=en",
    "data.target_column=de",
    "data.max_tokens=200",
    "data.max_length=50",
    "tokenizer=characters",
    "optimizer.lr=0.01",
    "scheduler.warmup=10",
    "decode=greedy",
    "trainer.val_check_interval=10",
    "callbacks.samples.images=false",
    "task.log_every=2",
]
TINY = [*SMALL, "model.layers=1", "model.channels=16", "model.feed_forward=32", "model.heads=2"]
TINY_RNN = [*SMALL, "model=rnn_additive", "model.channels=16", "model.embedding_channels=12", "model.reach=2"]


def write_corpus(root: Path, *, train: int = 120, valid: int = 12) -> Path:
    """Counting in English and German: train, valid and test in plain text."""
    root.mkdir(parents=True, exist_ok=True)
    lines = []
    for i in range(train + 2 * valid):
        picked = [WORDS[(i // 6**k + k * i) % 6] for k in range(1 + i % 4)]
        lines.append((" ".join(e for e, _ in picked), " ".join(d for _, d in picked)))
    for name, part in {"train": lines[:train], "valid": lines[train : train + valid], "test": lines[train + valid :]}.items():
        (root / f"{name}.en").write_text("".join(e + "\n" for e, _ in part), encoding="utf-8")
        (root / f"{name}.de").write_text("".join(d + "\n" for _, d in part), encoding="utf-8")
    return root


class Run(NamedTuple):
    """A run that is over."""

    folder: Path
    corpus: Path

    @property
    def ckpt(self) -> Path:
        return self.folder / "checkpoints" / "best.ckpt"


class Sweep(NamedTuple):
    """Three jobs of one command with 2, 3 and 4 heads; the one in the middle failed, since 3 does not divide the channels."""

    done: "Result"
    folder: Path  # of the runs that finished
    corpus: Path

    def run(self, heads: int) -> Run:
        runs = [path.parent for path in sorted(self.folder.glob("*/config.yaml")) if f"heads: {heads}\n" in path.read_text()]
        return Run(runs[0], self.corpus)


class Result(NamedTuple):
    code: int
    out: str
    err: str


def command(script: str, *words: str, cwd: Path, env: dict | None = None, timeout: float = 240) -> Result:
    """Runs a command of the project as a user would, in a process of its own, from another folder."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DUET_CACHE": str(cwd / ".cache")} | (env or {})
    environment.pop("DUET_RUN", None)
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *words], cwd=cwd, env=environment, timeout=timeout, capture_output=True, text=True
    )
    return Result(done.returncode, done.stdout, done.stderr)


class Shell:
    """The commands in this process (which saves their imports), in a folder of its own."""

    def __init__(self, folder: Path, monkeypatch, capfd):
        self.folder, self.monkeypatch, self.capfd = folder, monkeypatch, capfd
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("DUET_CACHE", str(folder / ".cache"))

    def _run(self, module, config: str, words: Sequence[str]) -> Result:
        self.monkeypatch.setattr(sys, "argv", [f"{config}.py", *words])
        self.monkeypatch.delenv("DUET_RUN", raising=False)
        self.capfd.readouterr()
        code = cli.run(module.main, config)
        text = self.capfd.readouterr()
        return Result(code, text.out, text.err)

    def train(self, *words: str, data: Path | None = None, tiny: Sequence[str] = TINY) -> Result:
        """train.py with a tiny model; the words come last and win."""
        return self._run(train, "train", [*tiny, *([f"data.root={data}"] if data else []), *words])

    def train_as_it_is(self, *words: str) -> Result:
        return self._run(train, "train", words)

    def evaluate(self, *words: str) -> Result:
        return self._run(evaluate, "evaluate", words)

    def compare(self, *words: str) -> Result:
        return self._run(compare, "compare", words)

    def run(self, module, config: str, words: Sequence[str]) -> Result:
        """Another command."""
        return self._run(module, config, words)

    def prepare(self, *words: str) -> Result:
        return self._run(prepare, prepare.CONFIG, words)

    @property
    def latest(self) -> Path:
        return (self.folder / "runs" / "latest").resolve()
