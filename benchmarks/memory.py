"""Memory of training on 1,000,000 generated pairs against 10,000: python benchmarks/memory.py

Each in a process of its own, with malloc set as train.py sets it: clean, train a tokenizer, tokenize, take 20 steps with
transformer_tiny, then add Private_Clean and Private_Dirty of /proc/self/smaps_rollup. That counts every page that no other
process maps: memory of its own, libraries, and what was touched of the token cache, which the system takes back when it needs
to. --plain leaves malloc as it is: less memory, but more by chance (± 80 MB from run to run).
"""

import argparse
import functools
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

SIZES = (10_000, 1_000_000)
ALLOWED = 150  # MB between the two
STEPS = 20


def generate(folder: Path, pairs: int) -> None:
    """Lines of 4 to 24 made-up words whose frequencies fall as in real text."""
    rng = np.random.default_rng(1)
    syllables = [consonant + vowel for consonant in "bdfghklmnprstvz" for vowel in "aeiou"]
    words = np.array(["".join(rng.choice(syllables, 1 + number % 4)) for number in range(20_000)], dtype=object)
    with open(folder / "train.en", "w") as sources, open(folder / "train.de", "w") as targets:
        for length in rng.integers(4, 25, pairs):
            for file, count in ((sources, length), (targets, length + rng.integers(-2, 3))):
                places = (len(words) ** rng.random(count)).astype(int) - 1  # P(word n) falls as 1/n
                file.write(" ".join(words[places]) + "\n")


def train(folder: Path, *, plain: bool) -> None:
    import torch
    from torch.nn import functional as F

    from data.module import PairData
    from data.sources import PairedText
    from data.tokenizer import PAD, SentencePiece
    from model.transformer import Transformer
    from tasks.allocator import keep_memory

    if not plain:
        keep_memory()
    make = functools.partial(SentencePiece.train, vocab_size=8000)
    data = PairData(
        PairedText, make, make, root=str(folder), cache_dir=str(folder / "cache"), valid_file=None, test_file=None
    )
    data.prepare_data()
    data.setup("fit")
    model = Transformer(len(data.src_tokenizer), len(data.tgt_tokenizer))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for batch in islice(cycle(data.train_dataloader()), STEPS):
        hidden = model(batch.src, batch.src_mask, batch.tgt).hidden  # (B, T, C)
        real = batch.gold != PAD
        loss = F.cross_entropy(model.project(hidden[real]), batch.gold[real])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def private_memory() -> float:
    """MB of this process that no other shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))) / 1024


def measure(pairs: int, *options: str) -> float:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), pairs)
        command = [sys.executable, __file__, "--train", folder, *options]
        printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    megabytes, seconds = float(printed.split()[-1]), time.perf_counter() - start
    print(f"{pairs:>9,} pairs  {megabytes:7.1f} MB private, {seconds:.0f} s", flush=True)
    return megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="leave malloc as it is")
    parser.add_argument("--train", metavar="FOLDER", help="what it starts for each size: train there and print the memory")
    options = parser.parse_args()
    if options.train:
        train(Path(options.train), plain=options.plain)
        print(private_memory())
        return
    small, large = (measure(pairs, *["--plain"] * options.plain) for pairs in SIZES)
    print(f"difference       {large - small:7.1f} MB  (at most {ALLOWED})")
    sys.exit(large - small > ALLOWED)


if __name__ == "__main__":
    main()
