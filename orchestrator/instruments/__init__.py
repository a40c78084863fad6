"""What shows the inside to the outside: hooks on transitions and events that feed metrics and logs."""
