"""Which training pairs are dropped, and why."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from data.errors import DuetError
from data.sources import Pair

REASONS = ("blank", "too_long", "ratio", "duplicate")


@dataclass(frozen=True)
class Cleaning:
    max_length: int  # tokens without BOS and EOS
    max_ratio: float | None  # tokens of the longer side to those of the shorter
    drop_duplicates: bool

    def __post_init__(self):
        if self.max_ratio is not None and self.max_ratio < 1:
            raise DuetError(f"data.max_ratio is {self.max_ratio}: it must be at least 1, or null")

    def fault(self, pair: Pair, source: list[int], target: list[int]) -> str | None:
        """Why a pair, of text and of token ids, cannot be trained on."""
        shorter, longer = sorted((len(source), len(target)))
        if not shorter or not pair.src.strip() or not pair.tgt.strip():
            return "blank"
        if longer > self.max_length:
            return "too_long"
        if self.max_ratio is not None and longer > shorter * self.max_ratio:
            return "ratio"
        return None

    def duplicates(self, pairs: Iterable[Pair]) -> np.ndarray | None:
        """True for each pair that occurred before, by a hash of 64 bits; None where duplicates are kept."""
        if not self.drop_duplicates:
            return None
        digests = (hashlib.blake2b(as_bytes(pair), digest_size=8).digest() for pair in pairs)
        hashes = np.frombuffer(b"".join(digests), dtype=np.uint64)
        duplicates = np.ones(len(hashes), dtype=bool)
        duplicates[np.unique(hashes, return_index=True)[1]] = False
        return duplicates

    def report(self, account: dict[str, int]) -> list[str]:
        """One aligned line each for what was read, kept, and dropped by which rule."""
        rules = {
            "read": "read",
            "kept": "kept",
            "blank": "dropped: blank",
            "too_long": f"dropped: over {self.max_length} tokens",
            "ratio": f"dropped: length ratio over {self.max_ratio}",
            "duplicate": "dropped: duplicate",
        }
        unused = {"ratio": self.max_ratio is None, "duplicate": not self.drop_duplicates}
        return [f"  {rules[name]:<32}{account[name]:>12,}" for name in rules if not unused.get(name)]


def new_account() -> dict[str, int]:
    return dict.fromkeys(("read", "kept", *REASONS), 0)


def as_bytes(pair: Pair) -> bytes:
    return f"{pair.src}\n{pair.tgt}\n".encode()
