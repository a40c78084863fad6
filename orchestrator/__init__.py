"""The daemon's side: owners, scheduling policy, backends, jobs and the command line."""
