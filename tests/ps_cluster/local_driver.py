"""A launcher whose started processes do as told: `local_driver OUTPUT MODES [--overwrite]`, MODES as JSON.

MODES names a mode of `local_child` for "ps 0", "worker 0" and so on; a PS in mode "real" is one.
"""

from __future__ import annotations

import json
import os
import sys

from ps_cluster.errors import RunError, UserError
from ps_cluster.job.membership import Role
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.schema import Job
from ps_cluster.launch.local import run_local

REAL_PS = """
from ps_cluster.job.membership import from_tf_config
from ps_cluster.roles.ps import run_ps
import os
run_ps(from_tf_config(os.environ["TF_CONFIG"], "ps"), libraries=[])
"""


def job_file(output: str, ps: int, workers: int, failures: dict | None = None, **cluster: object) -> JobFile:
    """A small job for `ps` PS and `workers` workers, which ends with its first failure unless `failures` says else."""
    job = Job.model_validate(
        {
            "name": "small",
            "data": {"train": ["train.orc"], "label": "label"},
            "features": [{"name": "user", "kind": "id", "dim": 4}],
            "model": {"name": "deepfm"},
            "optimizers": {
                "sparse": {"name": "sgd", "learning_rate": 0.1},
                "dense": {"name": "sgd", "learning_rate": 0.1},
            },
            "training": {"batch_size": 8},
            "cluster": {"ps": ps, "workers": workers, **cluster},
            "failures": failures or {"max_restarts": 0},
            "output": output,
        }
    )
    return JobFile(job=job, path="job.yaml", folder=os.path.dirname(output), text="")


def main() -> int:
    output, modes = sys.argv[1], json.loads(sys.argv[2])

    def command(role: Role, index: int, job_path: str) -> list[str]:
        mode = modes[f"{role} {index}"]
        if mode == "real":
            return [sys.executable, "-c", REAL_PS, output]
        return [sys.executable, "-m", "tests.ps_cluster.local_child", role, str(index), mode, output]

    count = {role: sum(name.startswith(role) for name in modes) for role in ("ps", "worker")}
    try:
        return run_local(
            job_file(output, count["ps"], count["worker"], json.loads(os.environ.get("DRIVER_FAILURES", "null"))),
            overwrite="--overwrite" in sys.argv,
            report=os.environ.get("DRIVER_REPORT"),
            command=command,
        )
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except RunError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
