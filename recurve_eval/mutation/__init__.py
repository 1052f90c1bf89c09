"""Changes of source code: mutants, which alter what it does, and rewrites, which do not."""
