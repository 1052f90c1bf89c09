"""Sandboxes: places that an agent works in and, as far as each one goes, cannot leave."""
