"""MLflow as a mirror to browse and a source to analyze. Nothing outside this package imports mlflow."""

from recurve_eval.tracking.mlflow.client import outputs_of
from recurve_eval.tracking.mlflow.tracker import MlflowTracker

__all__ = ["MlflowTracker", "outputs_of"]
