"""A check of HDF5's global heaps before the HDF5 library sees them.

They carry no checksum and are walked by lengths found in the file: one wrong byte there, and the library walks for
ever, deaf to signals and timeouts. The format is in the HDF5 file format specification, III.E.
"""

from __future__ import annotations

from pathlib import Path

SIGNATURE = b"GCOL\x01\x00\x00\x00"  # with version 1 and the reserved zeros: will not occur in data by chance
HEADER = 16  # bytes, of a collection and of each object in it
WHOLE = 256 << 20  # files up to this size are searched whole
ENDS = 32 << 20  # of larger ones the beginning and the end, where writers put what is not data


def broken_heap(path: Path) -> int | None:
    """Where a global heap is broken, in bytes from the start of the file; None where all are sound."""
    size = path.stat().st_size
    parts = [(0, size)] if size <= WHOLE else [(0, ENDS), (size - ENDS, ENDS)]
    with path.open("rb") as stream:
        for start, length in parts:
            stream.seek(start)
            data = stream.read(length)
            at = data.find(SIGNATURE)
            while at >= 0:
                if not _sound(data, at, whole=start + len(data) == size):
                    return start + at
                at = data.find(SIGNATURE, at + 8)
    return None


def _sound(data: bytes, at: int, *, whole: bool) -> bool:
    """Whether the objects of the collection at `at` fill it exactly."""
    end = at + int.from_bytes(data[at + 8 : at + HEADER], "little")
    if end > len(data):
        return not whole  # cut by the window, not by damage
    position = at + HEADER
    while position + HEADER <= end:
        index = int.from_bytes(data[position : position + 2], "little")
        length = int.from_bytes(data[position + 8 : position + HEADER], "little")
        if index == 0:  # the free space that ends the collection; its length counts its own header
            return length == end - position
        position += HEADER + (length + 7) // 8 * 8
    return position <= end
