"""The cache of compiled code: whole files only, ours only, within a limit, and never in the way of a computation."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import stat
import subprocess
import sys
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

KEY, OTHER_KEY = cache.cache_key(robot="test"), cache.cache_key(robot="other")
PAYLOAD = bytes(range(256)) * 17
WHAT = "a kernel"
HEADER = len(cache.MAGIC) + len(cache.VERSION) + 32 + 64

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners and modes here")


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


def names(folder):
    return {path.name for path in folder.iterdir()}


def age(path, seconds):
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def check_unusable(reason, name=""):
    """A directory is refused once a process, by many threads too, and everything still works without it."""
    with pytest.warns(DelassusWarning, match=reason) as caught, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(cache.load, [KEY] * 20)) == {None}
    assert len(caught) == 1 and name in str(caught[0].message) and "DELASSUS_CACHE" in str(caught[0].message)
    cache.store(KEY, PAYLOAD)  # warnings are errors here
    assert cache.fetch(KEY, lambda: b"made", WHAT) == b"made" and cache.directory() is None


# -- keys, storing and loading ---------------------------------------------------------------------------------------


def test_keys_tell_names_types_and_values_apart_in_every_process():
    parts = [
        {}, {"a": ""}, {"a": 0}, {"a": "0"}, {"b": 0}, {"a": -1}, {"a": 1}, {"a": "1"}, {"a": 2**70},
        {"a": "x", "b": "y"}, {"a": "y", "b": "x"}, {"a": "xy", "b": ""}, {"ab": "xy"}, {"a": "é"}, {"a": "e\u0301"},
    ]  # fmt: skip
    assert len({cache.cache_key(**p) for p in parts}) == len(parts)
    script = "from delassus.compiler.machine.cache import cache_key; print(cache_key(a='x', c=3))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == cache.cache_key(c=3, a="x")


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_what_is_stored_is_loaded_and_private_whatever_the_umask(folder, mask):
    before = os.umask(mask)
    try:
        for payload in (b"", PAYLOAD, os.urandom(3_000_000), b"new"):
            cache.store(KEY, payload)
            assert cache.load(KEY) == payload and cache.load(OTHER_KEY) is None
            assert names(folder) == {f"{KEY}.kernel"}
    finally:
        os.umask(before)
    if hasattr(os, "geteuid"):
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())] == [0o700, 0o600]


# -- files that are damaged, or of others ----------------------------------------------------------------------------


def test_every_flipped_byte_and_every_truncation_is_seen(folder):
    """By what is wrong first; damaged files are removed, and warned of with their names, as errors too."""
    cache.store(KEY, b"kernel")
    (path,) = folder.iterdir()
    content, at = path.read_bytes(), len(cache.MAGIC)

    def check(damaged, reason):
        path.write_bytes(damaged)
        path.chmod(0o600)
        with pytest.warns(DelassusWarning, match=reason) as caught:
            assert cache.load(KEY) is None
        assert len(caught) == 1 and str(path) in str(caught[0].message) and caught[0].filename == __file__
        assert not path.exists()

    for place in range(len(content)):
        reason = "not a compiled" if place < at else "version" if place < at + 4 else "kernel's|checksum"
        for bits in (0x01, 0xFF):
            check(content[:place] + bytes([content[place] ^ bits]) + content[place + 1 :], reason)
        check(content[:place], "not a compiled" if place < at else "version" if place < at + 4 else "another|checksum")
    check(content + b"\0", "checksum")
    cache.store(OTHER_KEY, b"kernel")
    check((folder / f"{OTHER_KEY}.kernel").read_bytes(), "another kernel's")
    path.write_bytes(b"damaged")
    with pytest.raises(DelassusWarning, match="not a compiled kernel"):
        cache.load(KEY)
    assert not path.exists()


def open_files():
    """How many this process has, where the system says so."""
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


class Status:
    """A file's status with another owner."""

    def __init__(self, status):
        self.st_uid, self._status = status.st_uid + 1, status

    def __getattr__(self, name):
        return getattr(self._status, name)


def larger(path, patched, tmp_path):
    patched.setattr(cache, "LIMIT", path.stat().st_size - 1)


def of_another(path, patched, tmp_path):
    real = os.fstat
    patched.setattr(os, "fstat", lambda descriptor: Status(real(descriptor)))


def in_its_place(make):
    def made(path, patched, tmp_path):
        path.rename(tmp_path / "good")
        make(path, tmp_path)

    return made


