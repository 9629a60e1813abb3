"""The manifests for Kubernetes: schemas accept them, what they name is there, their settings are settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from hopscope.settings.configuration.file import load

FOLDER = Path(__file__).resolve().parents[1] / "deploy/kubernetes"
OLDEST, NEWEST = "1.30", "1.37"


def manifests() -> list[dict[str, Any]]:
    """Everything that is applied, without the files of kustomize."""
    files = [
        FOLDER / part / name
        for part in ("base", "init")
        for name in yaml.safe_load((FOLDER / part / "kustomization.yaml").read_text())["resources"]
    ]
    return [each for file in files for each in yaml.safe_load_all(file.read_text())]


def one(kind: str, name: str = "") -> Any:
    """The manifest of a kind."""
    (found,) = (each for each in manifests() if each["kind"] == kind and name in each["metadata"]["name"])
    return found


def pods() -> list[tuple[str, Any]]:
    """What makes pods, and their templates."""
    found = [each for each in manifests() if "template" in each.get("spec", {})]
    return [(each["kind"], each["spec"]["template"]["spec"]) for each in found]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_would_accept_them(version: str) -> None:
    """Strict schemas: no unknown field, no wrong type; of an old and a new release."""
    found = manifests()
    assert {each["kind"] for each in found} >= {"StatefulSet", "Service", "PodDisruptionBudget", "Job"}
    for each in found:
        kubernetes_validate.validate(each, version, strict=True)


def test_an_error_would_be_seen() -> None:
    """A misspelt field and a wrong type are refused."""
    for path, value in (("replcas", 3), ("replicas", "three")):
        wrong = one("StatefulSet")
        wrong["spec"][path] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, NEWEST, strict=True)


def test_names_in_them_agree() -> None:
    """Labels are selected, ports and volumes named are there, and so are files of the folder."""
    workload = one("StatefulSet")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    assert workload["spec"]["selector"]["matchLabels"] == labels
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    services = [each for each in manifests() if each["kind"] == "Service"]
    for each in services:
        assert each["spec"]["selector"] == labels
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
    assert workload["spec"]["serviceName"] in {each["metadata"]["name"] for each in services}
    assert one("Service", "reports")["spec"]["externalTrafficPolicy"] == "Local"
    own = {claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]}
    for kind, pod in pods():
        volumes = {volume["name"] for volume in pod["volumes"]} | (own if kind == "StatefulSet" else set())
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == volumes
    kustomization = yaml.safe_load((FOLDER / "base/kustomization.yaml").read_text())
    (settings,) = kustomization["configMapGenerator"]
    assert settings["files"] == ["hopscope.toml"]
    assert {pod["volumes"][0]["configMap"]["name"] for _, pod in pods()} == {settings["name"]}
    for patch in yaml.safe_load((FOLDER / "host-network/kustomization.yaml").read_text())["patches"]:
        assert one(patch["target"]["kind"], patch["target"]["name"])


def test_pods_have_no_rights() -> None:
    """Not root, nothing written but volumes, no capability, no account; Services are no variables of ours."""
    for _, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False  # HOPSCOPE_PORT is no setting
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["allowPrivilegeEscalation"] is False


def test_their_settings_are_settings() -> None:
    """The file loads with a pod's variables; every path in it is one that a pod mounts; secrets are files."""
    pod = dict(pods())["StatefulSet"]
    (container,) = pod["containers"]
    member = "hopscope-2"
    environment = {each["name"]: each.get("value", member) for each in container["env"]}
    environment = {name: value.replace("$(HOPSCOPE_MEMBER)", member) for name, value in environment.items()}
    settings = load(FOLDER / "base/hopscope.toml", environment=environment).settings
    assert settings.member_name == member
    assert settings.cluster.address == "http://hopscope-2.collectors:8080"
    assert settings.cluster.enabled
    assert settings.lake.enabled
    mounted = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    assert str(settings.data) in mounted
    for path in (settings.cluster.key_file, settings.cluster.ca_file, settings.lake.ca_file):
        assert str(path).startswith(mounted)
    for secret in (settings.serve.token, settings.lake.password, settings.lake.secret):
        assert str(secret).startswith("file:/run/secrets/hopscope/")
