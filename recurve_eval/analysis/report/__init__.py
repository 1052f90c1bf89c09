"""report.html: the summary and every cell's evidence in one file that needs no network."""

from recurve_eval.analysis.report.page import write_report

__all__ = ["write_report"]
