import os
from pathlib import Path

import pytest
import torch

from tests.runs import TINY, Run, Shell, command, write_corpus

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny tensors gain nothing from a second thread."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A small corpus in plain text."""
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def small_run(tmp_path_factory, corpus) -> Run:
    """A short training of the tiny model."""
    folder = tmp_path_factory.mktemp("small_run")
    words = [*TINY, f"data.root={corpus}", "trainer.max_steps=60", "trainer.val_check_interval=20", "hydra.run.dir=run"]
    done = command("train.py", *words, cwd=folder)
    assert done.code == 0, done.err
    return Run(folder / "run", corpus)


@pytest.fixture
def shell(tmp_path, monkeypatch, capfd) -> Shell:
    """Runs the commands from an empty folder."""
    return Shell(tmp_path / "work", monkeypatch, capfd)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real corpora; tests that need it skip without it, but not in CI."""
    if not SHARED.is_dir():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"needs the corpora in {SHARED}")
    return SHARED
