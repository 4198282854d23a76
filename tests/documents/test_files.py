"""Files that are written: where a path leads, what it keeps, and what a kill leaves."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from pathlib import Path

import pytest

from planner.documents.files import check_writable, write_text_atomically
from planner.errors import InputError


def refusal(path: str | Path) -> str:
    """The fault of a path, which is the same before and while writing."""
    with pytest.raises(InputError) as before:
        check_writable(path)
    with pytest.raises(InputError) as during:
        write_text_atomically(path, "new")
    assert str(before.value) == str(during.value)
    return str(before.value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full at the last step costs neither the old content nor leaves litter."""
    path = tmp_path / "plan.json"
    write_text_atomically(path, "old é\n")

    def broken(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(InputError, match=r"plan\.json: cannot be written: no space left on device"):
        write_text_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old é\n"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_what_is_no_file_is_refused_by_its_kind(tmp_path: Path) -> None:
    """Replacing a device, a pipe or a socket by a plan would break whoever uses it."""
    os.mkfifo(tmp_path / "pipe")
    os.symlink("pipe", tmp_path / "link")
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        before = {name: os.lstat(tmp_path / name).st_ino for name in os.listdir(tmp_path)}
        kinds = {
            "pipe": "is a named pipe",
            "link": "is a named pipe",
            "socket": "is a socket",
            "folder": "is a folder",
            "new/": "is a folder",
            "file/plan.json": "not a directory",
            "new/plan.json": f"there is no folder {tmp_path}/new",
            "x" * 300: "file name too long",
            "a\0b": "null",
        }
        for name, kind in kinds.items():
            assert kind in refusal(f"{tmp_path}/{name}")
    assert "the output: cannot be written: the path is empty; give" in refusal("")
    with pytest.raises(InputError, match="/dev/full: cannot be written: is a device"):
        check_writable("/dev/full")  # never written here: a mistake would cost root the device
    assert before == {name: os.lstat(tmp_path / name).st_ino for name in os.listdir(tmp_path)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_stays(tmp_path: Path) -> None:
    """Who protects a file does not want it replaced."""
    path = tmp_path / "plan.json"
    path.touch(mode=0o444)
    assert "is read-only" in refusal(path)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file that it names is written, one that does not exist yet too."""
    (tmp_path / "store").mkdir()
    target, link, dangling = tmp_path / "store" / "plan.json", tmp_path / "latest", tmp_path / "next"
    target.write_text("old")
    link.symlink_to(target)
    dangling.symlink_to("store/new.json")
    for path in (link, dangling):
        write_text_atomically(path, "new")
        assert path.is_symlink() and path.read_text() == "new"
    assert sorted(os.listdir(tmp_path / "store")) == ["new.json", "plan.json"]


def test_mode_owner_and_hard_links_are_kept(tmp_path: Path) -> None:
    """A file that others read keeps who may; hard links still are one file, also where the new text is shorter."""
    path, other = tmp_path / "plan.json", tmp_path / "same"
    path.write_text("a long old text")
    os.chmod(path, 0o640)
    owner = (12345, 54321) if os.geteuid() == 0 else (os.getuid(), [os.getgid(), *os.getgroups()][-1])
    os.chown(path, *owner)
    write_text_atomically(path, "new")
    found = path.stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, *owner)
    os.link(path, other)
    write_text_atomically(path, "2")
    assert other.read_text() == "2" and path.samefile(other)
    assert sorted(os.listdir(tmp_path)) == ["plan.json", "same"]


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    """That of any file that a program creates."""
    usual, path = tmp_path / "usual", tmp_path / "plan.json"
    usual.touch()
    write_text_atomically(path, "new")
    assert path.stat().st_mode == usual.stat().st_mode


def test_leftovers_of_a_killed_process_go_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    """A lock says that a process still writes; other files are none of ours."""
    import fcntl

    for name in (".plan.json.abcdefgh.part", ".plan.json.12345678.part", ".plan.json.part", ".other.abcdefgh.part"):
        (tmp_path / name).touch()
    with open(tmp_path / ".plan.json.12345678.part") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        write_text_atomically(tmp_path / "plan.json", "new")
    assert ".plan.json.abcdefgh.part" not in os.listdir(tmp_path)
    assert len(os.listdir(tmp_path)) == 4
    write_text_atomically(tmp_path / "plan.json", "new")
    assert sorted(os.listdir(tmp_path)) == [".other.abcdefgh.part", ".plan.json.part", "plan.json"]


def write_until_killed(path: Path, begun: int) -> None:
    """Write whole texts of one letter, of changing length, until the process is killed."""
    for turn in range(10**9):
        write_text_atomically(path, "abcdefghij"[turn % 10] * (1 + turn % 7 * 100_000))
        os.write(begun, b"." * (turn == 0))


@pytest.mark.long
def test_100_kills_break_no_file(tmp_path: Path) -> None:
    """SIGKILL at random times: the file is always one whole text, and the next write removes what was left."""
    path, chance, left = tmp_path / "plan.json", random.Random(1), 0
    write_text_atomically(path, "a")
    for _ in range(100):
        waiting, begun = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write_until_killed(path, begun)
            finally:
                os._exit(1)
        os.read(waiting, 1)
        time.sleep(chance.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        os.close(waiting)
        os.close(begun)
        text = path.read_text()
        assert len(text) % 100_000 == 1 and len(set(text)) == 1
        left += len(os.listdir(tmp_path)) - 1
    write_text_atomically(path, "end")
    assert os.listdir(tmp_path) == ["plan.json"] and path.read_text() == "end"
    assert left > 0, "no kill hit a write"
