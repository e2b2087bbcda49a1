"""Names for the pods, and who may reach them."""

from __future__ import annotations

from ps_cluster.kubernetes.names import FIRST_FREE_PORT, RENDEZVOUS_PORT, TENSORFLOW_PORT, selector
from ps_cluster.kubernetes.run import Object, Run


def service(run: Run) -> Object:
    """Headless: each pod has a name of its own, also while it starts, since the pods look for each other then."""
    ports = [{"name": "tensorflow", "port": TENSORFLOW_PORT}]
    if run.job.cluster.workers > 1:
        ports.append({"name": "rendezvous", "port": RENDEZVOUS_PORT})
    if run.job.metrics.serve:
        ports.append({"name": "metrics", "port": run.job.metrics.port})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": run.metadata(run.names.service),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(run.job.name),
            "ports": ports,
        },
    }


def ps_policy(run: Run) -> Object:
    """TensorFlow's servers ask nobody who they are: only the job's own pods may reach them."""
    return _policy(run, "ps", [_from_pods(run, None, TENSORFLOW_PORT), *_figures(run)])


def worker_policy(run: Run) -> Object:
    """The job's pods reach TensorFlow and the rendezvous, workers each other's rings."""
    job, rules = run.job.name, [_from_pods(run, None, TENSORFLOW_PORT)]
    if run.job.cluster.workers > 1:
        rules[0]["ports"].append(_tcp(RENDEZVOUS_PORT))
        ring = {**_tcp(FIRST_FREE_PORT), "endPort": 65535}
        rules.append({"from": [{"podSelector": {"matchLabels": selector(job, "worker")}}], "ports": [ring]})
    return _policy(run, "worker", [*rules, *_figures(run)])


def policy(metadata: Object, pods: dict[str, str], ingress: list[Object]) -> Object:
    """Lets nothing into the selected pods but what the rules of `ingress` let."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def from_watchers(run: Run, port: int) -> Object:
    """A rule for the pods of the namespace that may read figures; the label is Kubernetes' own."""
    watchers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": run.settings.metrics_namespace}}}
    return {"from": [watchers], "ports": [_tcp(port)]}


def _figures(run: Run) -> list[Object]:
    metrics = run.job.metrics
    return [from_watchers(run, metrics.port)] if metrics.serve and metrics.port is not None else []


def _policy(run: Run, component: str, ingress: list[Object]) -> Object:
    metadata = run.metadata(run.names.of(component), component)
    return policy(metadata, selector(run.job.name, component), ingress)


def _from_pods(run: Run, component: str | None, port: int) -> Object:
    peers = [{"podSelector": {"matchLabels": selector(run.job.name, component)}}]
    return {"from": peers, "ports": [_tcp(port)]}


def _tcp(port: int) -> Object:
    return {"protocol": "TCP", "port": port}
