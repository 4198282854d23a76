"""Text files: reading with a size limit and as UTF-8, atomic writing."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Literal

from planner.errors import Fault, InputError

MAX_BYTES = 10 * 2**20
"""Largest file that is read: 10 MiB, thousands of times a large scenario."""


PACKAGE_FOLDER = Path(__file__).parent.parent
"""The folder `planner/`; tests exchange it, so that commands run on other data."""


def data_folder(kind: Literal["models", "scenarios"]) -> Path:
    """Return the folder of shipped data: inside the package where it was installed, else that of the checkout."""
    packaged = PACKAGE_FOLDER / "_data" / kind
    return packaged if packaged.is_dir() else PACKAGE_FOLDER.parent / kind


def file_name(path: str | Path) -> str:
    """Return the name of a file in a fault; `-` is standard input."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: str | Path) -> str:
    """Return the text of a file; `InputError` if it cannot be read, is too large or is not UTF-8."""
    file = file_name(path)
    try:
        if str(path) == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            size = Path(path).stat().st_size
            if size > MAX_BYTES:
                raise _refused(file, f"too large: {size / 1e6:.0f} MB", f"at most {MAX_BYTES / 1e6:.0f} MB")
            with open(path, "rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(file, f"cannot be read: {reason.lower()}", "check the path") from None
    if len(raw) > MAX_BYTES:
        raise _refused(file, "too large", f"at most {MAX_BYTES / 1e6:.0f} MB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise InputError([Fault(file, line, "", what, "save the file as UTF-8")]) from None


def write_text_atomically(path: str | Path, text: str) -> None:
    """Replace the content of a file atomically: if writing fails, the old file is unchanged.

    Raises OSError if the folder is missing or not writable.
    """
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: str | Path, content: bytes) -> None:
    """Replace the content of a binary file atomically."""
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
    """Return the file mode mask of the process; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(file: str, what: str, fix: str) -> InputError:
    return InputError([Fault(file, 0, "", what, fix)])
