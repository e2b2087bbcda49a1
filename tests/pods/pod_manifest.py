"""Pod templates of YAML: what of them is run here, what makes no difference, and what is refused."""

from __future__ import annotations

from typing import Any

from ps_cluster.errors import UserError
from tests.pods.fields import Fields
from tests.pods.objects import Container, Mount, PodTemplate, Probe, Variable, Volume
from tests.pods.quantities import bytes_of

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def template_of(fields: Fields, restart: str) -> PodTemplate:
    """Of `metadata` and `spec`. restart: restartPolicy where none is given."""
    with fields, fields.section("metadata") as metadata, fields.section("spec") as spec:
        metadata.skip("name", "namespace", "creationTimestamp")
        labels, annotations = metadata.mapping("labels"), metadata.mapping("annotations")
        # One machine: where pods go, and how their image is had, is no question.
        spec.skip("topologySpreadConstraints", "affinity", "nodeSelector", "tolerations", "priorityClassName")
        spec.skip("imagePullSecrets", "automountServiceAccountToken", "enableServiceLinks", "serviceAccountName")
        always = spec.one_of("restartPolicy", ("Always", "Never"), restart) == "Always"
        grace = spec.take("terminationGracePeriodSeconds", int, 30)
        with spec.section("securityContext") as security:
            # Seccomp: system calls are not filtered here.
            security.skip("seccompProfile", "fsGroupChangePolicy", "runAsNonRoot")
            uid = security.take("runAsUser", int, 0)
            gid = security.take("runAsGroup", int, uid)
            fs_group = security.maybe("fsGroup", int)
        containers = spec.sections("containers")
        if len(containers) != 1:
            raise UserError(f"{spec.place('containers')}: expected one container, found {len(containers)}")
        volumes = tuple(_volume(one) for one in spec.sections("volumes"))
        container, own_uid = _container(containers[0])
        for mount in container.mounts:
            if mount.volume not in {volume.name for volume in volumes}:
                raise UserError(f"{containers[0].place('volumeMounts')}: no volume is called {mount.volume}")
        return PodTemplate(
            labels=labels,
            annotations=annotations,
            container=container,
            volumes=volumes,
            always=always,
            grace_seconds=grace,
            hostname=spec.take("hostname", str, ""),
            subdomain=spec.take("subdomain", str, ""),
            uid=uid if own_uid is None else own_uid,
            gid=gid,
            fs_group=fs_group,
        )


def _container(fields: Fields) -> tuple[Container, int | None]:
    with fields:
        fields.skip("image", "imagePullPolicy")
        name = fields.take("name", str)
        ports = {}
        for one in fields.sections("ports"):
            with one:
                one.one_of("protocol", ("TCP",), "TCP")
                ports[one.take("name", str, "")] = one.take("containerPort", int)
        with fields.section("resources") as resources:
            resources.skip("requests")
            with resources.section("limits") as limits:
                limits.skip("cpu")
                memory = limits.take("memory", object, "") or None
                limit = bytes_of(memory, limits.place("memory")) if memory is not None else None
        with fields.section("securityContext") as security:
            # Every process runs without capabilities and cannot gain any, whatever is said.
            security.skip("allowPrivilegeEscalation", "capabilities", "seccompProfile", "runAsNonRoot", "privileged")
            read_only = security.take("readOnlyRootFilesystem", bool, False)
            uid = security.maybe("runAsUser", int)
        policy = fields.one_of("terminationMessagePolicy", ("File", "FallbackToLogsOnError"), "File")
        argv = (*fields.texts("command"), *fields.texts("args"))
        if not argv:
            raise UserError(f"{fields.place('args')}: expected a command, since the image is not here, found none")
        made = Container(
            name=name,
            argv=argv,
            variables=tuple(_variable(one) for one in fields.sections("env")),
            probes={probe: _probe(fields.section(probe), ports) for probe in PROBES if fields.has(probe)},
            memory_bytes=limit,
            read_only_root=read_only,
            mounts=tuple(_mount(one) for one in fields.sections("volumeMounts")),
            message_path=fields.take("terminationMessagePath", str, "/dev/termination-log"),
            message_from_log=policy == "FallbackToLogsOnError",
        )
        fields.skip(*PROBES)
        return made, uid


def _variable(fields: Fields) -> Variable:
    with fields:
        name = fields.take("name", str)
        if not fields.has("valueFrom"):
            return Variable(name, fields.take("value", str, ""))
        with fields.section("valueFrom") as source:
            if source.has("configMapKeyRef"):
                with source.section("configMapKeyRef") as key:
                    return Variable(name, config_key=(key.take("name", str), key.take("key", str)))
            with source.section("fieldRef") as ref:
                ref.skip("apiVersion")
                return Variable(name, field_path=ref.take("fieldPath", str))


def _probe(fields: Fields, ports: dict[str, int]) -> Probe:
    def port(of: Fields) -> int:
        told = of.take("port", object)
        if isinstance(told, int):
            return told
        if told not in ports:
            raise UserError(f"{of.place('port')}: no port of the container is called {told}")
        return ports[str(told)]

    with fields:
        times: dict[str, Any] = {
            "delay_seconds": fields.take("initialDelaySeconds", int, 0),
            "period_seconds": fields.take("periodSeconds", int, 10),
            "timeout_seconds": fields.take("timeoutSeconds", int, 1),
            "failures": fields.take("failureThreshold", int, 3),
            "successes": fields.take("successThreshold", int, 1),
        }
        if fields.has("exec"):
            with fields.section("exec") as question:
                return Probe("exec", command=question.texts("command"), **times)
        if fields.has("httpGet"):
            with fields.section("httpGet") as question:
                question.one_of("scheme", ("HTTP",), "HTTP")
                return Probe("httpGet", path=question.take("path", str, "/"), port=port(question), **times)
        with fields.section("tcpSocket") as question:
            return Probe("tcpSocket", port=port(question), **times)


def _mount(fields: Fields) -> Mount:
    with fields:
        return Mount(fields.take("name", str), fields.take("mountPath", str), fields.take("readOnly", bool, False))


def _volume(fields: Fields) -> Volume:
    with fields:
        name = fields.take("name", str)
        if fields.has("configMap"):
            with fields.section("configMap") as source:
                source.skip("defaultMode")
                return Volume(name, "configMap", source.take("name", str))
        if fields.has("persistentVolumeClaim"):
            with fields.section("persistentVolumeClaim") as source:
                source.skip("readOnly")
                return Volume(name, "persistentVolumeClaim", source.take("claimName", str))
        with fields.section("emptyDir") as source:
            source.skip("sizeLimit")  # whoever writes more would be evicted
            source.one_of("medium", ("",), "")
            return Volume(name, "emptyDir")
