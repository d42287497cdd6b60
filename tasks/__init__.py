"""Training, evaluation and everything that joins data and models. `from tasks import load` is the Python API."""

import os

# Before torch is loaded: its threads sleep while they wait for each other. The default is to spin, which costs a machine
# that does anything else besides a factor of five and more.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from tasks.build import build, load  # noqa: E402

__all__ = ["build", "load"]