UNFIT = {
    "larger": (larger, "larger than the cache", True),
    "owner": (of_another, "belongs to user", True),
    "group": (lambda path, *_: path.chmod(0o620), "other users may write it.*0620", True),
    "others": (lambda path, *_: path.chmod(0o602), "other users may write it.*0602", True),
    "link": (in_its_place(lambda path, tmp: path.symlink_to(tmp / "good")), "symbolic link", True),
    "directory": (in_its_place(lambda path, _: path.mkdir()), "not a regular file", False),
    "pipe": (in_its_place(lambda path, _: os.mkfifo(path, 0o600)), "not a regular file", True),
}
"""What is done to a stored file, what is said then, and whether it is removed."""


@posix
@pytest.mark.parametrize("what", UNFIT)
def test_files_that_others_may_have_written_are_refused(stored, monkeypatch, tmp_path, what):
    """No link is followed, no pipe is waited for, and no file stays open; what a link leads to stays, and the next one
    stored is used."""
    change, reason, removed = UNFIT[what]
    cache.load(KEY)
    before = open_files()
    with monkeypatch.context() as patched:
        change(stored, patched, tmp_path)
        with pytest.warns(DelassusWarning, match=reason) as caught:
            assert cache.load(KEY) is None
    assert len(caught) == 1 and str(stored) in str(caught[0].message) and os.path.lexists(stored) is not removed
    assert open_files() == before
    assert (tmp_path / "good").exists() == (what in ("link", "directory", "pipe"))
    if removed:
        cache.store(KEY, PAYLOAD)
        assert cache.load(KEY) == PAYLOAD
    else:
        with pytest.warns(DelassusWarning, match="not cached"):
            cache.store(KEY, PAYLOAD)


@posix
def test_reading_by_others_is_fine(stored, folder):
    stored.chmod(0o644)
    folder.chmod(0o755)
    assert cache.load(KEY) == PAYLOAD


