"""Controllers: who decides that a cell is finished, and on whose word."""
