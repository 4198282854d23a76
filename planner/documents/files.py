"""Text files: reading with a size limit and as UTF-8, atomic writing."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 10 * 2**20
"""Largest file that is read: 10 MiB, thousands of times a large scenario."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

PACKAGE_FOLDER = Path(__file__).parent.parent
"""The folder `planner/`; tests exchange it, so that commands run on other data."""


def data_folder(kind: Literal["models", "scenarios"]) -> Path:
    """Return the folder of shipped data: inside the package where it was installed, else that of the checkout."""
    return _data_folder(PACKAGE_FOLDER, kind)


@cache
def _data_folder(package: Path, kind: str) -> Path:
    packaged = package / "_data" / kind
    return packaged if packaged.is_dir() else package.parent / kind


_read: set[tuple[int, int]] = set()
"""Device and number of every file that the running command has read, so that no answer replaces its own question."""


def forget_read() -> None:
    """Forget what was read: a command begins."""
    _read.clear()


def note_read(stream: BinaryIO) -> None:
    """Remember that the file of an open stream is read."""
    found = os.fstat(stream.fileno())
    _read.add((found.st_dev, found.st_ino))


def is_read(path: str | Path) -> bool:
    """Return whether the running command has read a file, under whatever name."""
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return (found.st_dev, found.st_ino) in _read
    return False


def check_unread(path: str | Path) -> None:
    """Raise `InputError` where an answer would replace a file that the running command has read."""
    if is_read(path):
        raise _refused(str(path), "is read by this command", "write to another file")


def _note_standard_input() -> None:
    """Remember the file that standard input comes from, where it is one."""
    with suppress(OSError, ValueError):  # ValueError: a stand-in without a file
        if stat.S_ISREG(os.fstat(sys.stdin.buffer.fileno()).st_mode):
            note_read(sys.stdin.buffer)


def file_name(path: str | Path) -> str:
    """Return the name of a file in a fault; `-` is standard input."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: str | Path, most: int = MAX_BYTES, lossy: bool = False) -> str:
    """Return the text of a file of at most `most` bytes; `InputError` if it cannot be read or is not UTF-8.

    `lossy`: what is not UTF-8 becomes a replacement character.
    """
    file = file_name(path)
    try:
        if str(path) == "-":
            _note_standard_input()
            raw = sys.stdin.buffer.read(most + 1)
        else:
            size = Path(path).stat().st_size
            if size > most:
                raise _refused(file, f"too large: {size / 1e6:.0f} MB", f"at most {most / 1e6:.0f} MB")
            with open(path, "rb") as stream:
                note_read(stream)
                raw = stream.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(file, f"cannot be read: {reason.lower()}", "check the path") from None
    if len(raw) > most:
        raise _refused(file, "too large", f"at most {most / 1e6:.0f} MB")
    try:
        return raw.decode("utf-8-sig", "replace" if lossy else "strict")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise InputError([Fault(file, line, "", what, "save the file as UTF-8")]) from None


def make_folder(path: Path, fix: str = "give the path of a folder") -> None:
    """Make a folder where there is none; `InputError` with this way out if that cannot be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise _refused(str(path), f"cannot be made a folder: {why}", fix) from None


def check_writable(path: str | Path) -> None:
    """Raise `InputError` if a file cannot be written, before anything is computed for it."""
    with _writing(path):
        _target(path)


def write_text_atomically(path: str | Path, text: str) -> None:
    """Replace the content of a file atomically; raises like `write_bytes_atomically`."""
    write_bytes_atomically(path, text.encode("utf-8", "backslashreplace"))


def write_bytes_atomically(path: str | Path, content: bytes) -> None:
    """Replace the content of a file: a reader, even after a kill, finds the old content or the new one.

    A symbolic link stays one: the file that it names is written. Mode and owner are kept where the system permits it.
    Only a file with further hard links is written in place, because replacing it would separate them.

    Raises `InputError` if the file cannot be written; its old content is unchanged.
    """
    with _writing(path):
        target = _target(path)
        while not _replace(target, content):
            pass  # another process took the new file for one that was left: write it again