@posix
def test_nothing_is_written_through_links(folder, stored, tmp_path, monkeypatch):
    """In the place of a file, or of the temporary one before it, where somebody guessed its name."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    stored.unlink()
    stored.symlink_to(victim)
    cache.store(KEY, PAYLOAD)
    assert victim.read_text() == "mine" and cache.load(KEY) == PAYLOAD
    monkeypatch.setattr(os, "urandom", bytes)
    temporary = folder / f"{KEY}.kernel.{'0' * 16}.tmp"
    temporary.symlink_to(victim)
    with pytest.warns(DelassusWarning, match="File exists"):
        cache.store(KEY, b"new")
    assert victim.read_text() == "mine" and cache.load(KEY) == PAYLOAD


# -- directories -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["off", " Off ", "0", "no", "false", ""])
def test_off(stored, monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELASSUS_CACHE", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.directory() is None and cache.only_one("a task") is None
    cache.store(OTHER_KEY, PAYLOAD)
    assert cache.load(KEY) is None
    assert names(tmp_path) == {"cache"} and names(stored.parent) == {stored.name}


@posix
@pytest.mark.parametrize(
    "platform, variables, expected",
    [
        ("linux", {"DELASSUS_CACHE": "here/é"}, "here/é"),
        ("linux", {"DELASSUS_CACHE": "~/there/"}, "there"),
        ("linux", {}, ".cache/delassus"),
        ("linux", {"XDG_CACHE_HOME": "{home}/xdg"}, "xdg/delassus"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, ".cache/delassus"),
        ("darwin", {}, "Library/Caches/delassus"),
        ("win32", {"LOCALAPPDATA": "{home}/local"}, "local/delassus/cache"),
        ("win32", {}, "AppData/Local/delassus/cache"),
    ],
)
def test_where_it_is(monkeypatch, tmp_path, platform, variables, expected):
    for name in ("DELASSUS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.directory() == tmp_path / expected
    assert stat.S_IMODE((tmp_path / expected).stat().st_mode) == 0o700


def no_home(folder, patched):
    patched.setenv("DELASSUS_CACHE", "~no-such-user-here/cache")


def no_current_directory(folder, patched):
    folder.mkdir()
    patched.chdir(folder)
    folder.rmdir()
    patched.setenv("DELASSUS_CACHE", "here")


def below_a_file(folder, patched):
    folder.write_text("")
    patched.setenv("DELASSUS_CACHE", str(folder / "below"))


def link_to_a_writeable_one(folder, patched):
    (folder.parent / "real").mkdir()
    (folder.parent / "real").chmod(0o777)
    folder.symlink_to(folder.parent / "real")


def link_of_another(folder, patched):
    """Somebody who lays a link at the place of our cache does not choose where we write."""
    (folder.parent / "real").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "real")
    real = os.lstat
    patched.setattr(os, "lstat", lambda path, **how: Status(real(path)) if Path(path) == folder else real(path, **how))


def of_another_user(folder, patched):
    folder.mkdir(mode=0o700)
    owner = os.geteuid()
    patched.setattr(os, "geteuid", lambda: owner + 1)


def writeable(mode):
    def made(folder, patched):
        folder.mkdir()
        folder.chmod(mode)

    return made


UNUSABLE = {
    "no home": (no_home, "home directory"),
    "no current directory": (no_current_directory, "No such file"),
    "a file": (lambda folder, _: folder.write_text(""), "not a directory"),
    "below a file": (below_a_file, "Not a directory|cannot find"),
    "group": (writeable(0o770), "other users may write it"),
    "sticky": (writeable(0o1777), "other users may write it"),
    "owner": (of_another_user, "belongs to user"),
    "writeable": (link_to_a_writeable_one, "other users may write it"),
    "link of another": (link_of_another, "symbolic link of user"),
    "unread": (lambda folder, patched: patched.setattr(os, "access", lambda *_: False), "cannot be read"),
}
"""What is done to a directory, and what is said of it."""


@posix
@pytest.mark.parametrize("what", UNUSABLE)
def test_directories_that_cannot_be_used_are_named_once(folder, monkeypatch, what):
    change, reason = UNUSABLE[what]
    change(folder, monkeypatch)
    check_unusable(reason, "" if what in ("no home", "no current directory") else str(folder))
    assert what != "link of another" or not names(folder.parent / "real")


@posix
def test_our_own_link_to_a_directory_of_ours_is_followed(folder, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD and len(names(tmp_path / "real")) == 1


# -- whatever the system says ----------------------------------------------------------------------------------------


def test_a_read_only_file_system_can_be_read(stored, folder, monkeypatch):
    real = os.open

    def refuse(path, flags=os.O_WRONLY, *arguments, **options):
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "utime", lambda path, *_: refuse(path))
    with pytest.warns(DelassusWarning, match=os.strerror(errno.EROFS)) as caught:
        for _ in range(2):
            assert cache.fetch(OTHER_KEY, lambda: b"made", WHAT) == b"made"
    assert len(caught) == 1 and cache.load(OTHER_KEY) is None
    assert cache.load(KEY) == PAYLOAD and list(folder.iterdir()) == [stored]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(stored, folder, monkeypatch, step):
    raised = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()]

    def fail(*_):
        raise raised.pop(0)

    monkeypatch.setattr(os, step, fail)
    with pytest.warns(DelassusWarning, match=os.strerror(errno.ENOSPC)):
        cache.store(KEY, b"new")
    with pytest.raises(KeyboardInterrupt):
        cache.store(KEY, b"new")
    assert list(folder.iterdir()) == [stored] and cache.load(KEY) == PAYLOAD


CALLS = ("makedirs", "lstat", "stat", "access", "open", "fstat", "utime", "fsync", "replace", "unlink", "scandir")


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EIO, errno.ELOOP])
def test_no_trouble_stops_anything(stored, monkeypatch, code):
    """Nor does one that passes remove a good file, but where it may not be read."""

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    for call in CALLS:
        with monkeypatch.context() as patched, warnings.catch_warnings():
            warnings.simplefilter("ignore", DelassusWarning)
            patched.setattr(os, call, fail)
            assert cache.load(KEY) in (PAYLOAD, None)
            assert cache.fetch(OTHER_KEY, lambda: PAYLOAD, WHAT) == PAYLOAD
        assert code == errno.EACCES or cache.load(KEY) == PAYLOAD
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


def test_without_users_owners_are_not_checked(folder, monkeypatch):
    """As on Windows, where every mode reads as writeable by all."""
    cache.store(KEY, PAYLOAD)
    if hasattr(os, "geteuid"):
        monkeypatch.delattr(os, "geteuid")
        folder.chmod(0o777)
    assert cache.load(KEY) == PAYLOAD


# -- bounded size ----------------------------------------------------------------------------------------------------


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
    for path in folder.iterdir():
        age(path, -1000)  # the one just stored stays even where the clock says that all else is newer
    cache.store(keys[2], bytes(4 * 1000))
    assert names(folder) == {files[2].name}
    cache.store(keys[3], bytes(cache.LIMIT))  # larger than the cache
    assert names(folder) == {files[2].name}


def test_looks_at_all_files_are_few(folder, monkeypatch):
    """A store takes no longer where many are: one look at first, and one after each part of the limit."""
    looks, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
    monkeypatch.setattr(cache, "LIMIT", 40 * cache.PARTS * (HEADER + len(PAYLOAD)) // 10)
    for i in range(21):
        cache.store(cache.cache_key(number=i), PAYLOAD)
    assert len(looks) == 1 + 20 // 5


def test_what_dead_processes_left_is_removed_and_what_is_not_ours_is_not(stored, folder, monkeypatch):
    old, new = (folder / f"{OTHER_KEY}.kernel.{digit * 16}.tmp" for digit in "01")
    lock = folder / f"{OTHER_KEY}.lock"
    strangers = [folder / name for name in ("notes.txt", "x.kernel", f"{KEY}.kernel.bak", f"{KEY}.kernel.0.tmp", KEY)]
    for path in (old, new, lock, *strangers):
        path.write_bytes(bytes(5000))
        if path != new:
            age(path, 2 * cache.STALE)
    (folder / f"{OTHER_KEY}.kernel").mkdir()
    monkeypatch.setattr(cache, "LIMIT", 5000)
    cache.store(KEY, PAYLOAD)
    assert names(folder) == {stored.name, new.name, f"{OTHER_KEY}.kernel", *(path.name for path in strangers)}


# -- many at once ----------------------------------------------------------------------------------------------------


def payload_of(number):
    """Payloads of different lengths, so that a mixture of two would be seen."""
    return bytes([number % 50]) * (20_000 + 977 * (number % 50))


GOOD = {payload_of(number) for number in range(50)}


def store_and_load(worker, warned, ready):
    """One of the processes of a race; its exit code is the number of wrong answers."""
    warnings.simplefilter("ignore" if warned else "error")
    cache.LIMIT = 200_000
    ready.wait(60)
    wrong = found = 0
    for i in range(100):
        cache.store(KEY, payload_of(worker + i))
        cache.store(cache.cache_key(number=i % 7), payload_of(i))
        for key in (KEY, cache.cache_key(number=(i + worker) % 7)):
            payload = cache.load(key)
            wrong += payload is not None and payload not in GOOD
            found += payload is not None
    sys.exit(min(wrong, 99) if found else 100)


def damage(worker, warned, ready):
    """The spoiler of a race: it writes rubbish under the key's name, now as a new file and now over the old one."""
    ready.wait(60)
    path = Path(os.environ["DELASSUS_CACHE"]) / f"{KEY}.kernel"
    for i in range(100):
        if i % 2:
            path.unlink(missing_ok=True)
        with suppress(FileNotFoundError), path.open("r+b" if i % 3 else "wb") as file:
            file.write(bytes([i % 256]) * (1 + 37 * i))
        time.sleep(0.001)


