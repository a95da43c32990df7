"""The cache of compiled kernels: whole files only, ours only, and never in the way."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import pickle
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from delassus.compiler.machine import cache
from delassus.errors import DelassusWarning
from internals import runtime_loops

pytestmark = pytest.mark.usefixtures("machine_code")

KEY = cache.cache_key(robot="test")
OTHER_KEY = cache.cache_key(robot="other")
PAYLOAD = bytes(range(256)) * 17
WHAT = "a kernel"
HEADER = len(cache.MAGIC) + len(cache.VERSION) + 32 + 64

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners and modes here")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
not_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of this test's own, in a process that has warned of nothing yet."""
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_unwarned", threading.Lock())
    return tmp_path / "cache"


@pytest.fixture
def stored(folder):
    """The file of a stored kernel."""
    cache.store(KEY, PAYLOAD)
    (path,) = folder.iterdir()
    return path


def check_refused(path, reason, removed=True):
    """A file is refused with its name and the reason, and the next compilation replaces it."""
    with pytest.warns(DelassusWarning, match=reason) as caught:
        assert cache.load(KEY) is None
    assert len(caught) == 1
    assert str(path) in str(caught[0].message)
    assert os.path.lexists(path) is not removed
    if not os.path.isdir(path):
        cache.store(KEY, PAYLOAD)
        assert cache.load(KEY) == PAYLOAD


def check_unusable(reason, name=""):
    """A directory is refused once a process, and everything still works without it."""
    with pytest.warns(DelassusWarning, match=reason) as caught:
        assert cache.load(KEY) is None
    assert len(caught) == 1
    assert name in str(caught[0].message)
    assert "DELASSUS_CACHE" in str(caught[0].message)
    cache.store(KEY, PAYLOAD)  # warnings are errors here
    assert cache.load(KEY) is None
    assert cache.directory() is None


# -- keys ----------------------------------------------------------------------------------------------------------


def test_key_tells_names_types_and_values_apart():
    parts = [
        {},
        {"a": ""}, {"a": b""}, {"a": 0}, {"a": "0"}, {"a": b"0"}, {"b": 0}, {"a": -1}, {"a": 1}, {"a": "1"},
        {"a": 16}, {"a": "10"}, {"a": 2**70}, {"a": -(2**70)},
        {"a": "x", "b": "y"}, {"a": "y", "b": "x"}, {"a": "xy", "b": ""}, {"a": "", "b": "xy"}, {"ab": "xy"},
        {"a": "x\0b"}, {"a": "é"}, {"a": "e\u0301"}, {"a": "\udc80"}, {"a": "\x80"}, {"é": "a"},
    ]  # fmt: skip
    keys = [cache.cache_key(**p) for p in parts]
    assert len(set(keys)) == len(parts)
    assert cache.cache_key(a=1, b=2) == cache.cache_key(b=2, a=1)


def test_key_is_the_same_in_another_process():
    script = "from delassus.compiler.machine.cache import cache_key; print(cache_key(a='x', b=b'y', c=3))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == cache.cache_key(c=3, b=b"y", a="x")


# -- storing and loading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"x", PAYLOAD, os.urandom(3_000_000)], ids=len)
def test_round_trip(payload, folder):
    assert cache.load(KEY) is None
    cache.store(KEY, payload)
    assert cache.load(KEY) == payload
    assert cache.load(OTHER_KEY) is None
    assert [path.name for path in folder.iterdir()] == [f"{KEY}.kernel"]


def test_last_one_stored_is_kept(stored, folder):
    cache.store(KEY, b"new")
    cache.store(OTHER_KEY, b"other")
    assert cache.load(KEY) == b"new"
    assert cache.load(OTHER_KEY) == b"other"
    assert len(list(folder.iterdir())) == 2


def test_layout_of_a_file(stored):
    content = stored.read_bytes()
    assert content == cache.MAGIC + cache.VERSION + hashlib.sha256(PAYLOAD).digest() + KEY.encode() + PAYLOAD


@posix
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_directory_and_files_are_private_whatever_the_umask(folder, mask):
    before = os.umask(mask)
    try:
        cache.store(KEY, PAYLOAD)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


