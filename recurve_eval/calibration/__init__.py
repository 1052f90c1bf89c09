"""The oracle graded against solutions known good and known bad, before any spend."""
