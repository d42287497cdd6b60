"""Keeping glibc from giving every big tensor back to the kernel, which would have to clear it again for the next one."""

import ctypes
import platform

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_memory() -> bool:
    """For a training process on Linux with glibc; elsewhere it does nothing and returns False.

    From here on big blocks come from the heap, which grows in pieces of 256 MiB and never shrinks: so not for a server.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL("libc.so.6").mallopt
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, 2**31 - 1), mallopt(M_TOP_PAD, 256 * 2**20)])
