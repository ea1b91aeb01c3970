"""Files that are whole or absent, whatever happens while they are written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write under a temporary name, bring it to the disk, and only then give it its name."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def link_whole(source: Path, path: Path) -> None:
    """Give a whole file a second name, by a hard link where the file system has them."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
    temporary.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
