"""What every role of a worker needs: the job's model, its store, its data, on the devices of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import tf_keras

from data.footers import FileSummary, check_files
from data.orc import ReadSpec
from data.paths import expand
from models.build import build_model
from ps_cluster.embedding.groups import TableGroup, plan_groups
from ps_cluster.embedding.ps_store import Placement, PsEmbeddingStore
from ps_cluster.errors import UserError
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile, columns_of, inputs_of, tables_of, training_columns_of
from ps_cluster.job.sampling import Presampled, Resolved, sampling_of
from ps_cluster.job.schema import DenseFeature, Job
from ps_cluster.train.connect import Devices


def groups_of(job: Job) -> list[TableGroup]:
    """The job's tables in groups of one row layout."""
    features = [feature for feature in job.features if not isinstance(feature, DenseFeature)]
    return plan_groups(tables_of(job), features, job.optimizers.sparse, job.training.seed)


@dataclass(frozen=True)
class Samples:
    """One side of the data, checked: its files and what their footers say."""

    paths: tuple[str, ...]
    summary: FileSummary
    sampling: Resolved | Presampled | None = None
    """Of training rows; None: all count alike."""


def samples_of(job_file: JobFile, side: str) -> Samples:
    """The files of `side` (`train` or `test`); raises what is wrong with them before anything is started."""
    patterns = getattr(job_file.job.data, side)
    if not patterns:
        raise UserError(f"{job_file.path}: data.{side}: expected at least one path, found none")
    paths = tuple(expand(patterns, job_file.folder))
    if side == "train":
        return Samples(paths, check_files(paths, training_columns_of(job_file.job)), sampling_of(job_file, paths))
    return Samples(paths, check_files(paths, columns_of(job_file.job)))


class Session:
    """A worker's model and store; two sessions of one cluster see the same tables."""

    def __init__(self, job_file: JobFile, membership: Membership, devices: Devices):
        job = job_file.job
        self.job = job
        self.job_file = job_file
        self.rank = membership.index
        self.num_workers = len(membership.workers)
        self.devices = devices
        self.model: tf_keras.Model = build_model(job.model, inputs_of(job), job.training.seed, dropout_stream=self.rank)
        placement = Placement(
            ps_devices=devices.ps,
            worker_device=devices.cpu,
            rank=self.rank,
            num_workers=self.num_workers,
            synchronous=job.training.sparse_updates == "synchronous",
        )
        self.store = PsEmbeddingStore(groups_of(job), placement, namespace=job.name)

    def read_spec(self, samples: Samples, *, training: bool) -> ReadSpec:
        """This worker's share of the samples: shuffled and repeated for training, else once in the files' order."""
        job = self.job
        return ReadSpec(
            paths=samples.paths,
            columns=tuple(training_columns_of(job) if training else columns_of(job)),
            batch_rows=job.training.batch_size,
            shard=self.rank,
            num_shards=self.num_workers,
            epochs=job.training.epochs if training else 1,
            shuffle_rows=job.data.shuffle_rows if training else 0,
            seed=job.training.seed,
            sampling=samples.sampling.sampling if training and samples.sampling else None,
        )
