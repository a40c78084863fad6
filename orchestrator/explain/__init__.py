"""Why calls and runs took as long as they did, told from the ledger and the log, in plain words."""
