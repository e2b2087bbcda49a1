"""As much of Kubernetes' API as kubectl needs to apply, get, wait for, delete and read logs of a run's objects.

Objects are kept as they come; a Job has its pods at once, which run until the test says how they end.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Object = dict[str, Any]

RESOURCES = {
    "v1": {
        "pods": "Pod",
        "services": "Service",
        "configmaps": "ConfigMap",
        "persistentvolumeclaims": "PersistentVolumeClaim",
    },
    "apps/v1": {"statefulsets": "StatefulSet", "deployments": "Deployment"},
    "batch/v1": {"jobs": "Job"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
    "policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
}
KINDS = {resource: (version, kind) for version, kinds in RESOURCES.items() for resource, kind in kinds.items()}
SHORT = {"configmaps": ["cm"], "pods": ["po"]}


@dataclass
class Cluster:
    """What the server holds: objects by resource and name, in one namespace after the other."""

    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    refuses: Callable[[str, str], str | None] = lambda method, path: None
    changed: threading.Condition = field(default_factory=threading.Condition)
    version: int = 0

    def put(self, resource: str, namespace: str, one: Object) -> Object:
        with self.changed:
            self.version += 1
            metadata = one["metadata"]
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", f"2030-01-01T00:00:{self.version % 60:02d}Z")
            metadata |= {"namespace": namespace, "resourceVersion": str(self.version)}
            self.objects[resource, namespace, metadata["name"]] = one
            if resource == "jobs" and "status" not in one:
                one["status"] = {"active": one["spec"].get("completions", 1)}
                for index in range(one["spec"].get("completions", 1)):
                    self.put("pods", namespace, _pod(one, index))
            self.changed.notify_all()
            return one

    def remove(self, resource: str, namespace: str, name: str) -> Object:
        with self.changed:
            self.version += 1
            gone = self.objects.pop((resource, namespace, name))
            for key, one in list(self.objects.items()):
                if any(owner["uid"] == gone["metadata"]["uid"] for owner in one["metadata"].get("ownerReferences", [])):
                    self.remove(*key)
            self.changed.notify_all()
            return gone

    def names(self, resource: str, namespace: str = "default") -> list[str]:
        return sorted(name for kind, where, name in self.objects if (kind, where) == (resource, namespace))

    def end(
        self, job: str, condition: str, reason: str = "", exit_code: int = 0, words: str = "", why: str = ""
    ) -> None:
        """A Job and its pods come to an end; `why`: the reason of the containers' end."""
        with self.changed:
            one = self.objects["jobs", "default", job]
            said = {"type": condition, "status": "True", "reason": reason, "message": f"Job {job} is {condition}"}
            one["status"] = {"conditions": [said]}
            for (resource, namespace, name), pod in list(self.objects.items()):
                if resource == "pods" and name.startswith(f"{job}-"):
                    ended = {"exitCode": exit_code, "message": words, "reason": why}
                    pod["status"] = {
                        "phase": "Failed" if exit_code else "Succeeded",
                        "containerStatuses": [{"name": "x", "state": {"terminated": ended}}],
                    }
                    self.put(resource, namespace, pod)
            self.put("jobs", "default", one)


