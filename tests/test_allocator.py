"""Memory that is free goes back to the kernel where that is asked for."""

import platform
from pathlib import Path

from tasks.allocator import give_memory_back

MEGABYTE = 2**20


def held() -> float:
    """Megabytes in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / MEGABYTE


def test_what_lies_between_kept_blocks_is_given_back():
    if platform.libc_ver()[0] != "glibc":
        assert not give_memory_back()
        return
    give_memory_back()
    blocks = [b"x" * (MEGABYTE // 16 + place) for place in range(3_200)]
    full = held()
    kept = blocks[::20]
    del blocks
    assert full - held() < 100, "glibc by itself gives back the end of its heap alone"
    assert give_memory_back() and full - held() > 150
    assert len(kept) == 160
