"""What is rendered of random jobs agrees with itself, with the job, and with Kubernetes' schemas."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import kubernetes_validate
import pytest
import yaml
from hypothesis import Phase, given, settings

from ps_cluster.cli.main import parser
from ps_cluster.errors import UserError
from ps_cluster.job.membership import membership_of
from ps_cluster.job.resolve import JobFile
from ps_cluster.kubernetes.render import evaluator_objects, model_server_objects, run_objects
from ps_cluster.kubernetes.sizing import Sizing
from ps_cluster.kubernetes.yaml_output import yaml_text
from tests.k8s.objects import Object, Pod, admitted, mount_of, of_kind, pods, writable
from tests.ps_cluster.kubernetes.jobs import PLAIN, job_with, loaded, random_jobs

TENSORFLOW, RENDEZVOUS, METRICS, RING = 2222, 2223, 2224, 40123
_UNITS = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


@dataclass(frozen=True)
class Rendered:
    """A job, the objects of its run as kubectl reads them, through the text, and those beside the run."""

    job_file: JobFile
    objects: list[Object]
    others: list[Object]

    @property
    def all(self) -> list[Object]:
        return [*self.objects, *self.others]


@functools.cache
def drawn() -> list[Rendered]:
    """Random jobs, other ones each time; rendered once for all tests."""
    found: list[Rendered] = []

    @given(random_jobs())
    @settings(max_examples=24, deadline=None, database=None, phases=[Phase.generate])
    def draw(job_file: JobFile) -> None:
        kubernetes = job_file.job.kubernetes
        jobset = kubernetes.ps.kind == "Job" and len(found) % 3 == 0
        text = yaml_text(run_objects(job_file, jobset))
        others = model_server_objects(job_file) if kubernetes.serving else []
        others = others + (evaluator_objects(job_file) if kubernetes.evaluator else [])
        found.append(Rendered(job_file, list(yaml.load_all(text, yaml.CSafeLoader)), others))

    draw()
    return found


def of_random_jobs(check: Callable[[Rendered], None]) -> Callable[[], None]:
    """A test of every drawn job; the one that fails is told."""

    def test() -> None:
        for one in drawn():
            try:
                check(one)
            except BaseException:
                print(one.job_file.text)
                raise

    test.__name__ = check.__name__
    return test


@of_random_jobs
def test_every_object_is_valid_in_old_and_new_kubernetes(it: Rendered) -> None:
    for one in it.all if it in drawn()[:4] else []:  # slow
        for version in versions():
            if one["kind"] == "JobSet":
                for part in one["spec"]["replicatedJobs"]:
                    inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **part["template"]}
                    kubernetes_validate.validate(inner, version, strict=True)
            else:
                kubernetes_validate.validate(one, version, strict=True)


@functools.cache
def versions() -> list[str]:
    return ["1.30", kubernetes_validate.latest_version()]


@of_random_jobs
def test_names_begin_with_the_jobs_name_and_are_short_enough(it: Rendered) -> None:
    for one in it.objects:
        name = one["metadata"]["name"]
        assert name.startswith(it.job_file.job.name) or one["kind"] == "PersistentVolumeClaim"
        assert len(name) <= 63
    for pod in pods(it.objects):
        assert all(len(part) <= 63 for part in pod.host.split("."))
    kept = {one["metadata"].get("namespace") for one in it.objects}
    assert kept == {it.job_file.job.kubernetes.namespace}


@of_random_jobs
def test_the_number_and_the_places_of_the_pods_are_the_jobs(it: Rendered) -> None:
    ps, workers = of_role(it.objects, "ps"), of_role(it.objects, "worker")
    assert (len(ps), len(workers)) == (it.job_file.job.cluster.ps, it.job_file.job.cluster.workers)
    for pod in [*ps, *workers]:
        place = membership_of(
            parser().parse_args(pod.command), "ps" if pod in ps else "worker", it.job_file.job.cluster, environment={}
        )
        assert place.index == pod.index
        assert place.ps == tuple(f"{one.host}:{one.ports['tensorflow']}" for one in ps)
        assert place.workers == tuple(f"{one.host}:{one.ports['tensorflow']}" for one in workers)
        if len(workers) > 1:
            assert place.rendezvous == f"{workers[0].host}:{workers[0].ports['rendezvous']}"


@of_random_jobs
def test_the_service_selects_the_pods_of_the_run_and_knows_their_ports(it: Rendered) -> None:
    if of_kind(it.objects, "JobSet"):
        return  # makes it itself
    (service,) = of_kind(it.objects, "Service").values()
    assert {pod.spec["subdomain"] for pod in pods(it.objects)} == {service["metadata"]["name"]}
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    for pod in pods(it.objects):
        assert service["spec"]["selector"].items() <= pod.labels.items()
        assert pod.ports.items() <= ports.items()
    for pod in pods(it.others):
        assert not service["spec"]["selector"].items() <= pod.labels.items()


@of_random_jobs
def test_selectors_select_the_pods_of_their_component_and_no_others(it: Rendered) -> None:
    objects = it.all
    selectors = [
        (one["metadata"]["labels"]["app.kubernetes.io/component"], one["spec"][field]["matchLabels"])
        for kind, field in (
            ("NetworkPolicy", "podSelector"),
            ("PodDisruptionBudget", "selector"),
            ("StatefulSet", "selector"),
            ("Deployment", "selector"),
        )
        for one in of_kind(objects, kind).values()
    ]
    assert selectors
    for component, labels in selectors:
        chosen = [pod for pod in pods(objects) if labels.items() <= pod.labels.items()]
        assert chosen == of_role(objects, component)
    for pod in pods(objects):
        for spread in pod.spec.get("topologySpreadConstraints", []):
            chosen = [
                one for one in pods(objects) if spread["labelSelector"]["matchLabels"].items() <= one.labels.items()
            ]
            assert chosen == of_role(objects, pod.role)


@of_random_jobs
def test_volumes_and_mounts_fit_each_other_and_exist(it: Rendered) -> None:
    objects = it.all
    maps = of_kind(objects, "ConfigMap")
    claims = of_kind(objects, "PersistentVolumeClaim")
    kubernetes = it.job_file.job.kubernetes
    assert bool(claims) == (kubernetes.storage.size is not None)
    for pod in pods(objects):
        volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
        assert volumes.keys() == {mount["name"] for mount in pod.container["volumeMounts"]}
        for volume in volumes.values():
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert claim == (kubernetes.storage.name or it.job_file.job.name)
                assert not claims or claim in claims
        assert writable(pod, "/tmp/x")


@of_random_jobs
def test_the_job_in_the_pods_is_the_job_but_for_its_places_which_are_mounted(it: Rendered) -> None:
    (config_map,) = of_kind(it.objects, "ConfigMap").values()
    assert config_map["immutable"] is True
    in_pods = loaded(config_map["data"]["job.yaml"], "/job").job
    folder = it.job_file.job.kubernetes.storage.folder
    assert in_pods.output == f"{folder}/run"
    assert in_pods.data.train == [f"{folder}/samples/train-*.orc"]
    same = {"data": it.job_file.job.data, "output": it.job_file.job.output, "metrics": it.job_file.job.metrics}
    assert in_pods.model_copy(update=same) == it.job_file.job
    for pod in pods(it.objects):
        args = parser().parse_args(pod.command)
        assert args.job == f"{mount_of(pod, args.job)['mountPath']}/job.yaml"
        assert writable(pod, in_pods.output) and not writable(pod, args.job)


@of_random_jobs
def test_a_pod_asks_for_what_the_job_file_says_and_may_use_no_more_memory(it: Rendered) -> None:
    for pod in pods(it.objects):
        told = getattr(it.job_file.job.kubernetes, pod.role)
        requests, limits = pod.container["resources"]["requests"], pod.container["resources"]["limits"]
        assert size(requests["memory"]) == told.memory
        assert limits["memory"] == requests["memory"]
        assert told.cpu <= cores(requests["cpu"]) <= told.cpu + 0.0011
        gpus = it.job_file.job.kubernetes.worker.gpus if pod.role == "worker" else 0
        assert requests.get("nvidia.com/gpu", 0) == limits.get("nvidia.com/gpu", 0) == gpus
        assert pod.spec["terminationGracePeriodSeconds"] >= it.job_file.job.checkpoint.grace_seconds


@of_random_jobs
def test_pods_of_the_run_reach_what_they_need_and_no_other_pod_reaches_anything(it: Rendered) -> None:
    ps, workers = of_role(it.objects, "ps"), of_role(it.objects, "worker")
    for source in [*ps, *workers]:
        assert all(admitted(it.objects, source.labels, target.labels, TENSORFLOW) for target in [*ps, *workers])
    if len(workers) > 1:
        for source in workers:
            reached = [(target, port) for target in workers for port in (RENDEZVOUS, RING)]
            assert all(admitted(it.objects, source.labels, target.labels, port) for target, port in reached)
    watched = {"kubernetes.io/metadata.name": it.job_file.job.kubernetes.metrics_namespace}
    for target in [*ps, *workers]:
        ports = [
            port for port in (1, TENSORFLOW, RENDEZVOUS, METRICS, RING) if port_is_open(it, {}, target, port, watched)
        ]
        assert ports == ([METRICS] if it.job_file.job.metrics.serve else [])
        assert not port_is_open(it, {}, target, METRICS, {"kubernetes.io/metadata.name": "other-1"})
    strangers = [{}, {"app.kubernetes.io/name": "ps-cluster"}, *(pod.labels for pod in pods(it.others))]
    for labels in strangers:
        for target in [*ps, *workers]:
            for port in (1, TENSORFLOW, RENDEZVOUS, METRICS, RING, 65535):
                assert not admitted(it.objects, labels, target.labels, port)


@of_random_jobs
def test_every_pod_passes_the_restricted_pod_security_standard(it: Rendered) -> None:
    for pod in pods(it.all):
        assert pod.spec["securityContext"]["runAsNonRoot"] is True
        assert pod.spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod.spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.spec.keys()
        assert pod.container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@of_random_jobs
def test_probes_ask_ports_that_the_container_has(it: Rendered) -> None:
    for pod in pods(it.all):
        for probe in pod.probes.values():
            asked = probe.get("tcpSocket") or probe["httpGet"]
            assert asked["port"] in pod.ports


@of_random_jobs
def test_a_queue_admits_each_object_that_makes_pods(it: Rendered) -> None:
    made = [one for one in it.objects if one["kind"] in ("Job", "JobSet")]
    labels = {one["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") for one in made}
    assert labels == {it.job_file.job.kubernetes.queue}


def test_a_job_file_error_fails_at_once_and_what_is_not_the_runs_fault_is_not_counted():
    for name, job in of_kind(run_objects(job_with()), "Job").items():
        first, second, third = job["spec"]["podFailurePolicy"]["rules"]
        role = name.removeprefix("clicks-")
        assert first == {
            "action": "FailJob",
            "onExitCodes": {"containerName": role, "operator": "In", "values": [2]},
        }
        assert (second["action"], second["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
        assert (third["action"], third["onExitCodes"]["values"]) == ("Ignore", [75])


def test_sizes_that_the_job_file_leaves_open_are_planned():
    open_job = job_with(kubernetes={"worker": {"memory": "3GiB"}})
    plan = Sizing(5 * 2**30, 1.5, 2**30, 4.0)
    found = {
        pod.role: pod.container["resources"]["requests"] for pod in pods(run_objects(open_job, planned=lambda _: plan))
    }
    assert found == {"ps": {"cpu": "1500m", "memory": "5Gi"}, "worker": {"cpu": "4", "memory": "3Gi"}}
    (config_map,) = of_kind(run_objects(open_job, planned=lambda _: plan), "ConfigMap").values()
    in_pods = loaded(config_map["data"]["job.yaml"]).job.kubernetes  # so that a run that goes on asks for the same
    assert (in_pods.ps.memory, in_pods.ps.cpu, in_pods.worker.memory, in_pods.worker.cpu) == (
        *(5 * 2**30, 1.5),
        *(3 * 2**30, 4.0),
    )
    with pytest.raises(UserError) as error:
        run_objects(open_job)
    assert str(error.value).splitlines() == [
        "job.yaml: kubernetes.worker.cpu: expected a number of cores, found none",
        "job.yaml: kubernetes.ps.memory: expected a size such as 4GiB, found none",
        "job.yaml: kubernetes.ps.cpu: expected a number of cores, found none",
    ]


def test_paths_outside_the_volume_are_refused_each_with_a_line():
    data = {**PLAIN["data"], "train": ["/data/train.orc", "s3://logs/*.orc", "../train.orc"]}
    with pytest.raises(UserError) as error:
        run_objects(job_with(data=data, cluster={**PLAIN["cluster"]}))
    assert str(error.value).splitlines() == [
        "job.yaml: data.train[0]: expected a path in the volume /storage, or an address, found '/data/train.orc'",
        "job.yaml: data.train[2]: expected a path in the volume /storage, or an address, found '../train.orc'",
    ]


def test_beside_an_object_store_everything_but_the_output_is_an_address():
    kubernetes = {**PLAIN["kubernetes"], "object_store": {"secret": "keys", "endpoint": "http://minio:9000"}}
    with pytest.raises(UserError) as error:
        run_objects(job_with(kubernetes=kubernetes))
    assert [line.split(": ")[1] for line in str(error.value).splitlines()] == [
        "data.train[0]",
        "data.test[0]",
        "checkpoint.folder",
    ]
    data = {"train": ["s3://a/*.orc"], "label": "label"}
    objects = run_objects(job_with(kubernetes=kubernetes, data=data, checkpoint={"folder": "s3://a/checkpoint"}))
    for pod in pods(objects):
        names = {one["name"] for one in pod.container["env"]}
        assert names == {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
        assert mount_of(pod, "/storage/run")["name"] == "storage"
        assert not any("persistentVolumeClaim" in volume for volume in pod.spec["volumes"])


def test_addresses_of_its_own_are_refused():
    cluster = {"ps": 0, "worker_addresses": ["a:1"]}
    with pytest.raises(UserError, match=r"cluster\.worker_addresses: expected no addresses"):
        run_objects(job_with(cluster=cluster))


def test_comments_of_the_job_file_reach_the_pods():
    text = "# why\n" + yaml.safe_dump(PLAIN) + "# the end\n"
    (config_map,) = of_kind(run_objects(loaded(text)), "ConfigMap").values()
    in_pods = config_map["data"]["job.yaml"]
    assert in_pods.startswith("# why\n") and "# the end\n" in in_pods


@pytest.mark.parametrize("text", ["no", "1e3", "0x1F", ".5", "-1", "~", "", "12:30:45", "a: b", "# a", "x\ny\n", "{"])
def test_a_text_stays_a_text_for_readers_of_old_and_new_yaml(text):
    assert yaml.safe_load(yaml_text([{"a": text}])) == {"a": text}
    assert text not in ("no", "1e3", "0x1F", ".5") or f'"{text}"' in yaml_text([{"a": text}])


def port_is_open(it: Rendered, labels: dict, target: Pod, port: int, namespace: dict[str, str]) -> bool:
    return admitted(it.objects, labels, target.labels, port, namespace)


def of_role(objects: list[Object], role: str) -> list[Pod]:
    return [pod for pod in pods(objects) if pod.role == role]


def size(text: str) -> int:
    unit = _UNITS.get(text[-2:])
    return int(text[:-2]) * unit if unit else int(text)


def cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else math.floor(float(text))
