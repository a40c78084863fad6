"""Who asks: a client's tenant and rights, from the key in its headers.

**Without any key in the daemon's file** everybody who reaches it (which is this machine only) may do everything, and
names a tenant freely: in the body under `/api`, as `X-Headrace-Tenant` for the gateway.

**With keys** every request needs one that holds, as `Authorization: Bearer KEY` or as `x-api-key: KEY` (Anthropic's
SDK); whatever is not a bearer token in `Authorization`, as a proxy's own, is passed over. A tenant's key acts for its
tenant alone: another tenant's name is refused, and another tenant's runs and jobs are not there. An admin's key sees
everything and may name any tenant; it acts for its own where it names none.

`default` is what a tenant is called that nobody named, so with a key it means the key's own.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct
from starlette.types import Scope

from agents.port import Priority
from orchestrator.api.errors import Forbidden, Unauthorized
from orchestrator.keys import KeyRing
from orchestrator.views.names import check_name

DEFAULT_TENANT: Final = "default"
TENANT_HEADER: Final = "x-headrace-tenant"

HOW: Final = "send one as `Authorization: Bearer KEY` or `x-api-key: KEY`; `headrace keys add TENANT` makes one"

_KEY: Final = "headrace.client"
T = TypeVar("T")


class Client(Struct, frozen=True, kw_only=True):
    """Whose request it is. `tenant` is whom it acts for, `key` the id of its key, empty where none was asked for.

    Work of its key may have `highest_priority` at most.
    """

    tenant: str = DEFAULT_TENANT
    admin: bool = False
    key: str = ""
    highest_priority: Priority = Priority.INTERACTIVE

    def tenant_for(self, named: str) -> str:
        """The tenant that a request is for which names this one, or none. Raises `Forbidden`, `InvalidLimits`."""
        if not named or named == DEFAULT_TENANT:
            return self.tenant
        check_name("tenant", named)
        if named != self.tenant and not self.admin:
            raise Forbidden(f"this key is for tenant {self.tenant} and cannot act for another")
        return named

    def sees(self, tenant: str) -> bool:
        """Whether a tenant's runs, jobs and figures are there for it."""
        return self.admin or tenant == self.tenant

    def require_admin(self, what: str) -> None:
        """Raises `Forbidden` for a tenant's key; `what` begins the message."""
        if not self.admin:
            raise Forbidden(f"{what} needs an admin's key; `headrace keys add TENANT --admin` makes one")


EVERYBODY: Final = Client(admin=True)


class Identity:
    """Says who asks. `keys` is the ring in force, `wall` the time in seconds since the epoch."""

    def __init__(self, keys: Callable[[], KeyRing], wall: Callable[[], float]) -> None:
        self._keys = keys
        self._wall = wall

    def __call__(self, headers: Mapping[str, str]) -> Client:
        """The client of a request with these headers, whose names are in small letters or looked up in any case.

        Raises `Unauthorized`, `Forbidden`, `InvalidLimits`.
        """
        ring = self._keys()
        client = self._known(ring, headers) if ring else EVERYBODY
        named = headers.get(TENANT_HEADER, "")
        if named:
            return Client(
                tenant=client.tenant_for(named),
                admin=client.admin,
                key=client.key,
                highest_priority=client.highest_priority,
            )
        return client

    def _known(self, ring: KeyRing, headers: Mapping[str, str]) -> Client:
        sent = sent_key(headers)
        if not sent:
            raise Unauthorized(f"a key is needed here; {HOW}")
        record = ring.verify(sent, self._wall())
        if record is None:
            raise Unauthorized(f"this key is unknown, revoked or expired; {HOW}")
        return Client(tenant=record.tenant, admin=record.admin, key=record.id, highest_priority=record.priority)


def sent_key(headers: Mapping[str, str]) -> str:
    """The key that a request carries; empty if there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key", "").strip()


def attach_client(scope: Scope, client: Client) -> None:
    """Makes the client known to all that handles this request."""
    scope[_KEY] = client


def client_of(scope: Scope) -> Client:
    """Whose request this is. Only what asks for no key has none, and a request that nobody identified is a mistake."""
    client: Client = scope[_KEY]
    return client
