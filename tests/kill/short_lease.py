"""`headrace` over a schema of its own in the database, and with a lease of seconds instead of half a minute."""

import os
from functools import partial

from orchestrator.cli.app import main
from orchestrator.daemon import stores
from orchestrator.store.postgres import open_postgres

SCHEMA = "TEST_SCHEMA"
LEASE = "TEST_LEASE"

if __name__ == "__main__":
    stores.open_postgres = partial(  # type: ignore[assignment]
        open_postgres, schema=os.environ[SCHEMA], lease=float(os.environ[LEASE])
    )
    main()
