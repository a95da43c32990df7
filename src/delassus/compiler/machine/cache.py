"""The cache of compiled code, of kernels and of contact loops: machine code by key, on disk, one file a key.

What is read here is executed, so a file counts only if nobody else can have written it: it is opened without following
links, and the descriptor that is read must be a regular file of this user that no other user may write. The directory
is held to the same. A SHA-256 sum guards against damage, not against people: who can write the file can write the sum.
Two processes at once are safe because files appear whole, by renaming, and are never changed afterwards. Of those that
want the same at once, one makes it and the others wait for `LONGEST_WAIT`, where the system and its files have `flock`.

Trouble with the cache never stops a computation: a file that is unfit is named in a `DelassusWarning`, removed, and
compiled again; a directory that is unfit is named once a process, and nothing is cached.

``DELASSUS_CACHE`` says where: a path, or ``off`` (also ``0``, ``no``, ``false`` or empty). Without it the directory is
``delassus`` in ``$XDG_CACHE_HOME`` or ``~/.cache`` (Linux), ``~/Library/Caches`` (macOS), ``%LOCALAPPDATA%`` (Windows).
On Windows there are no owners and modes to check; the user's own directories are private there by default.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from delassus.errors import announce, announced, warn

if sys.platform != "win32":
    import fcntl

LIMIT = 512 * 2**20
"""Bytes that the files of the cache may take together; the least recently used go first."""

PARTS = 64
"""A process looks at what is there when it first stores, and after each of so many parts of the limit: a look takes
20 ms where thousands of files are. Of each process that stores at once, there may be a part more than the limit."""

STALE = 3600.0
"""Seconds after which a temporary file or a lock was left by a process that died."""

LONGEST_WAIT = 60.0
"""Longest wait (s) for another process that makes the same, which may be stopped."""

PAUSE = 0.02
"""Time (s) between two looks."""

MAGIC = b"delassus kernel\n"
VERSION = (1).to_bytes(4, "little")
"""Of the file's layout: magic, version, SHA-256 of the payload, key, payload."""

_FILE = re.compile(r"[0-9a-f]{64}\.(kernel|(?P<temporary>kernel\.[0-9a-f]{16}\.tmp|lock))")
_OFF = {"", "0", "off", "no", "false"}
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)  # each is missing somewhere
_READ = os.O_RDONLY | _SAFE | getattr(os, "O_NONBLOCK", 0)  # opening a named pipe would wait for its writer
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE

_unwarned = threading.Lock()
"""Taken for good by the first warning about the directory."""

_stored: dict[Path, int] = {}
"""Bytes that this process has stored in a directory since it looked at what is there."""


def cache_key(**parts: str | int) -> str:
    """64 hexadecimal digits for all that machine code depends on; other parts give other digits."""
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def directory() -> Path | None:
    """The directory of the cache, made if need be; None if it is off or, which is warned of, cannot be used."""
    setting = os.environ.get("DELASSUS_CACHE")
    if setting is not None and setting.strip().lower() in _OFF:
        return None
    try:
        place = (_default_directory() if setting is None else Path(setting).expanduser()).absolute()
    except (OSError, RuntimeError) as error:  # no home, no current directory
        _warn_unusable("no directory", _reason(error))
        return None
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        link, status = os.lstat(place), os.stat(place)
        fault = _exposure(status)
        if stat.S_ISLNK(link.st_mode) and not _is_ours(link) and link.st_uid != 0:
            fault = f"it is a symbolic link of user {link.st_uid}"
        elif fault is None and not os.access(place, os.R_OK | os.X_OK):
            fault = f"it cannot be read (mode {stat.S_IMODE(status.st_mode):04o})"
    except FileExistsError:
        fault = "it is not a directory"
    except OSError as error:
        fault = _reason(error)
    if fault is None:
        return place
    _warn_unusable(place, fault)
    return None


def load(key: str) -> bytes | None:
    """Bytes stored under a key; None if there are none or, with a warning, none that can be trusted."""
    folder = directory()
    if folder is None:
        return None
    path = folder / f"{key}.kernel"
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        if os.name == "nt" and isinstance(error, PermissionError):
            return None  # another process is just replacing it
        is_link = os.path.islink(path)
        fault = "it is a symbolic link" if is_link else _reason(error)
        _refuse(path, fault, remove=is_link or isinstance(error, PermissionError))
        return None
    try:
        payload = _read(descriptor, key)
        with suppress(OSError):  # a read-only cache can be read, too
            os.utime(descriptor if os.utime in os.supports_fd else path)
        return payload
    except (OSError, ValueError) as error:
        fault, unfit = _reason(error), isinstance(error, ValueError)
    finally:
        os.close(descriptor)
    _refuse(path, fault, remove=unfit)
    return None


