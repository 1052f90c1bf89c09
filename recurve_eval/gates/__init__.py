"""Gate components: what judges the work while the agent is still there to mend it."""
