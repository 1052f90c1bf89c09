"""Running a plan's pending cells: the run itself, the local pool, progress."""