def store(key: str, payload: bytes, is_lasting: bool = True) -> None:
    """Keep bytes under a key, in place of what was there; if that fails, a warning says so once a process.

    ``is_lasting``: whether to wait until the disk has them, which takes some milliseconds; a system that stops before
    leaves a file that is damaged, and is made again.
    """
    folder = directory()
    content = _header(key, payload) + payload
    if folder is None or len(content) > LIMIT:
        return
    path = folder / f"{key}.kernel"
    temporary = folder / f"{path.name}.{os.urandom(8).hex()}.tmp"
    try:
        with open(os.open(temporary, _CREATE, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            if is_lasting:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if os.name != "nt" or not isinstance(error, PermissionError) or not path.exists():  # there, it is being read
            _warn_unusable(folder, _reason(error))
        return
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    _stored[folder] = _stored.get(folder, LIMIT) + len(content)
    if _stored[folder] > LIMIT // PARTS:
        _stored[folder] = 0
        _evict(folder, keep=path.name)


def fetch(key: str, make: Callable[[], bytes], what: str, is_lasting: bool = True) -> bytes:
    """Bytes stored under a key, made by ``make`` and stored, see `store`, if there are none.

    Processes and threads that come while it is being made wait for it; after `LONGEST_WAIT` they make it themselves.
    Both are announced where they take long: ``what`` is compiled.
    """
    found = load(key)
    if found is None:
        with _turn(key, what):
            found = load(key)  # another one may have stored it
            if found is None:
                with announced(f"compiling {what}", "compiled in"):
                    found = make()
                store(key, found, is_lasting)
    return found


def only_one(task: str) -> Path | None:
    """The directory, where no other process does this task for it from now on until this one ends; else None."""
    folder = directory()
    if sys.platform == "win32" or folder is None:
        return None
    with suppress(OSError):
        lock = os.open(folder / f"{cache_key(task=task)}.lock", os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
        if _locked(lock):
            return folder
    return None


# -- directory -----------------------------------------------------------------------------------------------------


def _default_directory() -> Path:
    """Cache directory of this platform; raises `RuntimeError` if there is no home."""
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA", "")
        return (Path(parent) if parent else Path.home() / "AppData" / "Local") / "delassus" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "delassus"
    parent = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(parent) if os.path.isabs(parent) else Path.home() / ".cache") / "delassus"


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to the user that this process acts for."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _exposure(status: os.stat_result) -> str | None:
    """Who else could have written a file or directory, if anybody."""
    if not _is_ours(status):
        return f"it belongs to user {status.st_uid}"
    if hasattr(os, "geteuid") and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _warn_unusable(place: Path | str, fault: str) -> None:
    """Say, once a process, that nothing is cached."""
    if _unwarned.acquire(blocking=False):
        warn(
            f"Compiled kernels are not cached ({place}: {fault}). "
            "Set the environment variable DELASSUS_CACHE to a directory of your own, or to off."
        )


# -- files ---------------------------------------------------------------------------------------------------------


def _header(key: str, payload: bytes) -> bytes:
    return MAGIC + VERSION + hashlib.sha256(payload).digest() + key.encode()


def _read(descriptor: int, key: str) -> bytes:
    """Check and read an open file; raises `ValueError` that says what is wrong with it."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    exposure = _exposure(status)
    if exposure is not None:
        raise ValueError(exposure)
    if status.st_size > LIMIT:
        raise ValueError("it is larger than the cache")
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read()
    size = len(_header(key, b""))
    header, payload = content[:size], content[size:]
    if not header.startswith(MAGIC):
        raise ValueError("it is not a compiled kernel")
    if header[len(MAGIC) :][: len(VERSION)] != VERSION:
        raise ValueError("it has another version's layout")
    if len(header) < size or header[-len(key) :] != key.encode():
        raise ValueError("it is another kernel's")
    if header != _header(key, payload):
        raise ValueError("it is damaged: the checksum does not match")
    return payload


@contextmanager
def _turn(key: str, what: str) -> Iterator[None]:
    """Hold the lock of a key, where there can be one; the system takes it from a process that dies."""
    folder = directory()
    if sys.platform == "win32" or folder is None:
        yield
        return
    path, lock, held = folder / f"{key}.lock", None, False
    with suppress(OSError):  # a directory that cannot be written, a file system without locks
        lock = os.open(path, os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
        held = _locked(lock)
        if not held:
            with announced(f"waiting for another process or thread to compile {what}", "waited"):
                held = _locked(lock, LONGEST_WAIT)
        if not held:
            announce(f"not waiting any longer for another process or thread to compile {what} ({path})")
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):
                if held:
                    os.unlink(path)  # those that wait for it find what is stored
                    fcntl.flock(lock, fcntl.LOCK_UN)  # a forked process may have the descriptor, too
            os.close(lock)


def _locked(lock: int, patience: float = 0.0) -> bool:
    """Whether an open file could be locked within so many seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE)


def _refuse(path: Path, fault: str, *, remove: bool) -> None:
    """Warn of a file that is not used, and remove it if it is ours."""
    if remove:
        with suppress(OSError):
            if _is_ours(os.lstat(path)):
                os.unlink(path)
    warn(f"The cached kernel {path} is not used: {fault}. It is compiled again.")


def _evict(folder: Path, keep: str) -> None:
    """Remove least recently used kernels above the limit, and files that processes left when they died."""
    kernels = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _FILE.fullmatch(entry.name)
            if match is None:
                continue
            with suppress(OSError):  # another process may have removed it
                status = entry.stat(follow_symlinks=False)
                if match["temporary"] is None:
                    kernels.append((status.st_mtime_ns, status.st_size, entry.name))
                elif time.time() - status.st_mtime > STALE:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in kernels)
    for _, size, name in sorted(kernels):  # oldest → newest
        if total > LIMIT and name != keep:
            with suppress(OSError):
                os.unlink(folder / name)
            total -= size


@cache
def sources() -> str:
    """Names and contents of this package's files, as a hash: code that was edited in place makes other programs."""
    digest, package = hashlib.sha256(), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    for folder, _, names in sorted(os.walk(package)):  # in half of the time of Path.rglob
        for path in (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")):
            with open(path, "rb") as file:
                text = file.read()
            digest.update(f"{path[len(package) :]} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]
