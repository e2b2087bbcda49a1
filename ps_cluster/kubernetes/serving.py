"""TF Serving of a job's SavedModel."""

from __future__ import annotations

import math
import posixpath

from ps_cluster.errors import UserError
from ps_cluster.job.kubernetes_schema import ServingPods
from ps_cluster.kubernetes.names import SERVING_GRPC_PORT, SERVING_HTTP_PORT, labels, selector
from ps_cluster.kubernetes.network import from_watchers, policy
from ps_cluster.kubernetes.placement import nodes
from ps_cluster.kubernetes.pods import resources, scraped
from ps_cluster.kubernetes.run import Object, Run
from ps_cluster.kubernetes.security import NO_TOKEN, container_security, pod_security
from ps_cluster.kubernetes.volumes import claim_name

_CONFIG = "/config"
_METRICS_PATH = "/monitoring/prometheus/metrics"
_POLL_SECONDS = 30


def serving_objects(run: Run) -> list[Object]:
    """Configuration, pods, address and rules of access of the model that lies in the job's volume.

    Raises:
      UserError: the job file says nothing of serving, or keeps the model nowhere.
    """
    asked = run.settings.serving
    if asked is None:
        raise UserError("kubernetes.serving: expected the memory of a serving pod, found no such section")
    if run.settings.object_store is not None:
        raise UserError("kubernetes.serving: expected a SavedModel in a volume, found 'object_store'")
    name = run.names.of("serving")
    return [
        _config_map(run, asked, name),
        _service(run, name),
        _deployment(run, asked, name),
        *_rules(run, asked, name),
    ]


def _metadata(run: Run, name: str) -> Object:
    return {**run.metadata(name), "labels": labels(name, "serving")}


def _config_map(run: Run, asked: ServingPods, name: str) -> Object:
    folder = posixpath.join(run.job_file.output, "export")
    models = f"""model_config_list {{
  config {{
    name: "{run.job.name}"
    base_path: "{folder}"
    model_platform: "tensorflow"
    model_version_policy {{ latest {{ num_versions: {asked.versions} }} }}
  }}
}}
"""
    # Lists of different lengths are padded to one length: their true lengths are inputs of their own.
    batching = f"""max_batch_size {{ value: {asked.batch_size} }}
batch_timeout_micros {{ value: {asked.batch_wait_microseconds} }}
num_batch_threads {{ value: {max(1, math.ceil(asked.cpu))} }}
max_enqueued_batches {{ value: 1000 }}
pad_variable_length_inputs: true
"""
    monitoring = f"""prometheus_config {{
  enable: true
  path: "{_METRICS_PATH}"
}}
"""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(run, name),
        "data": {"models.config": models, "batching.config": batching, "monitoring.config": monitoring},
    }


def _service(run: Run, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(run, name),
        "spec": {
            "selector": selector(name, "serving"),
            "ports": [
                {"name": "grpc", "port": SERVING_GRPC_PORT, "targetPort": "grpc"},
                {"name": "http", "port": SERVING_HTTP_PORT, "targetPort": "http"},
            ],
        },
    }


def _deployment(run: Run, asked: ServingPods, name: str) -> Object:
    answers = {"httpGet": {"path": f"/v1/models/{run.job.name}", "port": "http"}}
    container = {
        "name": "serving",
        "image": asked.image,
        "command": ["tensorflow_model_server"],
        "args": [
            f"--port={SERVING_GRPC_PORT}",
            f"--rest_api_port={SERVING_HTTP_PORT}",
            f"--model_config_file={_CONFIG}/models.config",
            "--enable_batching=true",
            f"--batching_parameters_file={_CONFIG}/batching.config",
            f"--monitoring_config_file={_CONFIG}/monitoring.config",
            "--enable_model_warmup=true",  # answers only after the requests that lie in the SavedModel
            f"--file_system_poll_wait_seconds={_POLL_SECONDS}",
        ],
        "ports": [
            {"name": "grpc", "containerPort": SERVING_GRPC_PORT},
            {"name": "http", "containerPort": SERVING_HTTP_PORT},
        ],
        "resources": resources(asked.memory, asked.cpu),
        "startupProbe": {**answers, "periodSeconds": 10, "failureThreshold": 180},
        "readinessProbe": {**answers, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {
            "tcpSocket": {"port": "grpc"},
            "periodSeconds": 20,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "storage", "mountPath": run.settings.storage.folder, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    claim = {"claimName": claim_name(run.settings.storage, run.job.name), "readOnly": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(run, name),
        "spec": {
            "replicas": asked.replicas,
            "selector": {"matchLabels": selector(name, "serving")},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {
                    "labels": labels(name, "serving"),
                    "annotations": scraped(str(SERVING_HTTP_PORT), _METRICS_PATH),
                },
                "spec": {
                    **NO_TOKEN,
                    **nodes(run),
                    "securityContext": pod_security(),
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": selector(name, "serving")},
                        }
                    ],
                    "containers": [container],
                    "volumes": [
                        {"name": "config", "configMap": {"name": name}},
                        {"name": "storage", "persistentVolumeClaim": claim},
                        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
                    ],
                },
            },
        },
    }


def _rules(run: Run, asked: ServingPods, name: str) -> list[Object]:
    pods = selector(name, "serving")
    clients = {"podSelector": {"matchLabels": dict(asked.clients)} if asked.clients else {}}
    both = [{"protocol": "TCP", "port": port} for port in (SERVING_GRPC_PORT, SERVING_HTTP_PORT)]
    ingress = [{"from": [clients], "ports": both}, from_watchers(run, SERVING_HTTP_PORT)]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(run, name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": pods}},
    }
    return [policy(_metadata(run, name), pods, ingress), budget]
