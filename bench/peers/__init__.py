"""The same two jobs, from the same clients, behind everything that people put before a provider's limits."""