def _replace(target: Path, content: bytes) -> bool:
    """Write a file beside the target and put it in its place; return False where another process removed it."""
    old = target.stat() if target.exists() else None
    handle, part = _open_part(target)
    try:
        with os.fdopen(handle, "wb") as stream:  # closing ends the lock, and Windows renames closed files only
            stream.write(content)
            stream.flush()
            os.fsync(handle)  # a disk that is full may say so only now
            _keep_owner_and_mode(part, old)
        if old is None or old.st_nlink == 1:
            try:
                os.replace(part, target)
            except FileNotFoundError:
                if target.parent.is_dir():
                    return False
                raise
            return True
        os.unlink(part)  # its space is free again, so that the content fits
        with open(target, "r+b") as stream:
            stream.write(content)
            stream.truncate()
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    return True


def _keep_owner_and_mode(part: str, old: os.stat_result | None) -> None:
    """Give a new file owner and mode of the old one as far as the system permits it, else the usual mode."""
    if old is not None and hasattr(os, "chown"):  # not on Windows
        for owner in ((old.st_uid, -1), (-1, old.st_gid)):
            with suppress(OSError):
                os.chown(part, *owner)
    with suppress(OSError):
        os.chmod(part, old.st_mode & 0o777 if old else 0o666 & ~_umask())


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Turn what prevents writing a file into `InputError`."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = getattr(error, "strerror", None) or str(error)
        fix = "give the path of a file in a folder that exists and is writable"
        raise _refused(str(path) or "the output", f"cannot be written: {why[:1].lower()}{why[1:]}", fix) from None


def _target(path: str | Path) -> Path:
    """Return the file that writing replaces, symbolic links followed; OSError if it is none or must not be written."""
    if not os.path.basename(path):
        raise OSError("is a folder" if str(path) else "the path is empty")
    target = Path(os.path.realpath(path))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode):
        raise OSError(f"is {_KINDS.get(stat.S_IFMT(mode), 'not a file')}")
    _check_no_stream(path)
    if not target.parent.is_dir():
        raise OSError(f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OSError(f"folder {target.parent} is not writable")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError("is read-only")
    return target


def _check_no_stream(path: str | Path) -> None:
    """Raise `InputError` for the file of a standard stream: replacing it would lose what others write there."""
    for number, name in enumerate(("input", "output", "error")):
        with suppress(OSError):  # there is no such file yet, or the stream is closed
            if os.path.samestat(os.stat(path), os.fstat(number)):
                fix = "write to another file" + (", or to - for standard output" if number == 1 else "")
                raise _refused(str(path), f"is the file of standard {name}", fix)


def _open_part(target: Path) -> tuple[int, str]:
    """Return a new file beside the target, locked, and its name; remove those that killed processes left."""
    import glob
    import tempfile  # late: most commands write no file

    start = f".{target.name[:50]}."
    for left in target.parent.glob(f"{glob.escape(start)}????????.part"):
        with suppress(OSError):
            _remove_left(left)
    while True:
        handle, part = tempfile.mkstemp(prefix=start, suffix=".part", dir=target.parent)
        with suppress(OSError, ImportError):  # some network file systems have no locks
            _lock(handle)
        if os.path.exists(part):
            return handle, part
        os.close(handle)  # another process removed it before it was locked


def _lock(handle: int) -> None:
    """Lock an open file until it is closed; OSError where another process has it, ImportError without such locks."""
    import fcntl  # not on Windows

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_left(left: Path) -> None:
    """Remove a file that a killed process left; OSError while its process lives.

    Windows removes no file that is open. A system that has neither this nor locks cannot tell: the file stays.
    """
    if sys.platform == "win32":
        os.unlink(left)
        return
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(ImportError), open(os.open(left, os.O_RDONLY | flags), "rb") as stream:
        _lock(stream.fileno())
        os.unlink(left)


def _umask() -> int:
    """Return the file mode mask of the process; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(file: str, what: str, fix: str) -> InputError:
    return InputError([Fault(file, 0, "", what, fix)])
