"""Test figures over the rows of all workers, streaming."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ps_cluster.job.resolve import label_column
from ps_cluster.metrics.exact_auc import Evaluation, ScoreSpill
from ps_cluster.train.batches import LookAhead, Read, ReadCounts
from ps_cluster.train.collective import gathered
from ps_cluster.train.labels import check_labels
from ps_cluster.train.shares import Share

_PROGRESS_EVERY_BATCHES = 20


def evaluate(
    share: Share,
    label: str,
    make_score: Callable[[dict], Callable[[dict], tf.Tensor]],
    scratch: str,
    progress: Callable[[int], None],
) -> tuple[Evaluation, ReadCounts]:
    """Scores this worker's share of the test rows and evaluates all workers' together; also
    tells what was wrong with the rows.

    Args:
      share: this worker's, one epoch, unshuffled.
      label: name of the label column.
      make_score: from the columns' specs to the function that scores a batch.
      scratch: folder for scores that do not fit into memory; made where they do not.
      progress: told the rows this worker has scored.

    Raises:
      DataError: a label is neither 0 nor 1; names file, column and row.
    """
    with LookAhead(share.spec, [Read(share.spec, share.plan)]) as batches, ScoreSpill(scratch) as spill:
        score = make_score(batches.element_spec)
        done = 0
        for number, batch in enumerate(batches):
            labels = np.asarray(batch.columns[label])
            check_labels(labels, label_column(label), share.spec)
            spill.add(score(batch.columns).numpy(), labels)
            done += batch.rows
            if number % _PROGRESS_EVERY_BATCHES == 0:
                progress(done)
        progress(done)
        return spill.evaluate(gathered), batches.counts_of_all()
