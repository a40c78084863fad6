"""A trace under several policies: waits, limits, fairness, goodput."""
