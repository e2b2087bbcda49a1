"""How good a ranker is: exact figures over all workers after training, quick ones while it runs."""

from ps_cluster.metrics.exact_auc import Evaluation, ScoreSpill, one_worker
from ps_cluster.metrics.window import WindowAuc, window_auc

__all__ = ["Evaluation", "ScoreSpill", "WindowAuc", "one_worker", "window_auc"]
