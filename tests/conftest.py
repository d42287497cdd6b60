import os
from pathlib import Path

import pytest
import torch

from tests.runs import Shell, write_corpus

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny tensors gain nothing from a second thread."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A small corpus in plain text."""
    return write_corpus(tmp_path_factory.mktemp("corpus"))


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
