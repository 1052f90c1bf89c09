"""Benchmarks: pinned tasks with a public half, a held-out half, and solutions known good and bad."""
