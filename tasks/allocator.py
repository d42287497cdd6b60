"""When glibc gives memory back to the kernel: never while a model is trained, and between the windows of a translation."""

import ctypes
import platform

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_memory() -> bool:
    """Keeps glibc from giving every big tensor back, which the kernel would have to clear again for the next one.

    For a training process on Linux with glibc; elsewhere it does nothing and returns False. From here on big blocks come from
    the heap, which grows in pieces of 256 MiB and never shrinks: so not for a server.
    """
    if not _is_glibc():
        return False
    mallopt = ctypes.CDLL("libc.so.6").mallopt
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, 2**31 - 1), mallopt(M_TOP_PAD, 256 * 2**20)])


def give_memory_back() -> bool:
    """Gives back what is free in the heaps of all threads; glibc by itself gives back their ends alone. False where it has not.

    A search frees tensors of many sizes, and what stays between them would add up as long as it runs.
    """
    return _is_glibc() and bool(ctypes.CDLL("libc.so.6").malloc_trim(0))


def _is_glibc() -> bool:
    return platform.system() == "Linux" and platform.libc_ver()[0] == "glibc"
