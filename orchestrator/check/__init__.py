"""What a backend can do, found out by a handful of real requests."""
