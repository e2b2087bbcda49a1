"""The objects of a stream of YAML: those that are emulated, read strictly; all others are refused by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from ps_cluster.errors import UserError
from tests.pods.fields import Fields
from tests.pods.job_rules import DISRUPTED, FailureRule, JobRules
from tests.pods.objects import (
    Budget,
    Cluster,
    Expression,
    Peer,
    Policy,
    Rule,
    Selector,
    Service,
    Workload,
)
from tests.pods.pod_manifest import template_of

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
DEFAULT_NAMESPACE = "default"


def cluster_of(text: str) -> Cluster:
    """Reads YAML documents.

    Raises:
      UserError: it is no YAML, or says something that would matter and is not emulated; names object and field.
    """
    try:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        raise UserError(f"expected YAML, found what is none: {error}") from None
    if not documents:
        raise UserError("expected objects of Kubernetes as YAML, found nothing")
    return objects_of(documents)


def objects_of(documents: Iterable[Any]) -> Cluster:
    """As `cluster_of`, of documents that have been read."""
    found: dict[str, list[Any]] = defaultdict(list)
    seen: set[tuple[str, str, str]] = set()
    maps: dict[tuple[str, str], dict[str, str]] = {}
    namespaces: dict[str, dict[str, str]] = {}
    for number, document in enumerate(_without_lists(documents)):
        fields = Fields(document, f"document {number + 1}")
        kind = fields.take("kind", str)
        metadata = fields.section("metadata")
        name, namespace = metadata.take("name", str), metadata.take("namespace", str, DEFAULT_NAMESPACE)
        if (kind, namespace, name) in seen:
            raise UserError(f"{kind} {name}: it is there twice")
        seen.add((kind, namespace, name))
        fields.skip("apiVersion", "status")
        fields.where = f"{kind} {name}: "
        namespaces.setdefault(namespace, {NAMESPACE_LABEL: namespace})
        if kind == "ConfigMap":
            with fields:
                fields.skip("immutable")
                maps[namespace, name] = fields.mapping("data")
        elif kind == "Namespace":
            fields.skip("spec")
            namespaces[name] = {NAMESPACE_LABEL: name, **metadata.mapping("labels")}
        elif kind == "PersistentVolumeClaim":
            found[kind].append(name)
        elif kind == "Pod":
            template = template_of(
                Fields({"metadata": document["metadata"], "spec": document["spec"]}, f"Pod {name}: "), "Always"
            )
            found["workloads"].append(Workload(kind, name, namespace, template, 1))
        elif kind in _KINDS:
            with fields, fields.section("spec") as spec:
                made = _KINDS[kind](spec, name, namespace)
            found["workloads" if isinstance(made, Workload) else kind].append(made)
        else:
            raise UserError(f"{kind} {name}: kind: {kind} is not emulated here")
    cluster = Cluster(
        workloads=tuple(found["workloads"]),
        services=tuple(found["Service"]),
        policies=tuple(found["NetworkPolicy"]),
        budgets=tuple(found["PodDisruptionBudget"]),
        config_maps=maps,
        claims=frozenset(found["PersistentVolumeClaim"]),
        namespaces=namespaces,
    )
    for one in cluster.workloads:
        _check_sources(cluster, one)
    if not cluster.workloads:
        raise UserError("expected something that makes pods, such as a Job, found nothing of that kind")
    return cluster


def _without_lists(documents: Iterable[Any]) -> Iterable[Any]:
    for one in documents:
        if isinstance(one, dict) and one.get("kind") == "List":
            yield from one.get("items", [])
        else:
            yield one


def _check_sources(cluster: Cluster, one: Workload) -> None:
    for volume in one.template.volumes:
        if volume.kind == "configMap" and (one.namespace, volume.source) not in cluster.config_maps:
            raise UserError(f"{one.kind} {one.name}: volume {volume.name}: there is no ConfigMap {volume.source}")


def _job(spec: Fields, name: str, namespace: str) -> Workload:
    indexed = spec.one_of("completionMode", ("Indexed", "NonIndexed"), "NonIndexed") == "Indexed"
    parallelism = spec.take("parallelism", int, 1)
    completions = spec.take("completions", int, parallelism)
    per_index = spec.maybe("backoffLimitPerIndex", int)
    # A Job that has ended is not removed while one may look at it here.
    spec.skip("ttlSecondsAfterFinished", "manualSelector")
    if spec.take("suspend", bool, False):
        raise UserError(f"{spec.place('suspend')}: nobody would let it begin here")
    spec.one_of("podReplacementPolicy", ("Failed",), "Failed")
    with spec.section("podFailurePolicy") as policy:
        failure_rules = tuple(_failure_rule(one) for one in policy.sections("rules"))
    rules = JobRules(
        completions=completions,
        parallelism=min(parallelism, completions),
        indexed=indexed,
        backoff_limit=spec.take("backoffLimit", int, 6 if per_index is None else 2**31 - 1),
        backoff_limit_per_index=per_index,
        max_failed_indexes=spec.maybe("maxFailedIndexes", int),
        failure_rules=failure_rules,
        deadline_seconds=spec.maybe("activeDeadlineSeconds", int),
    )
    template = template_of(spec.section("template"), "Always")
    if template.always:
        where = spec.place("template.spec.restartPolicy")
        raise UserError(f"{where}: a Job's is Never or OnFailure, and only Never is emulated here")
    return Workload("Job", name, namespace, template, completions, rules)


def _failure_rule(fields: Fields) -> FailureRule:
    with fields:
        action = fields.one_of("action", ("FailJob", "FailIndex", "Ignore", "Count"))
        if fields.has("onExitCodes"):
            with fields.section("onExitCodes") as codes:
                return FailureRule(
                    action=action,
                    container=codes.maybe("containerName", str),
                    operator=codes.one_of("operator", ("In", "NotIn")),
                    codes=tuple(codes.take("values", list)),
                )
        for condition in fields.sections("onPodConditions"):
            with condition:
                condition.one_of("type", (DISRUPTED,))
                condition.one_of("status", ("True",), "True")
        return FailureRule(action=action, disruptions=True)


def _stateful_set(spec: Fields, name: str, namespace: str) -> Workload:
    spec.skip("selector", "podManagementPolicy", "updateStrategy", "revisionHistoryLimit", "serviceName")
    replicas = spec.take("replicas", int, 1)
    return Workload("StatefulSet", name, namespace, template_of(spec.section("template"), "Always"), replicas)


def _deployment(spec: Fields, name: str, namespace: str) -> Workload:
    spec.skip("selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds", "minReadySeconds")
    replicas = spec.take("replicas", int, 1)
    return Workload("Deployment", name, namespace, template_of(spec.section("template"), "Always"), replicas)


def _service(spec: Fields, name: str, namespace: str) -> Service:
    spec.one_of("type", ("ClusterIP",), "ClusterIP")
    spec.skip("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")  # a name for the pods' own addresses, always
    for port in spec.sections("ports"):
        with port:
            port.skip("name", "appProtocol")
            port.one_of("protocol", ("TCP",), "TCP")
            number, target = port.take("port", int), port.maybe("targetPort", object)
            if isinstance(target, int) and target != number:
                raise UserError(f"{port.place('targetPort')}: another port than the Service's is not emulated here")
    selector = Selector(tuple(Expression(key, "In", (value,)) for key, value in spec.mapping("selector").items()))
    return Service(name, namespace, selector, spec.take("publishNotReadyAddresses", bool, False))


def _policy(spec: Fields, name: str, namespace: str) -> Policy:
    if spec.take("policyTypes", list, ["Ingress"]) != ["Ingress"]:
        raise UserError(f"{spec.place('policyTypes')}: only Ingress is emulated here")
    selector = _selector(spec.section("podSelector"))
    return Policy(name, namespace, selector, tuple(_rule(one) for one in spec.sections("ingress")))


def _rule(fields: Fields) -> Rule:
    with fields:
        ports = []
        for port in fields.sections("ports"):
            with port:
                port.one_of("protocol", ("TCP",), "TCP")
                first = port.take("port", int)
                ports.append((first, port.take("endPort", int, first)))
        return Rule(tuple(_peer(one) for one in fields.sections("from")), tuple(ports))


def _peer(fields: Fields) -> Peer:
    with fields:
        namespaces = _selector(fields.section("namespaceSelector")) if fields.has("namespaceSelector") else None
        fields.skip("namespaceSelector")
        return Peer(_selector(fields.section("podSelector")), namespaces)


def _budget(spec: Fields, name: str, namespace: str) -> Budget:
    spec.skip("unhealthyPodEvictionPolicy")
    selector = _selector(spec.section("selector"))
    return Budget(name, namespace, selector, spec.maybe("minAvailable", int), spec.maybe("maxUnavailable", int))


def _selector(fields: Fields) -> Selector:
    with fields:
        found = [Expression(key, "In", (value,)) for key, value in fields.mapping("matchLabels").items()]
        for one in fields.sections("matchExpressions"):
            with one:
                operator = one.one_of("operator", ("In", "NotIn", "Exists", "DoesNotExist"))
                found.append(Expression(one.take("key", str), operator, one.texts("values")))
        return Selector(tuple(found))


_KINDS: dict[str, Callable[[Fields, str, str], Any]] = {
    "Job": _job,
    "StatefulSet": _stateful_set,
    "Deployment": _deployment,
    "Service": _service,
    "NetworkPolicy": _policy,
    "PodDisruptionBudget": _budget,
}
