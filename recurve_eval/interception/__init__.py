"""Interception: known work, good and bad, put to each layer of a gate. No agent works, so no agent's noise is in it."""
