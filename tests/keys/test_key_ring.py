"""Keys as data: made, verified, ended."""

import logging
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from agents.port import Priority
from orchestrator.keys import KeyRecord, KeyRing, NewKey, UnknownKey

NOW = 1_700_000_000.0


def one(ring: KeyRing | None = None, tenant: str = "acme", **given: object) -> tuple[KeyRing, NewKey]:
    return (ring or KeyRing()).add(tenant, NOW, **given)  # type: ignore[arg-type]


def test_a_key_is_known_by_its_secret_and_by_nothing_less() -> None:
    """The whole key is its record; its id with another secret, or its secret with another id, is nobody."""
    ring, new = one()
    ring, other = one(ring)
    assert ring.verify(new.text, NOW) == new.record
    _, key_id, secret = new.text.split("-")
    _, other_id, other_secret = other.text.split("-")
    for wrong in (
        f"hr-{key_id}-{other_secret}",
        f"hr-{other_id}-{secret}",
        f"hr-{'0' * 12}-{secret}",
        f"hr-{key_id}-{new.record.sha256}",
        new.text[:-1],
        new.text + "0",
        new.text.upper(),
        f"{new.text}\n",
        secret,
        "",
    ):
        assert ring.verify(wrong, NOW) is None


@given(st.text(max_size=120))
def test_no_other_text_is_a_key(text: str) -> None:
    """Whatever is sent in place of a key, it is nobody's and no error."""
    ring, _ = one()
    assert ring.verify(text, NOW) is None


def test_an_expired_or_revoked_key_is_nobody() -> None:
    """It holds until the moment it expires; revoked, it holds no more, and revoking it again changes nothing."""
    ring, new = one(expires=NOW + 10)
    assert ring.verify(new.text, NOW + 9.9) is not None
    assert ring.verify(new.text, NOW + 10) is None
    revoked, record = ring.revoke(new.record.id, NOW + 1)
    assert revoked.verify(new.text, NOW + 2) is None
    assert ring.verify(new.text, NOW + 2) is not None
    assert revoked.revoke(new.record.id, NOW + 5)[1].revoked == record.revoked == NOW + 1
    assert revoked.revoke(new.text, NOW + 5)[1].revoked == NOW + 1


def test_a_ring_whose_last_key_was_ended_still_asks_for_one() -> None:
    """Revoking the only key opens nothing: the ring counts as one with keys."""
    ring, new = one()
    assert not KeyRing()
    assert ring
    assert ring.revoke(new.record.id, NOW)[0]


def test_what_a_key_may_is_on_its_record() -> None:
    """Tenant and role, and its priority capped only where that was said."""
    ring, plain = one()
    ring, capped = one(ring, "ops", role="admin", highest_priority="batch", name="cron")
    assert (plain.record.admin, plain.record.priority) == (False, Priority.INTERACTIVE)
    assert (capped.record.tenant, capped.record.admin, capped.record.priority) == ("ops", True, Priority.BATCH)
    assert [record.name for record in ring] == ["", "cron"]


@pytest.mark.parametrize("given", [{"tenant": "a b"}, {"expires": NOW}, {"name": "x\ny"}, {"name": "x" * 201}])
def test_what_makes_no_sense_makes_no_key(given: dict[str, object]) -> None:
    """A tenant that is no name, an end in the past, a name that would break a table."""
    with pytest.raises(InvalidLimits):
        one(**given)  # type: ignore[arg-type]


def test_two_keys_of_one_id_are_no_ring() -> None:
    """A file in which an id stands twice is refused: nobody could say which of them was revoked."""
    _, new = one()
    with pytest.raises(InvalidLimits, match="two keys"):
        KeyRing([new.record, new.record])


def test_no_secret_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Neither repr nor log nor the error about a key that is not there shows a secret, or its digest."""
    ring, new = one()
    secret = new.text.rpartition("-")[2]
    logging.getLogger("x").warning("%r %r %r %s", new, new.record, ring, list(ring))
    with pytest.raises(UnknownKey) as unknown:
        KeyRing().revoke(new.text, NOW)
    with pytest.raises(UnknownKey) as mistyped:
        KeyRing().revoke(new.text[:-2], NOW)
    shown = [caplog.text, *(line for error in (unknown, mistyped) for line in traceback.format_exception(error.value))]
    for text in shown:
        assert secret not in text
        assert secret[:-2] not in text
        assert new.record.sha256 not in text
    assert new.record.id in str(unknown.value)


def test_a_record_with_a_broken_digest_is_refused() -> None:
    """A digest that is none would be compared with nothing; the file that has it is wrong."""
    with pytest.raises(InvalidLimits):
        KeyRecord(id="0" * 12, sha256="xyz", tenant="acme")
