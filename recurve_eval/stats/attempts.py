"""Success over several attempts at one task."""

from __future__ import annotations

from math import comb

from recurve_eval.stats.results import ShapeError, Undefined


def pass_at_k(n: int, correct: int, k: int) -> float | Undefined:
    """Chance that at least one of ``k`` attempts passes, estimated without bias from ``n`` attempts.

    ``1 - C(n - correct, k) / C(n, k)``: Chen et al., "Evaluating Large Language Models Trained on Code"
    (2021), eq. 1. Undefined where fewer than ``k`` attempts were made.
    """
    _check(n, correct, k)
    if n < k:
        return Undefined(f"{k} attempts are asked for and {n} were made")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def pass_hat_k(n: int, correct: int, k: int) -> float | Undefined:
    """Chance that all of ``k`` attempts pass (pass^k), estimated without bias from ``n`` attempts.

    ``C(correct, k) / C(n, k)``: Yao et al., "tau-bench" (2024), section 3. Undefined as above.
    """
    _check(n, correct, k)
    if n < k:
        return Undefined(f"{k} attempts are asked for and {n} were made")
    return comb(correct, k) / comb(n, k)


def _check(n: int, correct: int, k: int) -> None:
    if k < 1 or not 0 <= correct <= n:
        raise ShapeError(f"need k >= 1 and 0 <= correct <= n; got n={n}, correct={correct}, k={k}")
