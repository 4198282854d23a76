"""Text files: read only where they are of a sane size and UTF-8, replaced as a whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Literal

from planner.errors import Fault, InputError

MAX_BYTES = 10 * 2**20
"""Largest file that is read (10 MiB): thousands of times a large scenario."""


PACKAGE_FOLDER = Path(__file__).parent.parent
"""The folder `planner/`; tests exchange it, so that commands run on other data."""


def data_folder(kind: Literal["models", "scenarios"]) -> Path:
    """Return the folder of shipped data: inside the package where it was installed, else that of the checkout."""
    packaged = PACKAGE_FOLDER / "_data" / kind
    return packaged if packaged.is_dir() else PACKAGE_FOLDER.parent / kind


def file_name(path: str | Path) -> str:
    """What a file is called in a fault; `-` is standard input."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: str | Path) -> str:
    """The text of a file that is neither too large nor anything but UTF-8; `InputError` otherwise."""
    file = file_name(path)
    try:
        if str(path) == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            size = Path(path).stat().st_size
            if size > MAX_BYTES:
                raise _refused(file, f"{size / 1e6:.0f} MB", f"a file may have {MAX_BYTES / 1e6:.0f} MB")
            with open(path, "rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(file, f"cannot be read: {reason.lower()}", "check the path") from None
    if len(raw) > MAX_BYTES:
        raise _refused(file, "too large", f"a file may have {MAX_BYTES / 1e6:.0f} MB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise InputError([Fault(file, line, "", what, "save the file as UTF-8")]) from None


def write_text_atomically(path: str | Path, text: str) -> None:
    """Replace a file's content as a whole: a run that fails on the way leaves the old file as it was.

    Raises OSError where the folder is missing or cannot be written to.
    """
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: str | Path, content: bytes) -> None:
    """The same for a file that is no text, such as a picture."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    """The permissions that new files must not have; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(file: str, what: str, fix: str) -> InputError:
    return InputError([Fault(file, 0, "", what, fix)])
