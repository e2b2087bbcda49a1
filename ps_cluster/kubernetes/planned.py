"""Sizes of pods as `ps-cluster plan` says, where the job file leaves them open."""

from __future__ import annotations

import os
import sys

from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile
from ps_cluster.kubernetes.quantities import memory
from ps_cluster.kubernetes.sizing import Sizing


def planned_sizing(job_file: JobFile) -> Sizing:
    """Reads the samples, in constant memory; says what it found on standard error.

    Raises:
      UserError: the samples are not here, and the job file does not say how many ids there are.
      DataError: they cannot be read.
    """
    from ps_cluster.cli.data.progress import Progress
    from ps_cluster.plan import constants
    from ps_cluster.plan.facts import facts_of, scan_of
    from ps_cluster.plan.plan import plan_of

    known = constants.load(None)
    with Progress("plan") as progress:
        scanned = scan_of(job_file, (), os.getcwd(), 1.0, progress.show)
    try:
        facts = facts_of(job_file, scanned, known)
    except UserError as error:
        raise UserError(f"{error} (or give kubernetes.ps.memory, kubernetes.worker.memory and both cpu)") from None
    plan = plan_of(facts, job_file.job.cluster.ps)
    found = Sizing(
        ps_memory_bytes=int(plan.server["memory_request_bytes"].value),
        ps_cores=job_file.job.planning.ps_cores,
        worker_memory_bytes=int(plan.worker["memory_request_bytes"].value),
        worker_cores=job_file.job.planning.worker_cores,
    )
    ps, worker = memory(found.ps_memory_bytes), memory(found.worker_memory_bytes)
    print(f"planned: {ps} of memory for each PS, {worker} for each worker (ps-cluster plan)", file=sys.stderr)
    return found
