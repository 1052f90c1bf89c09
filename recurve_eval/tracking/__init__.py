"""Mirrors of the ledger, to browse. The ledger is the truth; a tracker may lag, fail or be absent."""
