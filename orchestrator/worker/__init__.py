"""Worker processes: they drive runs of a daemon elsewhere."""
