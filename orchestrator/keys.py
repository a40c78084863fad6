"""API keys: who a client is, by a secret that this daemon can check and nobody can read back.

A key looks like `hr-ID-SECRET`. The id is public: it stands in lists and logs, and a key is revoked by it. The secret
is 32 random bytes in hexadecimal. Only its SHA-256 is kept: a slow hash is for passwords, which can be guessed, and
2^256 equally likely secrets cannot be.

**Verification takes the same time for every well-formed key**, whether its id is unknown, its secret wrong, or the key
revoked or expired: the secret is always hashed, always compared with a digest (a dummy one where the id is unknown) by
`hmac.compare_digest`, and everything else is looked at only when that is done. So time tells nothing of a secret, nor
which ids exist. What is not formed like a key is told at once, which says nothing of any key.

Rings are immutable, so a change is a new ring, and whoever reads one never sees half of a change. This file is pure but
for the random source; `key_file` keeps rings on disk.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec
from msgspec import Struct

from agents.errors import HeadraceError, InvalidLimits
from agents.port import Priority
from orchestrator.views.names import check_name

Role = Literal["tenant", "admin"]
PriorityWord = Literal["interactive", "standard", "batch"]

SECRET_BYTES: Final = 32
ID_BYTES: Final = 6
MOST_NAME: Final = 200

_KEY: Final = re.compile(r"hr-([0-9a-f]{12})-([0-9a-f]{64})")
_ID: Final = re.compile(r"[0-9a-f]{12}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NOBODY: Final = hashlib.sha256(b"").digest()


class UnknownKey(HeadraceError):
    """No key has this id."""


class KeyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a key; times are seconds since the epoch. Neither the secret nor its digest is in its repr.

    `highest_priority` caps what the key's work may ask for, below what the tenant may; None caps nothing.
    """

    id: str
    sha256: str
    tenant: str
    name: str = ""
    role: Role = "tenant"
    highest_priority: PriorityWord | None = None
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant)
        if not _ID.fullmatch(self.id) or not _DIGEST.fullmatch(self.sha256):
            raise InvalidLimits("id", "a key has an id of 12 and a digest of 64 hexadecimal digits")
        if len(self.name) > MOST_NAME or not (self.name.isprintable() or not self.name):
            raise InvalidLimits("name", f"must be at most {MOST_NAME} printable characters")

    @property
    def admin(self) -> bool:
        return self.role == "admin"

    @property
    def priority(self) -> Priority:
        """The highest priority its work may have."""
        return Priority.INTERACTIVE if self.highest_priority is None else Priority[self.highest_priority.upper()]

    def state(self, now: float) -> Literal["valid", "expired", "revoked"]:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"

    def __repr__(self) -> str:
        return f"<KeyRecord {self.id} of {self.tenant} ({self.role})>"


class NewKey:
    """A key just made. `text` is the only copy of it there will ever be, and no repr shows it."""

    __slots__ = ("record", "text")

    def __init__(self, record: KeyRecord, text: str) -> None:
        self.record = record
        self.text = text

    def __repr__(self) -> str:
        return f"<NewKey {self.record.id} of {self.record.tenant}>"


class KeyRing:
    """All keys, those that hold no more among them. `verify` costs the same whatever it is given; see above."""

    __slots__ = ("_by_id",)

    def __init__(self, records: Iterable[KeyRecord] = ()) -> None:
        self._by_id: dict[str, tuple[KeyRecord, bytes]] = {}
        for record in records:
            if record.id in self._by_id:
                raise InvalidLimits("id", f"there are two keys {record.id}")
            self._by_id[record.id] = record, bytes.fromhex(record.sha256)

    def __bool__(self) -> bool:
        """Whether there are keys. One that is revoked or expired counts: ending the last one opens nothing."""
        return bool(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[KeyRecord]:
        return (record for record, _ in self._by_id.values())

    def __repr__(self) -> str:
        return f"<KeyRing of {len(self._by_id)}>"

    def verify(self, text: str, now: float) -> KeyRecord | None:
        """The record of a key that holds at `now`; None for every other text, without saying why."""
        found = _KEY.fullmatch(text)
        if found is None:
            return None
        record, digest = self._by_id.get(found[1], (None, _NOBODY))
        same = hmac.compare_digest(hashlib.sha256(found[2].encode()).digest(), digest)
        if record is None or not same or record.state(now) != "valid":
            return None
        return record

    def add(
        self,
        tenant: str,
        now: float,
        *,
        name: str = "",
        role: Role = "tenant",
        highest_priority: PriorityWord | None = None,
        expires: float | None = None,
    ) -> tuple["KeyRing", NewKey]:
        """The ring with one more key, and that key. Raises `InvalidLimits`."""
        if expires is not None and expires <= now:
            raise InvalidLimits("expires", "must be in the future")
        key_id, secret = secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES)
        while key_id in self._by_id:
            key_id = secrets.token_hex(ID_BYTES)
        record = KeyRecord(
            id=key_id,
            sha256=hashlib.sha256(secret.encode()).hexdigest(),
            tenant=tenant,
            name=name,
            role=role,
            highest_priority=highest_priority,
            created=now,
            expires=expires,
        )
        return KeyRing([*self, record]), NewKey(record, f"hr-{key_id}-{secret}")

    def revoke(self, key_id: str, now: float) -> tuple["KeyRing", KeyRecord]:
        """The ring in which this key holds no more; a key revoked before stays as it is. A whole key names itself, too.

        Raises `UnknownKey`.
        """
        whole = _KEY.fullmatch(key_id)
        key_id = whole[1] if whole else key_id
        if key_id not in self._by_id:
            shown = f" {key_id!r}" if _ID.fullmatch(key_id) else ", and that is no id"  # it may be a secret, mistyped
            raise UnknownKey(f"there is no such key{shown}; `headrace keys ls` lists their ids")
        record, _ = self._by_id[key_id]
        if record.revoked is None:
            record = msgspec.structs.replace(record, revoked=now)
        return KeyRing([record if other.id == key_id else other for other in self]), record
