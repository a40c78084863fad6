"""`headrace-bench soak`: a daemon under mixed load for a while, and whether anything grows, slows down or is lost."""