@pytest.mark.slow
@posix
@pytest.mark.parametrize("spoiled", [False, True])
def test_processes_race_while_kernels_are_evicted(folder, spoiled):
    """Nothing is mixed, nothing is left over, and nothing is warned of where nobody spoils it."""
    targets = [store_and_load, store_and_load, damage if spoiled else store_and_load]
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(len(targets))
    workers = [context.Process(target=t, args=(i, spoiled, ready)) for i, t in enumerate(targets)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * len(workers)
    assert not [name for name in names(folder) if name.endswith(".tmp")]
    cache.store(KEY, payload_of(3))
    assert cache.load(KEY) == payload_of(3)


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


def maker(made):
    """A process that has begun to make a kernel; it ends when its input does."""
    script = (
        "import sys\n"
        "from delassus.compiler.machine import cache\n"
        f"cache.fetch({KEY!r}, lambda: (print('making', flush=True), sys.stdin.read()) and {made!r}, {WHAT!r})\n"
    )
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", script], **pipes, text=True)
    assert process.stdout.readline() == "making\n"
    return process


@posix
def test_who_dies_with_a_lock_blocks_nobody(folder):
    with maker(b"") as process:
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
    with maker(PAYLOAD) as process:
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


@posix
def test_one_process_does_a_task_at_a_time(folder):
    assert cache.only_one("a task") == folder
    assert cache.only_one("a task") is None and cache.only_one("another one") == folder


# -- contact loops ---------------------------------------------------------------------------------------------------


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

    def call(x=3.0):
        made.clear()
        assert runtime_loops.compiled(_halved)(x) == 0.5 * x
        return 1 - len(made)

    return call


def test_loops_are_kept_as_kernels_are(loop, folder, tmp_path, monkeypatch):
    """Those of other types are others; what is damaged is never unpickled, and without a cache all is made anew."""
    assert (loop(), loop()) == (0, 1)
    (file,) = folder.iterdir()
    content, code = file.read_bytes(), pickle.dumps(Planted(tmp_path / "planted"))
    whole = cache._header(file.stem, code) + code  # by somebody else
    for damaged, mode in ((content[:-1], 0o600), (code, 0o600), (content[:HEADER] + code, 0o600), (whole, 0o660)):
        file.write_bytes(damaged)
        file.chmod(mode)
        if mode == 0o600 or hasattr(os, "geteuid"):
            with pytest.warns(DelassusWarning, match="is not used: "):
                assert loop() == 0
            assert loop() == 1
    assert not (tmp_path / "planted").exists()
    assert (loop(3), loop(3)) == (0, 1) and len(names(folder)) == 2
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    assert (loop(), loop()) == (0, 0)


@pytest.mark.slow
def test_processes_that_want_the_same_loop_compile_it_once(folder):
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
