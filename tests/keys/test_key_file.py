"""Keys on disk: written whole, under a lock, followed by whoever serves."""

import multiprocessing
import os
import stat
from pathlib import Path

import pytest
import structlog

from orchestrator.durable import write_durably
from orchestrator.key_file import KEYS, LOOK_SECONDS, FollowedKeys, KeyFileError, change_keys, read_keys
from orchestrator.keys import KeyRecord, KeyRing, NewKey

NOW = 1_700_000_000.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def add(folder: Path, tenant: str = "acme") -> NewKey:
    return change_keys(folder, lambda ring: ring.add(tenant, NOW))


def revoke(folder: Path, key_id: str) -> KeyRecord:
    return change_keys(folder, lambda ring: ring.revoke(key_id, NOW))


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    """All of a key but its secret comes back, from a folder that was not there before."""
    folder = tmp_path / "new" / "data"
    new = change_keys(folder, lambda ring: ring.add("acme", NOW, name="web", role="admin", highest_priority="batch"))
    assert list(read_keys(folder)) == [new.record]
    assert read_keys(folder).verify(new.text, NOW) == new.record
    assert new.text.rpartition("-")[2] not in (folder / KEYS).read_text()


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """The file is 0600 and a folder made for it 0700, whatever the umask allows."""
    before = os.umask(0)
    try:
        add(tmp_path / "data")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / KEYS).stat().st_mode) == 0o600


def test_a_change_that_fails_leaves_the_file(tmp_path: Path) -> None:
    """An error on the way, as of an id that nobody has, changes no byte and leaves nothing beside the file."""
    add(tmp_path)
    before, names = (tmp_path / KEYS).read_bytes(), sorted(os.listdir(tmp_path))
    with pytest.raises(Exception, match="no such key"):
        revoke(tmp_path, "nobody")
    assert (tmp_path / KEYS).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == names


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full there is the old file, whole, and no half of a new one."""
    write_durably(tmp_path / "x", b"old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def _add_many(folder: Path, tenant: str) -> None:
    for _ in range(10):
        add(folder, tenant)


def test_commands_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Four processes that add ten keys each leave forty."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(tmp_path, f"t{n}")) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted({record.tenant for record in read_keys(tmp_path)}) == ["t0", "t1", "t2", "t3"]
    assert len(read_keys(tmp_path)) == 40


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no file of keys"),
        ("{}", "is no file of keys"),
        ('{"version": 2, "keys": []}', "version 2"),
        ('{"version": 1, "keys": [{"id": "x", "sha256": "y", "tenant": "acme"}]}', "is no file of keys"),
        ('{"version": 1, "keys": [{"id": "x"}]}', "tenant|sha256"),
    ],
)
def test_a_file_that_is_none_is_told_and_not_taken_for_empty(text: str, words: str, tmp_path: Path) -> None:
    """Broken keys are an error that names the file; read as none they would open the daemon to everybody."""
    (tmp_path / KEYS).write_text(text)
    with pytest.raises(KeyFileError, match=words):
        read_keys(tmp_path)
    with pytest.raises(KeyFileError, match=words):
        FollowedKeys(tmp_path, Clock())


def test_changes_are_followed_within_a_second(tmp_path: Path) -> None:
    """A key added or revoked by a command counts at the next look, and the file is looked at once a second at most."""
    clock = Clock()
    followed = FollowedKeys(tmp_path, clock)
    assert not followed.ring()
    new = add(tmp_path)
    assert not followed.ring()
    clock.now += LOOK_SECONDS
    assert followed.ring().verify(new.text, NOW) == new.record
    revoke(tmp_path, new.record.id)
    clock.now += LOOK_SECONDS / 2
    assert followed.ring().verify(new.text, NOW) is not None
    clock.now += LOOK_SECONDS / 2
    assert followed.ring().verify(new.text, NOW) is None
    assert followed.ring()


def test_reading_on_request_does_not_wait_for_the_next_look(tmp_path: Path) -> None:
    """What a signal asks for is done at once."""
    followed = FollowedKeys(tmp_path, Clock())
    new = add(tmp_path)
    assert followed.read()
    assert followed.ring().verify(new.text, NOW) == new.record


@pytest.mark.parametrize("ruin", ["gone", "broken", "emptied"])
def test_a_file_that_is_ruined_opens_nothing(ruin: str, tmp_path: Path) -> None:
    """Removed, broken or emptied under a daemon, it leaves the keys last read in force, and the log says so once."""
    new = add(tmp_path)
    clock = Clock()
    followed = FollowedKeys(tmp_path, clock)
    path = tmp_path / KEYS
    if ruin == "gone":
        path.unlink()
    else:
        path.write_text("{" if ruin == "broken" else '{"version": 1, "keys": []}')
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            clock.now += LOOK_SECONDS
            assert followed.ring().verify(new.text, NOW) == new.record
            assert followed.ring().verify("hr-0", NOW) is None
    assert [line["event"] for line in logs] == ["the keys stay as they were"]
    another = change_keys(tmp_path, lambda _: KeyRing([new.record]).add("web", NOW)) if ruin != "broken" else None
    if another is not None:
        clock.now += LOOK_SECONDS
        assert followed.ring().verify(another.text, NOW) == another.record