def test_second_process_is_ready_soon(tmp_path):
    payload = b"\x90" * 2_000_000
    cache.store(KEY, payload)
    script = (
        "import sys, time\n"
        "from delassus.compiler.machine import cache\n"
        "best = 1e9\n"
        "for _ in range(5):\n"
        "    start = time.perf_counter()\n"
        "    payload = cache.load(sys.argv[1])\n"
        "    best = min(best, time.perf_counter() - start)\n"
        "print(len(payload), best)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, KEY], capture_output=True, text=True, check=True, timeout=60)
    size, seconds = run.stdout.split()
    assert int(size) == len(payload)
    assert float(seconds) < 0.05
    assert run.stderr == ""


def test_loading_leaves_no_descriptor_open(folder, stored):
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("no /proc")
    before = len(list(descriptors.iterdir()))
    for content in (stored.read_bytes(), b"damaged", None):
        stored.unlink(missing_ok=True)
        if content is None:
            stored.mkdir()
        else:
            stored.write_bytes(content)
            stored.chmod(0o600)
        with warnings.catch_warnings(action="ignore", category=DelassusWarning):
            cache.load(KEY)
            cache.store(KEY, PAYLOAD)
    assert len(list(descriptors.iterdir())) == before


# -- damaged files -------------------------------------------------------------------------------------------------

REGIONS = {
    "first": (0, "not a compiled kernel"),
    "magic": (len(cache.MAGIC) - 1, "not a compiled kernel"),
    "version": (len(cache.MAGIC), "another version"),
    "checksum": (len(cache.MAGIC) + 4, "checksum"),
    "end of checksum": (len(cache.MAGIC) + 35, "checksum"),
    "key": (len(cache.MAGIC) + 36, "another kernel's"),
    "end of key": (HEADER - 1, "another kernel's"),
    "payload": (HEADER, "checksum"),
    "middle": (HEADER + len(PAYLOAD) // 2, "checksum"),
    "last": (-1, "checksum"),
}


@pytest.mark.parametrize("bit", [0x01, 0x80])
@pytest.mark.parametrize("region", REGIONS)
def test_flipped_bit(stored, region, bit):
    place, reason = REGIONS[region]
    content = bytearray(stored.read_bytes())
    content[place] ^= bit
    stored.write_bytes(content)
    check_refused(stored, reason)


def test_every_flipped_byte_of_a_small_file(folder):
    cache.store(KEY, b"kernel")
    (path,) = folder.iterdir()
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        path.chmod(0o600)
        with pytest.warns(DelassusWarning, match="is not used"):
            assert cache.load(KEY) is None
        assert not path.exists()


def test_every_truncation_of_a_small_file(folder):
    cache.store(KEY, b"kernel")
    (path,) = folder.iterdir()
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        path.chmod(0o600)
        with pytest.warns(DelassusWarning, match="is not used"):
            assert cache.load(KEY) is None
        assert not path.exists()


@pytest.mark.parametrize(
    "size, reason",
    [(0, "not a compiled"), (5, "not a compiled"), (17, "version"), (25, "another"), (-1, "checksum")],
)
def test_truncated(stored, size, reason):
    stored.write_bytes(stored.read_bytes()[:size])
    check_refused(stored, reason)


def test_something_appended(stored):
    stored.write_bytes(stored.read_bytes() + b"\0")
    check_refused(stored, "checksum")


def test_another_kernels_file_under_this_name(stored, folder):
    cache.store(OTHER_KEY, PAYLOAD)
    os.replace(folder / f"{OTHER_KEY}.kernel", stored)
    check_refused(stored, "another kernel's")


def test_larger_than_the_cache(stored, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(cache, "LIMIT", stored.stat().st_size - 1)
        with pytest.warns(DelassusWarning, match="larger than the cache"):
            assert cache.load(KEY) is None
    assert not stored.exists()


def test_each_damaged_file_is_named(folder):
    for key in (KEY, OTHER_KEY):
        cache.store(key, PAYLOAD)
        path = folder / f"{key}.kernel"
        path.write_bytes(b"damaged")
        with pytest.warns(DelassusWarning, match=key):
            assert cache.load(key) is None


def test_warning_points_at_the_caller(stored):
    stored.write_bytes(b"damaged")
    with pytest.warns(DelassusWarning) as caught:
        cache.load(KEY)
    assert caught[0].filename == __file__


def test_damaged_file_is_removed_even_if_warnings_are_errors(stored):
    stored.write_bytes(b"damaged")
    with pytest.raises(DelassusWarning, match="not a compiled kernel"):
        cache.load(KEY)
    assert not stored.exists()


# -- files of others -----------------------------------------------------------------------------------------------


class Status:
    """A file's status with another owner."""

    def __init__(self, status, owner):
        self.st_uid = owner
        self._status = status

    def __getattr__(self, name):
        return getattr(self._status, name)


@posix
def test_file_of_another_user(stored, monkeypatch):
    real = os.fstat
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lambda descriptor: Status(real(descriptor), os.geteuid() + 1))
        with pytest.warns(DelassusWarning, match=f"belongs to user {os.geteuid() + 1}"):
            assert cache.load(KEY) is None


@as_root
def test_file_given_to_another_user(stored):
    os.chown(stored, 65534, 65534)
    check_refused(stored, "belongs to user 65534", removed=False)
    assert stored.stat().st_uid == 0  # a new file took its name


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_file_that_others_may_write(stored, mode):
    stored.chmod(mode)
    check_refused(stored, f"other users may write it.*0{mode:o}")


@posix
def test_file_that_others_may_only_read(stored):
    stored.chmod(0o644)
    assert cache.load(KEY) == PAYLOAD


@not_root
def test_file_that_cannot_be_read(stored):
    stored.chmod(0o000)
    check_refused(stored, "Permission denied")


@posix
@pytest.mark.parametrize("target", ["good", "missing", "loop", "directory"])
def test_link_in_place_of_a_file(stored, tmp_path, target):
    """Not even a link to a good file is followed; the link is removed, its target is not."""
    good = tmp_path / "good"
    os.replace(stored, good)
    to = {"good": good, "missing": tmp_path / "nowhere", "loop": stored, "directory": tmp_path}[target]
    stored.symlink_to(to)
    check_refused(stored, "symbolic link")
    assert not stored.is_symlink()
    assert good.exists()


@posix
def test_storing_does_not_write_through_a_link(folder, stored, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    stored.unlink()
    stored.symlink_to(victim)
    cache.store(KEY, PAYLOAD)
    assert victim.read_text() == "mine"
    assert cache.load(KEY) == PAYLOAD


@posix
@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_storing_does_not_write_through_a_temporary_file_laid_out_beforehand(folder, tmp_path, monkeypatch, kind):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "urandom", bytes)
    temporary = folder / f"{KEY}.kernel.{'0' * 16}.tmp"
    (temporary.symlink_to if kind == "link" else temporary.hardlink_to)(victim)
    with pytest.warns(DelassusWarning, match="File exists"):
        cache.store(KEY, PAYLOAD)
    assert victim.read_text() == "mine"


def test_directory_in_place_of_a_file(stored):
    stored.unlink()
    stored.mkdir()
    check_refused(stored, "not a regular file", removed=False)
    with pytest.warns(DelassusWarning, match="not cached"):
        cache.store(KEY, PAYLOAD)
    assert list(stored.parent.iterdir()) == [stored]


@posix
def test_named_pipe_in_place_of_a_file(stored):
    """It must not wait for a writer."""
    stored.unlink()
    os.mkfifo(stored, 0o600)
    check_refused(stored, "not a regular file")


@posix
def test_socket_in_place_of_a_file(stored, monkeypatch):
    stored.unlink()
    monkeypatch.chdir(stored.parent)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(stored.name)
        check_refused(stored, "No such device|not supported", removed=False)


# -- directories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["off", "OFF", " Off ", "0", "no", "false", ""])
def test_off(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELASSUS_CACHE", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() is None
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) is None
    assert list(tmp_path.iterdir()) == []


def test_off_hides_what_was_stored(stored, monkeypatch):
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    assert cache.load(KEY) is None
    assert stored.exists()


def test_path_is_made_with_its_parents(monkeypatch, tmp_path):
    place = tmp_path / "a" / "b c" / "é"
    monkeypatch.setenv("DELASSUS_CACHE", f"{place}{os.sep}")
    assert cache.directory() == place
    assert place.is_dir()


def test_relative_path_and_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELASSUS_CACHE", "here")
    assert cache.directory() == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("DELASSUS_CACHE", "~/there")
    assert cache.directory() == tmp_path / "there"


@posix
@pytest.mark.parametrize(
    "platform, variables, expected",
    [
        ("linux", {}, ".cache/delassus"),
        ("linux", {"XDG_CACHE_HOME": "{home}/xdg"}, "xdg/delassus"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, ".cache/delassus"),
        ("linux", {"XDG_CACHE_HOME": ""}, ".cache/delassus"),
        ("freebsd14", {}, ".cache/delassus"),
        ("darwin", {}, "Library/Caches/delassus"),
        ("win32", {"LOCALAPPDATA": "{home}/local"}, "local/delassus/cache"),
        ("win32", {}, "AppData/Local/delassus/cache"),
    ],
)
def test_default_directory(monkeypatch, tmp_path, platform, variables, expected):
    for name in ("DELASSUS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.directory() == tmp_path / expected
    assert stat.S_IMODE((tmp_path / expected).stat().st_mode) == 0o700


def test_no_home(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DELASSUS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(Path, "home", home)
    check_unusable("home directory")


@posix
def test_no_such_users_home(monkeypatch):
    monkeypatch.setenv("DELASSUS_CACHE", "~no-such-user-here/cache")
    check_unusable("home directory")


@posix
def test_no_current_directory(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("DELASSUS_CACHE", "here")
    check_unusable("No such file")


def test_not_a_directory(folder):
    folder.write_text("")
    check_unusable("not a directory", str(folder))
    assert folder.read_text() == ""


def test_below_a_file(folder, monkeypatch):
    folder.write_text("")
    monkeypatch.setenv("DELASSUS_CACHE", str(folder / "below"))
    check_unusable("Not a directory|cannot find", str(folder))


@posix
def test_name_too_long(monkeypatch, tmp_path):
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path / ("x" * 5000)))
    check_unusable("too long")


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_directory_that_others_may_write(stored, folder, mode):
    folder.chmod(mode)
    check_unusable("other users may write it", str(folder))
    folder.chmod(0o700)
    assert cache.load(KEY) == PAYLOAD  # nothing was touched


@posix
def test_directory_that_others_may_only_read(folder):
    folder.mkdir()
    folder.chmod(0o755)
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


@posix
def test_directory_of_another_user(stored, monkeypatch):
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    check_unusable(f"belongs to user {owner}")


@as_root
def test_directory_given_to_another_user(stored, folder):
    os.chown(folder, 65534, 65534)
    check_unusable("belongs to user 65534")
    assert stored.exists()


@posix
def test_link_of_ours_to_a_directory_of_ours(folder, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD
    assert len(list((tmp_path / "real").iterdir())) == 1


@posix
def test_link_to_a_directory_that_others_may_write(folder, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real").chmod(0o777)
    folder.symlink_to(tmp_path / "real")
    check_unusable("other users may write it")


@as_root
def test_link_to_a_directory_of_another_user(folder, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    os.chown(tmp_path / "real", 65534, 65534)
    folder.symlink_to(tmp_path / "real")
    check_unusable("belongs to user 65534")


@posix
def test_link_of_another_user_to_a_directory_of_ours(folder, tmp_path, monkeypatch):
    """Somebody who lays a link at the place of our cache does not choose where we write."""
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    real, stranger = os.lstat, os.geteuid() + 1

    def lstat(path, **options):
        status = real(path, **options)
        return Status(status, stranger) if Path(path) == folder else status

    monkeypatch.setattr(os, "lstat", lstat)
    check_unusable(f"symbolic link of user {stranger}")
    assert list((tmp_path / "real").iterdir()) == []


@posix
@pytest.mark.parametrize("target", ["nowhere", "cache"])
def test_link_to_nothing_and_to_itself(folder, tmp_path, target):
    folder.symlink_to(tmp_path / target)
    check_unusable("not a directory|symbolic links")
    assert not (tmp_path / "nowhere").exists()


def test_directory_that_cannot_be_made(monkeypatch):
    def makedirs(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "makedirs", makedirs)
    check_unusable(os.strerror(errno.EROFS))


@not_root
def test_parent_that_we_may_not_write(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir(mode=0o500)
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path / "locked" / "cache"))
    check_unusable("Permission denied")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_read_only_file_system_can_be_read(stored, folder, monkeypatch, code):
    real = os.open

    def refuse(path, flags, *arguments, **options):
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(code, os.strerror(code), path)
        return real(path, flags, *arguments, **options)

    def utime(*arguments, **options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "utime", utime)
    with pytest.warns(DelassusWarning, match=os.strerror(code)) as caught:
        cache.store(OTHER_KEY, PAYLOAD)
        cache.store(OTHER_KEY, PAYLOAD)
    assert len(caught) == 1
    assert cache.load(OTHER_KEY) is None
    assert cache.load(KEY) == PAYLOAD
    assert list(folder.iterdir()) == [stored]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_leaves_the_old_file_and_nothing_else(stored, folder, monkeypatch, step):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.warns(DelassusWarning, match=os.strerror(errno.ENOSPC)):
        cache.store(KEY, b"new")
    assert list(folder.iterdir()) == [stored]
    assert cache.load(KEY) == PAYLOAD


def test_interrupted_write_leaves_nothing(folder, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.store(KEY, PAYLOAD)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_passing_trouble_does_not_remove_a_good_file(stored, monkeypatch, code):
    def fail(*arguments):
        raise OSError(code, os.strerror(code))

    for function in ("open", "fstat"):
        with monkeypatch.context() as patched:
            patched.setattr(os, function, fail)
            with pytest.warns(DelassusWarning, match=os.strerror(code)):
                assert cache.load(KEY) is None
    assert cache.load(KEY) == PAYLOAD


def test_without_users_owners_are_not_checked(folder, monkeypatch):
    """As on Windows, where every mode reads as writable by all."""
    cache.store(KEY, PAYLOAD)
    if hasattr(os, "geteuid"):
        monkeypatch.delattr(os, "geteuid")
        folder.chmod(0o777)
    assert cache.load(KEY) == PAYLOAD


def test_directory_is_warned_of_once_by_many_threads(folder):
    folder.write_text("")
    with pytest.warns(DelassusWarning) as caught, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(cache.load, [KEY] * 200)) == {None}
    assert len(caught) == 1


# -- bounded size --------------------------------------------------------------------------------------------------


def age(path, seconds):
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_least_recently_used_goes_first(folder, monkeypatch):
    keys = [cache.cache_key(number=i) for i in range(5)]
    files = [folder / f"{key}.kernel" for key in keys]
    monkeypatch.setattr(cache, "LIMIT", 4 * (HEADER + 1000))
    for i, key in enumerate(keys[:4]):
        cache.store(key, bytes(1000))
        age(files[i], 100 - i)
    assert cache.load(keys[0]) == bytes(1000)  # used just now
    cache.store(keys[4], bytes(1000))
    assert names(folder) == {files[i].name for i in (0, 2, 3, 4)}
    cache.store(keys[1], bytes(1500))  # takes the place of two
    assert names(folder) == {files[i].name for i in (0, 1, 4)}
    assert sum(path.stat().st_size for path in folder.iterdir()) <= cache.LIMIT


def test_total_stays_bounded(folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 20_000)
    for i in range(100):
        cache.store(cache.cache_key(number=i), bytes(137 * i % 5000))
        assert cache.load(cache.cache_key(number=i)) is not None
        assert sum(path.stat().st_size for path in folder.iterdir()) <= cache.LIMIT


def test_the_kernel_just_stored_stays(stored, folder, monkeypatch):
    """Even where the clock says that everything else is newer."""
    age(stored, -1000)
    monkeypatch.setattr(cache, "LIMIT", HEADER + len(PAYLOAD))
    cache.store(OTHER_KEY, PAYLOAD)
    assert names(folder) == {f"{OTHER_KEY}.kernel"}


def test_payload_larger_than_the_cache_is_not_kept(stored, folder, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", HEADER + len(PAYLOAD))
    cache.store(OTHER_KEY, PAYLOAD + b"x")
    assert names(folder) == {stored.name}


def test_looks_at_all_files_are_few(folder, monkeypatch):
    """A store takes no longer where many are: one look at first, and one after each part of the limit."""
    looks, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
    monkeypatch.setattr(cache, "LIMIT", 40 * cache.PARTS * (HEADER + len(PAYLOAD)) // 10)
    for i in range(21):
        cache.store(cache.cache_key(number=i), PAYLOAD)
    assert len(looks) == 1 + 20 // 5


def test_temporary_files_of_dead_processes_are_removed(stored, folder, monkeypatch):
    old, new = (folder / f"{OTHER_KEY}.kernel.{digit * 16}.tmp" for digit in "01")
    lock = folder / f"{OTHER_KEY}.lock"
    for path in (old, new, lock):
        path.write_bytes(b"half")
    age(old, 2 * cache.STALE)
    age(lock, 2 * cache.STALE)
    monkeypatch.setattr(cache, "PARTS", cache.LIMIT)  # look each time
    cache.store(KEY, PAYLOAD)
    assert names(folder) == {stored.name, new.name}


def test_other_files_are_never_removed(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    strangers = ["notes.txt", "x.kernel", f"{KEY}.kernel.bak", f"{KEY}.kernel.0.tmp", KEY, "x.tmp"]
    for name in strangers:
        (folder / name).write_bytes(bytes(5000))
        age(folder / name, 10 * cache.STALE)
    (folder / f"{OTHER_KEY}.kernel").mkdir()
    monkeypatch.setattr(cache, "LIMIT", 5000)
    cache.store(KEY, PAYLOAD)
    assert names(folder) == {*strangers, f"{OTHER_KEY}.kernel", f"{KEY}.kernel"}


# -- many at once --------------------------------------------------------------------------------------------------


def payload_of(number):
    """Payloads of different lengths, so that a mixture of two would be seen."""
    return bytes([number % 50]) * (20_000 + 977 * (number % 50))


GOOD = {payload_of(number) for number in range(50)}


def store_and_load(worker, rounds, limit, warned, ready):
    """One of the processes of a race; its exit code is the number of wrong answers."""
    warnings.simplefilter("ignore" if warned else "error")
    cache.LIMIT = limit
    ready.wait(60)
    wrong = found = 0
    for i in range(rounds):
        cache.store(KEY, payload_of(worker + i))
        cache.store(cache.cache_key(number=i % 7), payload_of(i))
        for key in (KEY, cache.cache_key(number=(i + worker) % 7)):
            payload = cache.load(key)
            wrong += payload is not None and payload not in GOOD
            found += payload is not None
    sys.exit(min(wrong, 99) if found else 100)


def damage(worker, rounds, limit, warned, ready):
    """The spoiler of a race: it writes rubbish under the key's name, now as a new file and now over the old one."""
    ready.wait(60)
    path = Path(os.environ["DELASSUS_CACHE"]) / f"{KEY}.kernel"
    for i in range(rounds):
        if i % 2:
            path.unlink(missing_ok=True)
        with suppress(FileNotFoundError), path.open("r+b" if i % 3 else "wb") as file:
            file.write(bytes([i % 256]) * (1 + 37 * i))
        time.sleep(0.001)


def race(targets, rounds, limit=cache.LIMIT, warned=False):
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(len(targets))
    workers = [context.Process(target=t, args=(i, rounds, limit, warned, ready)) for i, t in enumerate(targets)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


@pytest.mark.slow
def test_two_processes_race(folder):
    """Nothing is warned of, nothing is mixed, nothing is left over."""
    race([store_and_load, store_and_load], 200)
    assert names(folder) == {f"{key}.kernel" for key in [KEY, *(cache.cache_key(number=i) for i in range(7))]}
    assert cache.load(KEY) in GOOD


@posix
def test_one_makes_and_the_others_wait(folder):
    with pytest.raises(ZeroDivisionError):
        cache.fetch(KEY, lambda: 1 // 0, WHAT)
    made = []
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(
            lambda _: cache.fetch(KEY, lambda: (made.append(1), time.sleep(0.1)) and PAYLOAD, WHAT), range(8)
        )
        assert set(found) == {PAYLOAD} and made == [1]
    assert names(folder) == {f"{KEY}.kernel"}


@posix
def test_who_dies_with_a_lock_blocks_nobody(folder):
    script = (
        "import time\n"
        "from delassus.compiler.machine import cache\n"
        f"cache.fetch({KEY!r}, lambda: (print('making', flush=True), time.sleep(600)), {WHAT!r})\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "making\n"
        process.kill()
    assert names(folder) == {f"{KEY}.lock"}
    assert cache.fetch(KEY, lambda: PAYLOAD, WHAT) == PAYLOAD
    assert names(folder) == {f"{KEY}.kernel"}


@posix
@pytest.mark.parametrize("patience", [0.0, 60.0])
def test_who_is_stopped_with_a_lock_is_waited_for_so_long(patience, folder, monkeypatch, caplog):
    """Waiting is announced, as compilation is, where it takes longer than so many seconds."""
    caplog.set_level("INFO", "delassus")
    monkeypatch.setattr(cache, "LONGEST_WAIT", 0.1)
    monkeypatch.setattr("delassus.errors.PATIENCE", patience)
    script = (
        "import sys\n"
        "from delassus.compiler.machine import cache\n"
        f"cache.fetch({KEY!r}, lambda: (print('making', flush=True), sys.stdin.read()) and {PAYLOAD!r}, {WHAT!r})\n"
    )
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", script], **pipes, text=True) as process:
        assert process.stdout.readline() == "making\n"
        process.send_signal(signal.SIGSTOP)
        try:
            assert cache.fetch(KEY, lambda: PAYLOAD, WHAT) == PAYLOAD
            said, other = caplog.text, f"for another process or thread to compile {WHAT}"
            assert f"not waiting any longer {other}" in said
            assert [f"waiting {other} …" in said, "waited 0." in said] == [not patience] * 2
            assert names(folder) == {f"{KEY}.kernel", f"{KEY}.lock"}
        finally:
            process.send_signal(signal.SIGCONT)
            process.stdin.close()
    assert process.returncode == 0 and names(folder) == {f"{KEY}.kernel"}


@pytest.mark.slow
def test_processes_race_while_kernels_are_evicted(folder):
    race([store_and_load] * 3, 100, limit=200_000)
    assert not [name for name in names(folder) if name.endswith(".tmp")]


@pytest.mark.slow
@posix
def test_processes_race_with_a_spoiler(folder):
    cache.store(KEY, payload_of(0))
    race([store_and_load, store_and_load, damage], 100, warned=True)
    cache.store(KEY, payload_of(3))
    assert cache.load(KEY) == payload_of(3)
    assert not [name for name in names(folder) if name.endswith(".tmp")]


def test_many_threads(folder):
    def work(worker):
        for i in range(30):
            cache.store(KEY, payload_of(worker + i))
            if cache.load(KEY) not in GOOD:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert names(folder) == {f"{KEY}.kernel"}


# -- whatever the system says --------------------------------------------------------------------------------------

CALLS = ("makedirs", "lstat", "stat", "access", "open", "fstat", "utime", "fsync", "replace", "unlink", "scandir")


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EIO, errno.ESTALE, errno.ELOOP, errno.ENOTDIR])
def test_no_trouble_stops_anything(stored, folder, monkeypatch, code):
    def fail(*arguments, **options):
        raise OSError(code, os.strerror(code))

    for call in CALLS:
        with monkeypatch.context() as patched, warnings.catch_warnings():
            warnings.simplefilter("ignore", DelassusWarning)
            patched.setattr(os, call, fail)
            assert cache.load(KEY) in (PAYLOAD, None)
            cache.store(OTHER_KEY, PAYLOAD)
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


@posix
def test_directory_of_mode_000(monkeypatch):
    """In a child that gives up what root may do."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "cache")
        folder.mkdir()
        user = os.geteuid() or 65534
        if os.geteuid() == 0:
            os.chmod(parent, 0o711)
            os.chown(folder, user, user)
        folder.chmod(0o000)
        monkeypatch.setenv("DELASSUS_CACHE", str(folder))
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                os.setuid(user)
                check_unusable("cannot be read", str(folder))
                status = 0
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        folder.chmod(0o700)


# -- contact loops -------------------------------------------------------------------------------------------------


def _halved(x):
    return 0.5 * x


class Planted:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def loop(folder, monkeypatch):
    """Makes a function anew, as another process would, calls it, and returns how often it was in the cache."""
    made = []
    optimised_code = runtime_loops.optimised_code
    monkeypatch.setattr(runtime_loops, "optimised_code", lambda text: made.append(text) or optimised_code(text))

    def call():
        made.clear()
        assert runtime_loops.compiled(_halved)(3.0) == 1.5
        return 1 - len(made)

    return call


def test_loops_are_kept_as_kernels_are(loop, folder):
    before = os.umask(0o002)
    try:
        assert (loop(), loop()) == (0, 1)
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    assert file.suffix == ".kernel"
    if hasattr(os, "geteuid"):
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o700, 0o600]


def test_loops_of_other_types_are_other_loops(folder):
    for _ in range(2):  # made, then read
        found = [runtime_loops.compiled(_halved)(x) for x in (3.0, 3, 5.0)]
        assert found == [1.5, 1.5, 2.5]
    assert len(list(folder.iterdir())) == 2


def damages(content, planted):
    """Forty: flipped bits, cut off, something in the middle gone or added, other content, code that waits to run."""
    choose = random.Random(0)
    for _ in range(20):
        at, bit = choose.randrange(len(content)), 1 << choose.randrange(8)
        yield content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
    for _ in range(7):
        yield content[: choose.randrange(len(content))]
    for _ in range(5):
        at = choose.randrange(len(content))
        yield content[:at] + content[at + choose.randrange(1, 100) :]
        yield content[:at] + os.urandom(8) + content[at:]
    yield b""
    code = pickle.dumps(Planted(planted))
    yield code
    yield content[:HEADER] + code


def test_damaged_loops_are_compiled_again_and_never_unpickled(loop, folder, tmp_path):
    loop()
    (file,) = folder.iterdir()
    content = file.read_bytes()
    for damaged in damages(content, tmp_path / "planted"):
        file.write_bytes(damaged)
        with pytest.warns(DelassusWarning, match=re.escape(f"{file} is not used: ")):
            assert loop() == 0
        assert loop() == 1
    assert not (tmp_path / "planted").exists()


@posix
def test_loops_that_others_may_have_written(loop, folder, tmp_path):
    loop()
    (file,) = folder.iterdir()
    code = pickle.dumps(Planted(tmp_path / "planted"))
    payload = cache._header(file.stem, code) + code  # whole, and by somebody else
    for mode in (0o660, 0o602):
        file.write_bytes(payload)
        file.chmod(mode)
        with pytest.warns(DelassusWarning, match="other users may write it"):
            assert loop() == 0
        assert loop() == 1
    folder.chmod(0o770)
    file.write_bytes(payload)
    with pytest.warns(DelassusWarning, match="other users may write it"):
        assert loop() == 0
    assert loop() == 0
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("trouble", ["off", "file", "full"])
def test_loops_without_a_cache(loop, folder, monkeypatch, trouble):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if trouble == "off":
        monkeypatch.setenv("DELASSUS_CACHE", "off")
    elif trouble == "file":
        folder.write_text("")
    else:
        monkeypatch.setattr(os, "fsync", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (loop(), loop()) == (0, 0)
    assert len(caught) == (trouble != "off")


@pytest.mark.slow
def test_processes_that_want_the_same_loop_compile_it_once(loop, folder):
    script = (
        "import logging\n"
        "from delassus import errors\n"
        "logging.basicConfig(level='INFO')\n"
        "errors.PATIENCE = 0.0\n"  # says what is compiled however fast it is
        "from tests_cache_loops import triple\n"
        "assert [triple(float(k)) for k in range(3)] == [0.0, 3.0, 6.0]\n"
    )
    module = folder.parent / "tests_cache_loops.py"
    module.write_text("from internals import compiled\n\n@compiled\ndef triple(x):\n    return 3.0 * x\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder.parent), *sys.path])}
    command = [sys.executable, "-c", script]
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0] and "Warning" not in "".join(said), said
    if hasattr(os, "geteuid"):
        assert "".join(said).count("compiling") == 1
    assert [path.suffix for path in folder.iterdir()] == [".kernel"]


@posix
def test_one_process_does_a_task_at_a_time(folder, monkeypatch):
    assert cache.only_one("a task") == folder
    assert cache.only_one("a task") is None and cache.only_one("another one") == folder
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    assert cache.only_one("a third one") is None


# -- what it costs -------------------------------------------------------------------------------------------------


def test_it_needs_the_standard_library_only():
    source = Path(cache.__file__).read_text()
    imported = {line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert imported - {"__future__", "delassus"} <= set(sys.stdlib_module_names)
