"""From sealed rows to what a reader needs: summary.json, summary.md and figures.

SciPy, statsmodels and Matplotlib are imported only when something is computed or drawn.
"""

from recurve_eval.analysis.options import AnalysisOptions
from recurve_eval.analysis.pairing import Pairing, pair, stratify
from recurve_eval.analysis.records import Record, records_of
from recurve_eval.analysis.summary import Summary, analyze_rows

__all__ = ["AnalysisOptions", "Pairing", "Record", "Summary", "analyze_rows", "pair", "records_of", "stratify"]
