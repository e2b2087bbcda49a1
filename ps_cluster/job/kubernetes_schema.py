"""The part of the job file about Kubernetes: image, storage, resources and limits of the pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from ps_cluster import __version__
from ps_cluster.job.table_schema import Bytes

IMAGE = f"ps-cluster:{__version__}"

_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
ObjectName = Annotated[
    str,
    Field(
        pattern=rf"^{_LABEL}$",
        max_length=63,
        json_schema_extra={"expected": "a name in Kubernetes: lower-case letters, digits or inner -, at most 63"},
    ),
]
DottedName = Annotated[
    str,
    Field(
        pattern=rf"^{_LABEL}(\.{_LABEL})*$",
        max_length=253,
        json_schema_extra={
            "expected": "a name in Kubernetes: lower-case letters, digits or inner - and ., at most 253"
        },
    ),
]
LabelKey = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$",
        max_length=317,
        json_schema_extra={"expected": "the key of a label, such as example.com/pool"},
    ),
]
LabelValue = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$",
        max_length=63,
        json_schema_extra={"expected": "the value of a label: letters, digits or inner -, _ and ., at most 63"},
    ),
]
Image = Annotated[
    str, Field(pattern=r"^[^\s]+$", json_schema_extra={"expected": "an image, such as registry/ps-cluster:1.0"})
]
PodFolder = Annotated[
    str,
    Field(
        pattern=r"^/[A-Za-z0-9._/-]*[A-Za-z0-9._-]$",
        json_schema_extra={"expected": "an absolute path, such as /storage"},
    ),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Claim(_Section):
    """A volume that all pods of the job share."""

    name: DottedName | None = Field(None, description="Name of the PersistentVolumeClaim. Default: the job's name.")
    folder: PodFolder = Field(
        "/storage",
        description="Where pods see it. Paths of the job file that are relative to its folder are taken from here.",
    )
    size: Bytes | None = Field(
        None, description="Makes the claim, of this size, together with the job. Default: it is there already."
    )
    storage_class: DottedName | None = Field(
        None, description="Storage class of the claim that is made. Default: the cluster's."
    )
    access: Literal["ReadWriteMany", "ReadWriteOnce"] = Field(
        "ReadWriteMany",
        description="Access mode of the claim that is made. `ReadWriteOnce` only where all pods run on one node.",
    )


class ObjectStore(_Section):
    """An object store for samples and checkpoints, in place of a shared volume."""

    secret: DottedName | None = Field(
        None,
        description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Default: the store asks for none.",
    )
    endpoint: (
        Annotated[
            str,
            Field(pattern=r"^https?://[^\s]+$", json_schema_extra={"expected": "an address that begins with http"}),
        ]
        | None
    ) = Field(None, description="Address of a store other than Amazon's (AWS_ENDPOINT_URL).")
    region: Annotated[str, Field(min_length=1)] | None = Field(None, description="Region (AWS_REGION).")


class Toleration(_Section):
    """A taint of nodes that the pods put up with."""

    key: LabelKey | None = Field(None, description="Key of the taint. Default: any.")
    value: LabelValue | None = Field(None, description="Value of the taint. Default: any.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="What the taint does. Default: whatever."
    )


class PsPods(_Section):
    """Resources of a PS pod."""

    memory: Bytes | None = Field(
        None, description="Memory that a PS is promised, and may use at most, such as 8GiB. Default: as planned."
    )
    cpu: PositiveFloat | None = Field(
        None, description="Cores that a PS is promised; it may use more. Default: as planned."
    )
    kind: Literal["Job", "StatefulSet"] = Field(
        "Job",
        description="`Job`: the PS end when training has ended. `StatefulSet`: they serve until they are deleted, for "
        "jobs that go on training as samples come.",
    )


class WorkerPods(_Section):
    """Resources of a worker pod."""

    memory: Bytes | None = Field(
        None, description="Memory that a worker is promised, and may use at most. Default: as planned."
    )
    cpu: PositiveFloat | None = Field(
        None, description="Cores that a worker is promised; it may use more. Default: as planned."
    )
    gpus: NonNegativeInt = Field(
        0, description="NVIDIA GPUs of a worker, which uses one; needs an image with GPU packages."
    )


class EvaluatorPod(_Section):
    """A pod that scores the test rows with the newest checkpoint, holding all tables by itself."""

    memory: Bytes = Field(description="Memory that it is promised, and may use at most.")
    cpu: PositiveFloat = Field(1.0, description="Cores that it is promised; it may use more.")


class ServingPods(_Section):
    """TF Serving of the job's SavedModel."""

    image: Image = Field("tensorflow/serving:2.16.1", description="Image of TF Serving, version 2.16.")
    replicas: PositiveInt = Field(2, description="Number of pods.")
    memory: Bytes = Field(description="Memory that a pod is promised, and may use at most: about that of the tables.")
    cpu: PositiveFloat = Field(1.0, description="Cores that a pod is promised; it may use more.")
    batch_size: PositiveInt = Field(1024, description="Rows that are computed together at most.")
    batch_wait_microseconds: NonNegativeInt = Field(
        1000, description="So long a request waits at most for others to be computed with."
    )
    versions: PositiveInt = Field(1, description="So many newest versions of the SavedModel are loaded.")
    clients: dict[LabelKey, LabelValue] = Field(
        {}, description="Labels of the pods, of the same namespace, that may ask. Default: all pods of the namespace."
    )


class Kubernetes(_Section):
    """How the job runs on Kubernetes: `ps-cluster render` and `ps-cluster launch`."""

    image: Image = Field(IMAGE, description="Image of the PS and workers, see k8s/Dockerfile.")
    pull_secret: DottedName | None = Field(
        None, description="Secret with which the image is pulled. Default: the image needs none."
    )
    namespace: ObjectName | None = Field(
        None, description="Namespace of all objects, which must exist. Default: kubectl's current one."
    )
    storage: Claim = Field(default_factory=Claim, description="Volume for samples, checkpoints and results.")
    object_store: ObjectStore | None = Field(
        None,
        description="In place of `storage`: samples and checkpoints are addresses such as s3://. What is written into "
        "the output folder then goes with the pods; `ps-cluster export` makes the SavedModel from a checkpoint.",
    )
    ps: PsPods = Field(default_factory=PsPods, description="Resources of a PS.")
    worker: WorkerPods = Field(default_factory=WorkerPods, description="Resources of a worker.")
    evaluator: EvaluatorPod | None = Field(
        None, description="For `render --evaluator`: the pod that evaluates the newest checkpoint. Default: none."
    )
    serving: ServingPods | None = Field(
        None, description="For `render --serving`: TF Serving of the SavedModel. Default: none."
    )
    deadline_minutes: PositiveFloat = Field(
        1440.0, description="The run is stopped so long after its start, waiting for nodes included."
    )
    ttl_minutes: PositiveFloat = Field(
        1440.0, description="An ended run's pods, with their logs, are removed after so long."
    )
    retries: NonNegativeInt = Field(
        6,
        description="So often each PS and worker may fail before the run has failed. An end by eviction, or because "
        "another pod was lost, does not count; a wrong job file fails at once.",
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        {}, description="Labels of the nodes that pods may run on. Default: any node."
    )
    tolerations: list[Toleration] = Field([], description="Taints of nodes that pods put up with.")
    queue: DottedName | None = Field(
        None, description="Local queue of Kueue that admits the run. Default: none, pods start at once."
    )
    priority_class: DottedName | None = Field(None, description="Priority class of the pods. Default: the cluster's.")
    metrics_namespace: ObjectName = Field(
        "monitoring", description="Namespace whose pods may read the processes' figures."
    )
