"""Callers who want to be admitted."""

import math
from collections.abc import Iterable

from agents.port import Priority
from orchestrator.policy.admission import ADMITTED, Admission, AdmissionConfig
from orchestrator.policy.ticket import Ticket

SMALL = AdmissionConfig(tenant_calls=4, tenant_bytes=4_000, calls=10, bytes=10_000)


class Callers:
    """Makes tickets with rising numbers; each is 100 weighted tokens of work and 100 bytes unless said otherwise."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(
        self,
        tenant: str = "a",
        priority: Priority = Priority.STANDARD,
        *,
        agent: bool = False,
        bytes: int = 100,
        deadline: float = math.inf,
        work: float = 100.0,
    ) -> Ticket:
        self.made += 1
        return Ticket(
            seq=self.made,
            tenant=tenant,
            priority=priority,
            agent=agent,
            bytes=bytes,
            deadline=deadline,
            input=work,
        )


def admit_all(admission: Admission, tickets: Iterable[Ticket], now: float = 0.0) -> list[Ticket]:
    held = list(tickets)
    for ticket in held:
        assert admission.admit(ticket, now) is ADMITTED
    return held
