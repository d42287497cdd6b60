"""Training, evaluation and everything that joins data and models. `from tasks import load` is the Python API."""

import os

# Before torch is loaded: its threads spin for a moment while they wait for each other, and then sleep. The default is to spin
# on, which costs a machine that does anything else besides a factor of five and more; to sleep at once costs a fifth.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

try:
    from tasks.build import build, load
except KeyboardInterrupt:  # loading torch takes seconds, and nobody wants a traceback for having thought better of it
    raise SystemExit(130) from None

__all__ = ["build", "load"]
