"""Load benchmarks and experiments on the same owner code that the daemon runs."""
