"""What every role of a worker needs: the job's model, its store, its data, on the devices of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

from data.follow import check_followable
from data.orc import ReadSpec
from data.paths import expand
from data.read.footers import FileSummary
from data.read.plan import Checked, check
from data.read.threads import threads_for
from models.build import Ranker, build_model
from models.fused import choose
from ps_cluster.embedding.groups import TableGroup, plan_groups
from ps_cluster.embedding.ps_store import Placement, PsEmbeddingStore
from ps_cluster.errors import UserError
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile, inputs_of, tables_of
from ps_cluster.job.samples import read_spec
from ps_cluster.job.sampling import Presampled, Resolved, sampling_of
from ps_cluster.job.schema import DenseFeature, Job
from ps_cluster.train.connect import Devices


def groups_of(job: Job) -> list[TableGroup]:
    """The job's tables in groups of one row layout."""
    features = [feature for feature in job.features if not isinstance(feature, DenseFeature)]
    return plan_groups(tables_of(job), features, job.optimizers.sparse, job.training.seed)


def without_limits(group: TableGroup) -> TableGroup:
    """The group without its tables' limits of bytes."""
    evictions = tuple(replace(eviction, max_bytes=0) for eviction in group.layout.evictions)
    return replace(group, layout=replace(group.layout, evictions=evictions))


@dataclass(frozen=True)
class Samples:
    """One side of the data: its files, checked."""

    paths: tuple[str, ...]
    checked: Checked
    sampling: Resolved | Presampled | None = None
    """Of training rows; None: all count alike."""

    @property
    def summary(self) -> FileSummary:
        """What the footers of the files say."""
        return self.checked.summary


def samples_of(job_file: JobFile, side: str) -> Samples:
    """The files of `side` (`train` or `test`), none of a folder that is followed; raises what is wrong with them before
    anything is started."""
    data = job_file.job.data
    if side == "train" and data.follow is not None:
        check_followable(job_file.place(data.follow))
        return Samples((), Checked((), ()), sampling_of(job_file, ()))
    patterns = getattr(data, side)
    if not patterns:
        raise UserError(f"{job_file.path}: data.{side}: expected at least one path, found none")
    paths = tuple(expand(patterns, job_file.folder))
    if side != "train":
        return Samples(paths, check(read_spec(job_file.job, paths)))
    checked = check(read_spec(job_file.job, paths, training=True))
    sampling = sampling_of(job_file, tuple(footer.path for footer in checked.footers))
    if sampling is not None and sampling.sampling is not None:  # it may need more columns
        checked = check(read_spec(job_file.job, paths, training=True, sampling=sampling.sampling))
    return Samples(paths, checked, sampling)


class Session:
    """A worker's model and store; two sessions of one cluster see the same tables."""

    def __init__(
        self,
        job_file: JobFile,
        membership: Membership,
        devices: Devices,
        *,
        training: bool = True,
        attempt: str = "",
    ):
        """`training`: False where tables of several PS come together in one process, to be read only: their limits of
        bytes are for one PS each. `attempt`: of `ps_cluster.train.fresh_tables`."""
        job = job_file.job
        self.job = job
        self.job_file = job_file
        self.rank = membership.index
        self.num_workers = len(membership.workers)
        hosts = [address.rpartition(":")[0] for address in membership.workers]
        self._workers_here = hosts.count(hosts[self.rank])
        self.devices = devices
        try:
            self.block = choose(job.model, "GPU" if "GPU" in devices.compute else "CPU")
        except ValueError as error:
            raise UserError(f"{job_file.path}: model.{error}") from None
        self.model: Ranker = build_model(
            job.model, inputs_of(job), job.training.seed, dropout_stream=self.rank, fused=self.block.fused
        )
        placement = Placement(
            ps_devices=devices.ps,
            worker_device=devices.cpu,
            rank=self.rank,
            num_workers=self.num_workers,
            synchronous=job.training.sparse_updates == "synchronous",
        )
        self.store = PsEmbeddingStore(
            groups_of(job) if training else [without_limits(group) for group in groups_of(job)],
            placement,
            namespace=job.name,
            transport=job.embeddings.transport,
            deltas=job.checkpoint.deltas > 0,
            attempt=attempt,
        )

    def read_spec(self, samples: Samples, *, training: bool) -> ReadSpec:
        """This worker's share of the samples, decoded by its share of the machine's cores."""
        sampling = samples.sampling.sampling if samples.sampling else None
        spec = read_spec(self.job, samples.paths, training=training, sampling=sampling)
        return replace(
            spec,
            shard=self.rank,
            num_shards=self.num_workers,
            decode_threads=spec.decode_threads or threads_for(self._workers_here),
        )
