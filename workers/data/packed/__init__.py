"""Packed files: a whole data set, read, split and measured, in one file that is mapped into memory and not loaded."""

from detol.workers.data.packed.reader import Pack, is_pack, opened, read

__all__ = ["Pack", "is_pack", "opened", "read"]
