"""Statistics as pure functions: counts in, typed results out; no row, file or clock is known here.

A statistic without a value is an :class:`Undefined` with its reason. SciPy and statsmodels are imported
when a function that needs them is called, so importing this package is cheap.
"""

from recurve_eval.stats.agreement import MissCorrelation, kappa, miss_correlation, phi
from recurve_eval.stats.attempts import pass_at_k, pass_hat_k
from recurve_eval.stats.mcnemar import mcnemar_asymptotic, mcnemar_clustered, mcnemar_exact, mcnemar_midp
from recurve_eval.stats.multiple import cochran_q, holm
from recurve_eval.stats.paired import newcombe_paired, tango_paired
from recurve_eval.stats.power import DetectableEffect, fewest_discordant, mcnemar_power, smallest_detectable_effect
from recurve_eval.stats.predictive import fdr_score, weighted_generalised_score
from recurve_eval.stats.proportions import corrected_rate, wilson, wilson_clustered
from recurve_eval.stats.resample import cluster_bootstrap, expanded_percentile, resampled_sums, sign_flip
from recurve_eval.stats.results import Estimate, Interval, PairedTable, Rate, ShapeError, Test, Undefined, is_defined

__all__ = [
    "DetectableEffect", "Estimate", "Interval", "MissCorrelation", "PairedTable", "Rate", "ShapeError",
    "Test", "Undefined",
    "cluster_bootstrap", "cochran_q", "corrected_rate", "expanded_percentile", "fdr_score",
    "fewest_discordant", "holm", "is_defined", "kappa", "mcnemar_asymptotic", "mcnemar_clustered", "mcnemar_exact",
    "mcnemar_midp", "mcnemar_power", "miss_correlation", "newcombe_paired", "pass_at_k",
    "pass_hat_k", "phi", "resampled_sums", "sign_flip",
    "smallest_detectable_effect", "tango_paired", "weighted_generalised_score", "wilson", "wilson_clustered",
]  # fmt: skip