def _pod(job: Object, index: int) -> Object:
    template, name = job["spec"]["template"], job["metadata"]["name"]
    labels = {**template["metadata"]["labels"], "batch.kubernetes.io/job-completion-index": str(index)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-{index}-abcde", "labels": labels, "ownerReferences": [owner]},
        "spec": template["spec"],
        "status": {"phase": "Running"},
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        found = _discovery(url.path)
        if found is not None:
            return self._answer(200, found)
        if self._refused("GET", url.path):
            return None
        if "/namespaces/" not in url.path:
            return self._not_found("path", url.path)
        resource, namespace, name, part = _place(url.path)
        if part == "log":
            return self._text(self.cluster.logs.get(name, ""))
        if name:
            one = self.cluster.objects.get((resource, namespace, name))
            return self._not_found(resource, name) if one is None else self._answer(200, one)
        if query.get("watch") in ("true", "1"):
            return self._watch(resource, namespace, query)
        version, kind = KINDS[resource]
        items = _chosen(self.cluster, resource, namespace, query)
        revision = {"resourceVersion": str(self.cluster.version)}
        return self._answer(200, {"apiVersion": version, "kind": f"{kind}List", "metadata": revision, "items": items})

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        one = self._body()
        if self._refused("POST", url.path):
            return
        resource, namespace, _, _ = _place(url.path)
        self._answer(201, self.cluster.put(resource, namespace, one))

    def do_PATCH(self) -> None:
        url = urlsplit(self.path)
        patch = self._body()
        resource, namespace, name, _ = _place(url.path)
        one = self.cluster.objects[resource, namespace, name]
        told = [part for part in patch if part not in ("metadata", "$setElementOrder/spec")]
        if told and (resource == "jobs" or one.get("immutable")):
            self._status(422, "Invalid", f'{KINDS[resource][1]} "{name}" is invalid: field is immutable')
            return
        self._answer(200, self.cluster.put(resource, namespace, _merged(one, patch)))

    def do_DELETE(self) -> None:
        url = urlsplit(self.path)
        self._body()
        if self._refused("DELETE", url.path):
            return
        resource, namespace, name, _ = _place(url.path)
        if (resource, namespace, name) not in self.cluster.objects:
            self._not_found(resource, name)
            return
        self._answer(200, self.cluster.remove(resource, namespace, name))

    def _watch(self, resource: str, namespace: str, query: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        told: dict[str, str] = {}
        try:
            for _ in range(600):
                with self.cluster.changed:
                    now = {one["metadata"]["name"]: one for one in _chosen(self.cluster, resource, namespace, query)}
                    events = [
                        ("ADDED" if name not in told else "MODIFIED", one)
                        for name, one in now.items()
                        if told.get(name) != one["metadata"]["resourceVersion"]
                    ]
                    events += [("DELETED", {**_named(resource, namespace, name)}) for name in told if name not in now]
                    told = {name: one["metadata"]["resourceVersion"] for name, one in now.items()}
                    text = "".join(json.dumps({"type": kind, "object": one}) + "\n" for kind, one in events)
                self.wfile.write(text.encode())
                self.wfile.flush()
                with self.cluster.changed:
                    self.cluster.changed.wait(0.1)
        except OSError:
            pass
        self.close_connection = True

    def _refused(self, method: str, path: str) -> bool:
        reason = self.cluster.refuses(method, path)
        if reason is not None:
            self._status(403, "Forbidden", reason)
        return reason is not None

    def _body(self) -> Object:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(text) if text else {}

    def _not_found(self, resource: str, name: str) -> None:
        self._status(404, "NotFound", f'{resource} "{name}" not found')

    def _status(self, code: int, reason: str, message: str) -> None:
        told = {"status": "Failure", "code": code, "reason": reason, "message": message}
        self._answer(code, {"apiVersion": "v1", "kind": "Status", "metadata": {}, **told})

    def _answer(self, code: int, body: Object) -> None:
        self._send(code, "application/json", json.dumps(body).encode())

    def _text(self, body: str) -> None:
        self._send(200, "text/plain", body.encode())

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _place(path: str) -> tuple[str, str, str, str]:
    """Resource, namespace, name and sub-resource of `/api/v1/namespaces/NS/RESOURCE/NAME/PART`."""
    parts = path.strip("/").split("/")
    parts = [*parts[parts.index("namespaces") + 1 :], "", ""]
    return parts[1], parts[0], parts[2], parts[3]


def _named(resource: str, namespace: str, name: str) -> Object:
    version, kind = KINDS[resource]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def _chosen(cluster: Cluster, resource: str, namespace: str, query: Mapping[str, str]) -> list[Object]:
    labels = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
    name = query.get("fieldSelector", "").partition("metadata.name=")[2]
    return [
        one
        for (kind, where, called), one in sorted(cluster.objects.items())
        if (kind, where) == (resource, namespace)
        and labels.items() <= one["metadata"].get("labels", {}).items()
        and name in ("", called)
    ]


def _merged(value: Object, patch: Object) -> Object:
    """A merge patch; of what strategic ones have more, nothing is needed here."""
    found = dict(value)
    for name, new in patch.items():
        if new is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name) or {}, new) if isinstance(new, dict) else new
    return found


def _discovery(path: str) -> Object | None:
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = []
        for version in RESOURCES:
            group, _, number = version.rpartition("/")
            if group:
                told = {"groupVersion": version, "version": number}
                groups.append({"name": group, "versions": [told], "preferredVersion": told})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = path.strip("/").removeprefix("apis/").removeprefix("api/")
    if path.startswith("/openapi/v3"):
        return _openapi(path)
    if version not in RESOURCES:
        return None
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return {
        "kind": "APIResourceList",
        "groupVersion": version,
        "resources": [
            {
                "name": name,
                "singularName": kind.lower(),
                "namespaced": True,
                "kind": kind,
                "verbs": verbs,
                "shortNames": SHORT.get(name, []),
            }
            for name, kind in RESOURCES[version].items()
        ],
    }


def _openapi(path: str) -> Object:
    """Says that the server checks fields itself, so that kubectl does not."""
    paths = {("api/" if version == "v1" else "apis/") + version: version for version in RESOURCES}
    wanted = path.removeprefix("/openapi/v3").strip("/")
    if wanted not in paths:
        return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash=1"} for name in paths}}
    group, _, number = paths[wanted].rpartition("/")
    found = {}
    for resource, kind in RESOURCES[paths[wanted]].items():
        operation = {
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": {"group": group, "version": number, "kind": kind},
        }
        found[f"/{wanted}/namespaces/{{namespace}}/{resource}/{{name}}"] = {"patch": operation}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.30.0"}, "paths": found}


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Cluster, Path]]:
    """A cluster, and the configuration by which kubectl finds it."""
    cluster = Cluster()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": cluster}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        "current-context": "test",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        yield cluster, path
    finally:
        server.shutdown()
        server.server_close()
