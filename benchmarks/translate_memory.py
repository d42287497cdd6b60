"""Memory and first results of tasks.translate: python benchmarks/translate_memory.py CKPT

Translates 20,000 and 200,000 different short lines from a file, greedily, and prints the most private memory of each process;
then `… | head -3` on the larger file: its seconds and PIPESTATUS, and the seconds of a file of one line, nearly all of which
are for loading the model. Ends with 1 if the two differ by more than 50 MB, the lines are not as many as those that went in,
the pipe takes more than 5 seconds longer than the one line, or does not end with 0. Needs /proc/PID/smaps_rollup (Linux 4.14).
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT, SECONDS = 50, 5.0


def write(path: Path, count: int, words: list[str]) -> None:
    """Different lines of a number and one or two words."""
    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            file.write(" ".join([str(number), *draw.sample(words, draw.randint(1, 2))]) + "\n")


def command(ckpt: str, source: Path, *words: str) -> list[str]:
    fast = ["decode=greedy", "decode.max_len_a=1", "decode.max_len_b=2"]
    return [sys.executable, "-m", "tasks.translate", f"ckpt={ckpt}", f"input={source}", *fast, *words]


def most_memory(words: list[str]) -> tuple[float, float]:
    """Megabytes of private memory at most, and seconds."""
    began, most = time.perf_counter(), 0.0
    with subprocess.Popen(words, cwd=ROOT) as process:
        while process.poll() is None:
            most = max(most, private(process.pid))
            time.sleep(0.2)
    if process.returncode:
        sys.exit(f"{' '.join(words)} ended with {process.returncode}")
    if not most:
        sys.exit("nothing was measured: /proc/PID/smaps_rollup cannot be read")
    return most, time.perf_counter() - began


def private(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


def first_lines(ckpt: str, source: Path) -> tuple[float, str]:
    """Seconds of `… | head -3`, and the exit codes of both sides."""
    quoted = " ".join(f"'{word}'" for word in command(ckpt, source))
    began = time.perf_counter()
    script = f"{quoted} | head -3; echo ${{PIPESTATUS[@]}}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
    return time.perf_counter() - began, done.stdout.splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ckpt")
    parser.add_argument("--text", type=Path, default=ROOT / "../shared/data/multi30k/test_2017_flickr.en")
    options = parser.parse_args()
    ckpt = str(Path(options.ckpt).resolve())
    words = options.text.read_text(encoding="utf-8").split()
    with tempfile.TemporaryDirectory() as folder:
        most, good = [], True
        for count in (20_000, 200_000):
            source, output = Path(folder, f"{count}.txt"), Path(folder, f"{count}.out")
            write(source, count, words)
            memory, seconds = most_memory(command(ckpt, source, f"output={output}"))
            most.append(memory)
            lines = output.read_bytes().count(b"\n")
            good = good and lines == count
            print(f"{count:>8,} lines: {memory:7.1f} MB at most, {seconds:.0f} s, {lines:,} lines out", flush=True)
        print(f"difference {most[1] - most[0]:+.1f} MB (limit {LIMIT})")
        Path(folder, "one.txt").write_text("a\n", encoding="utf-8")
        began = time.perf_counter()
        subprocess.run(command(ckpt, Path(folder, "one.txt")), cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        loading = time.perf_counter() - began  # one short line: nearly all of it is loading
        seconds, codes = first_lines(ckpt, Path(folder, "200000.txt"))
        print(f"| head -3: {seconds:.1f} s, one line alone {loading:.1f} s; PIPESTATUS {codes}")
        return 0 if good and most[1] - most[0] <= LIMIT and seconds - loading <= SECONDS and codes == "0 0" else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    sys.exit(main())
