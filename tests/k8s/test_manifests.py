"""What the manifests say agrees with itself, with the job file, with the command line and with the image."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from ps_cluster import __version__
from ps_cluster.cli import ps as ps_command
from ps_cluster.cli import worker as worker_command
from ps_cluster.cli.main import parser
from ps_cluster.job.edit_text import with_values
from ps_cluster.job.load import check_document, load_job
from ps_cluster.job.membership import membership_of
from ps_cluster.job.yaml_text import parse
from ps_cluster.kubernetes.render import model_server_objects, run_objects
from tests.k8s.manifests import FOLDERS, K8S, documents, generated, kustomization
from tests.k8s.objects import admitted, mount_of, of_kind, pods, writable

OLDEST = "1.30"
JOB_FILE = K8S / "base" / "job.yaml"
EXAMPLE = K8S.parent / "ps_cluster" / "examples" / "movielens.yaml"
BASE, STORAGE = documents("base"), documents("storage")
RUN = pods(BASE)
PS, WORKERS = [pod for pod in RUN if pod.role == "ps"], [pod for pod in RUN if pod.role == "worker"]
SAMPLES = pods(STORAGE)
ALL = [*RUN, *SAMPLES]
ROLES = {"movielens-ps": "ps", "movielens-worker": "worker"}
TENSORFLOW, RENDEZVOUS, METRICS, RING = 2222, 2223, 2224, 40123

every_folder = pytest.mark.parametrize("folder", FOLDERS)
every_pod = pytest.mark.parametrize("pod", ALL, ids=lambda pod: f"{pod.maker}-{pod.index}")
every_pod_of_the_run = pytest.mark.parametrize("pod", RUN, ids=lambda pod: f"{pod.maker}-{pod.index}")


@every_folder
@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_object_is_valid_in_old_and_new_kubernetes(folder, version):
    for one in [*documents(folder), *generated(folder)]:
        kubernetes_validate.validate(one, version, strict=True)


@every_folder
def test_a_kustomization_names_every_manifest_of_its_folder(folder):
    made_of = {name for one in kustomization(folder).get("configMapGenerator", []) for name in one["files"]}
    named = {*kustomization(folder)["resources"], *made_of, "kustomization.yaml"}
    assert named == {path.name for path in (K8S / folder).iterdir()}


def test_render_prints_what_lies_in_base_and_the_claim():
    wanted = [*of_kind(STORAGE, "PersistentVolumeClaim").values(), *documents("base"), *generated("base")]
    assert _by_name(run_objects(load_job(JOB_FILE))) == _by_name(wanted)


def test_render_serving_prints_what_lies_in_serving():
    wanted = [*documents("serving"), *generated("serving")]
    assert _by_name(model_server_objects(load_job(JOB_FILE))) == _by_name(wanted)


@every_folder
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_kubectl_makes_of_a_kustomization_what_the_tests_take_it_for(folder):
    done = subprocess.run(
        ["kubectl", "kustomize", K8S / folder], capture_output=True, text=True, check=True, timeout=60
    )
    made = list(yaml.safe_load_all(done.stdout))
    assert _by_name(made) == _by_name([*documents(folder), *generated(folder)])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("gpu", {"image": f"ps-cluster:{__version__}-gpu", "worker": {"gpus": 1}}),
        ("queue", {"queue": "training"}),
        ("online", {"ps": {"kind": "StatefulSet"}}),
    ],
)
def test_render_prints_what_kubectl_makes_of_an_overlay(folder, told):
    command = ["kubectl", "kustomize", K8S / "overlays" / folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    job_file = load_job(JOB_FILE)
    here = job_file.job.kubernetes
    parts = {name: getattr(here, name).model_copy(update=one) for name, one in told.items() if isinstance(one, dict)}
    kubernetes = here.model_copy(update={**told, **parts})
    text = with_values(job_file.text, {("kubernetes",): kubernetes.model_dump(mode="json", exclude_unset=True)})
    changed = check_document(parse(text), job_file.folder)[0]
    assert changed is not None
    wanted = _by_name(run_objects(dataclasses.replace(job_file, job=changed, text=text)))
    made = _by_name(list(yaml.safe_load_all(done.stdout)))
    for key in (("PersistentVolumeClaim", "movielens"), ("ConfigMap", "movielens-job")):
        wanted.pop(key)  # the claim lies in storage/, and of the job file's section kubernetes the pods read nothing
        made.pop(key, None)
    assert made == wanted


def _by_name(objects: list[dict]) -> dict[tuple[str, str], dict]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def test_every_object_of_a_run_carries_the_labels_by_which_it_is_removed():
    generator = kustomization("base")["configMapGenerator"][0]
    labelled = [one["metadata"]["labels"] for one in documents("base")] + [generator["options"]["labels"]]
    wanted = {"app.kubernetes.io/name": "ps-cluster", "app.kubernetes.io/instance": "movielens"}
    assert all(wanted.items() <= labels.items() for labels in labelled)
    stored = [one["metadata"]["labels"] for one in documents("storage")]
    assert not any(wanted.items() <= labels.items() for labels in stored)


@pytest.mark.parametrize("job", ROLES)
def test_a_job_and_its_pods_carry_the_same_labels(job):
    one = of_kind(BASE, "Job")[job]
    assert one["metadata"]["labels"] == one["spec"]["template"]["metadata"]["labels"]
    assert one["metadata"]["labels"]["app.kubernetes.io/component"] == ROLES[job]


def test_the_service_gives_a_name_to_the_pods_of_the_run_and_to_no_other():
    (service,) = of_kind(BASE, "Service").values()
    selector = service["spec"]["selector"]
    assert [pod for pod in ALL if selector.items() <= pod.labels.items()] == RUN
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert {pod.spec["subdomain"] for pod in RUN} == {service["metadata"]["name"]}
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {"tensorflow": TENSORFLOW, "rendezvous": RENDEZVOUS, "metrics": METRICS}


@pytest.mark.parametrize("job", ROLES)
def test_all_pods_of_a_job_start_at_once_each_with_its_index(job):
    spec = of_kind(BASE, "Job")[job]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == getattr(load_job(JOB_FILE).job.cluster, _count_field(job))
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@every_pod_of_the_run
def test_the_real_parser_takes_the_flags_and_finds_the_place_that_dns_gives(pod):
    args = parser().parse_args(pod.command)
    role = pod.role
    assert args.run is {"ps": ps_command.run, "worker": worker_command.run}[role]
    place = membership_of(args, role, load_job(JOB_FILE).job.cluster, environment={})
    assert place.index == pod.index
    assert place.ps == tuple(f"{one.host}:{one.ports['tensorflow']}" for one in PS)
    assert place.workers == tuple(f"{one.host}:{one.ports['tensorflow']}" for one in WORKERS)
    assert place.rendezvous == f"{WORKERS[0].host}:{WORKERS[0].ports['rendezvous']}"


@pytest.mark.parametrize("pod", SAMPLES)
def test_the_real_parser_takes_the_command_that_makes_the_samples(pod):
    args = parser().parse_args(pod.command)
    made = {f"{args.out}/train.orc", f"{args.out}/test.orc"}
    data = load_job(JOB_FILE).job.data
    assert made == {*data.train, *data.test}
    assert writable(pod, args.out) and writable(pod, args.cache)


def test_every_ps_waits_for_the_file_that_worker_0_has_written():
    waited_for = {parser().parse_args(pod.command).until_done for pod in PS}
    assert waited_for == {parser().parse_args(pod.command).done_file for pod in WORKERS}
    assert all(writable(pod, waited_for.copy().pop()) for pod in PS)


def test_the_job_file_is_the_example_but_for_its_places():
    ours, example = load_job(JOB_FILE).job, load_job(EXAMPLE).job
    here = {"train": [f"/storage/{path}" for path in example.data.train], "output": f"/storage/{example.output}"}
    here["test"] = [f"/storage/{path}" for path in example.data.test]
    data = example.data.model_copy(update={"train": here["train"], "test": here["test"]})
    told = {"data": data, "output": here["output"], "kubernetes": ours.kubernetes, "metrics": ours.metrics}
    assert ours == example.model_copy(update=told)


@every_pod_of_the_run
def test_files_named_in_a_command_are_mounted_and_outputs_can_be_written(pod):
    args = parser().parse_args(pod.command)
    files = kustomization("base")["configMapGenerator"][0]["files"]
    assert args.job.removeprefix("/job/") in files
    job = load_job(JOB_FILE).job
    for path in (job.output, *job.data.train, *job.data.test, *filter(None, [getattr(args, "report", None)])):
        assert writable(pod, path)
    assert writable(pod, "/tmp")
    assert not writable(pod, args.job)


def test_all_pods_share_one_storage_that_all_nodes_can_mount():
    (claim,) = of_kind(STORAGE, "PersistentVolumeClaim").values()
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in ALL
        for volume in pod.spec["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == {claim["metadata"]["name"]}
    assert {mount_of(pod, "/storage/x")["name"] for pod in ALL} == {"storage"}


@every_pod
def test_mounts_and_volumes_of_a_pod_fit_each_other_and_the_config_map_exists(pod):
    volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
    assert volumes.keys() == {mount["name"] for mount in pod.container["volumeMounts"]}
    maps = {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
    assert maps <= {one["name"] for one in kustomization("base")["configMapGenerator"]}


@pytest.mark.parametrize("source", RUN, ids=lambda pod: f"from {pod.maker}-{pod.index}")
def test_pods_of_the_run_reach_what_they_need(source):
    assert all(admitted(BASE, source.labels, target.labels, TENSORFLOW) for target in RUN)
    assert all(admitted(BASE, source.labels, target.labels, RENDEZVOUS) for target in WORKERS)
    assert all(admitted(BASE, source.labels, target.labels, RING) == (source in WORKERS) for target in WORKERS)
    assert not any(admitted(BASE, source.labels, target.labels, port) for target in PS for port in (RENDEZVOUS, RING))


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"app.kubernetes.io/name": "ps-cluster"},
        {"app.kubernetes.io/name": "ps-cluster", "app.kubernetes.io/component": "worker"},
        {"app.kubernetes.io/name": "ps-cluster", "app.kubernetes.io/instance": "another"},
        dict(SAMPLES[0].labels),
    ],
)
def test_no_other_pod_reaches_any_port(labels):
    ports = (1, 22, 1023, 1024, TENSORFLOW, RENDEZVOUS, RING, 65535)
    reached = [(pod.maker, port) for pod in RUN for port in ports if admitted(BASE, labels, pod.labels, port)]
    assert reached == []


def test_only_the_namespace_of_prometheus_reaches_a_pod_from_outside_and_only_for_its_figures():
    for policy in of_kind(BASE, "NetworkPolicy").values():
        for rule in policy["spec"]["ingress"]:
            (peer,) = rule["from"]
            if set(peer) != {"podSelector"}:
                assert peer == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
                assert rule["ports"] == [{"protocol": "TCP", "port": METRICS}]


@every_pod
def test_a_pod_passes_the_restricted_pod_security_standard_and_more(pod):
    spec, container = pod.spec, pod.container
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"} & spec.keys()
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPort" in port for port in container.get("ports", []))
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "persistentVolumeClaim", "emptyDir"}


@every_pod
def test_a_pod_is_promised_all_the_memory_that_it_may_use(pod):
    resources = pod.container["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"]
    assert resources["requests"]["cpu"]


@every_pod
def test_a_pod_runs_the_image_of_this_version_as_the_user_it_was_made_for(pod):
    assert pod.container["image"] == f"ps-cluster:{__version__}"
    dockerfile = (K8S / "Dockerfile").read_text(encoding="utf-8")
    assert f"-t {pod.container['image']} ." in dockerfile
    user, group = re.search(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE).groups()
    context = pod.spec["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    # The image's entry point passes signals on; `command` would replace it.
    assert 'ENTRYPOINT ["tini", "--"]' in dockerfile and "command" not in pod.container


@pytest.mark.parametrize("folder", ["base", "storage"])
def test_a_kustomization_can_point_all_its_pods_at_a_registry(folder):
    (image,) = kustomization(folder)["images"]
    assert {image["name"], image["newName"], image["newTag"]} == {"ps-cluster", __version__}


def test_the_image_is_built_from_all_that_the_package_is_made_of():
    ignored = (K8S / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    assert let_in == {"Makefile", "setup.py", "pyproject.toml", "data", "models", "ops", "ps_cluster"}
    assert all((K8S.parent / name).exists() for name in let_in)


def test_manifests_have_no_duplicate_keys():
    for path in sorted(K8S.rglob("*.yaml")):
        for document in yaml.compose_all(path.read_text(encoding="utf-8")):
            _refuse_duplicates(document, path.name)


def _refuse_duplicates(node: yaml.Node, where: str) -> None:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{where}: {keys}"
        for _, value in node.value:
            _refuse_duplicates(value, where)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_duplicates(value, where)


def _count_field(job: str) -> str:
    return "ps" if ROLES[job] == "ps" else "workers"
