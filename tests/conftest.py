import os
from pathlib import Path

import pytest
import torch

from tests.browser import browser
from tests.runs import TINY, Run, Shell, Sweep, command, write_corpus

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
def small_sweep(tmp_path_factory, corpus) -> Sweep:
    """Short trainings of the tiny model."""
    folder = tmp_path_factory.mktemp("small_sweep")
    common = [word for word in TINY if not word.startswith("model.heads")]
    words = [*common, f"data.root={corpus}", "trainer.max_steps=60", "trainer.val_check_interval=20"]
    done = command("train.py", "-m", "model.heads=2,3,4", *words, cwd=folder)
    return Sweep(done, folder / "runs" / "text" / "transformer_tiny", corpus)


@pytest.fixture(scope="session")
def small_run(small_sweep) -> Run:
    """A run that is over."""
    return small_sweep.run(2)


@pytest.fixture
def shell(tmp_path, monkeypatch, capfd) -> Shell:
    """Runs the commands from an empty folder."""
    return Shell(tmp_path / "work", monkeypatch, capfd)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real corpora; tests that need it skip without it, but not in CI."""
    if not SHARED.is_dir():
        lack(f"needs the corpora in {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a browser; tests that need it skip without it, but not in CI, which installs it (.ci/page.sh)."""
    return browser() or lack("needs Chromium")


def lack(what: str):
    """The machine lacks what a test needs: a skip, in CI a failure."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(what)
