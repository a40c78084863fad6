"""What would have changed: the calls of a daemon's ledger, played again under another configuration."""
