"""What the observe-only manifest asks of a cluster, and what it promises."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from agents.config import SERVICE_ACCOUNT
from agents.settings.effective import ENVIRONMENT, Told, resolve
from agents.settings.flags import parser_of
from agents.settings.table import SETTINGS
from agents.wire.names import SharingMode
from agents.wire.version import VERSION

ROOT = Path(__file__).parents[3]
MANIFEST = ROOT / "deploy" / "kubernetes" / "observe.yaml"
DOCKERFILE = (ROOT / "docker" / "agent.Dockerfile").read_text()
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
CONFIG_FILE = "/etc/muxflow-agent/agent.toml"


@pytest.fixture(scope="module")
def objects():
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.fixture(scope="module")
def template(objects):
    return objects["DaemonSet"]["spec"]["template"]


@pytest.fixture(scope="module")
def pod(template):
    return template["spec"]


@pytest.fixture(scope="module")
def container(pod):
    (only,) = pod["containers"]
    return only


def environment(container):
    image = dict(re.findall(rf"({ENVIRONMENT}\w+)=(\S+)", DOCKERFILE))
    return image | {one["name"]: one.get("value", "node-01") for one in container["env"]}


def test_it_may_read_pods_and_nothing_else(objects):
    (rule,) = objects["ClusterRole"]["rules"]
    assert rule == {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    assert set(objects) == {
        *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
        *("ConfigMap", "DaemonSet"),
    }


def test_the_role_is_that_of_its_own_account(objects, pod):
    account = objects["ServiceAccount"]["metadata"]
    (subject,) = objects["ClusterRoleBinding"]["subjects"]
    assert subject == {"kind": "ServiceAccount", **account}
    assert (
        objects["ClusterRoleBinding"]["roleRef"]["name"]
        == (objects["ClusterRole"]["metadata"]["name"])
    )
    assert pod["serviceAccountName"] == account["name"]
    namespaces = {
        one["metadata"]["namespace"] for one in objects.values() if "namespace" in one["metadata"]
    }
    assert namespaces == {objects["Namespace"]["metadata"]["name"]}


def test_it_has_no_power_over_the_host(pod, container):
    assert "initContainers" not in pod
    assert not pod.get("hostNetwork")
    assert not pod.get("hostIPC")
    secured = container["securityContext"]
    assert not secured["privileged"]
    assert not secured["allowPrivilegeEscalation"]
    assert secured["readOnlyRootFilesystem"]
    assert secured["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert f"USER {pod['securityContext']['runAsUser']}" in DOCKERFILE


def test_it_writes_into_a_folder_of_its_own_that_goes_with_it(pod, container):
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    writable = [one["name"] for one in container["volumeMounts"] if not one.get("readOnly")]
    assert writable == ["state"]
    (state,) = [one for one in container["volumeMounts"] if one["name"] == "state"]
    told = environment(container)
    assert Path(told["MUXFLOW_AGENT_STATE_DIR"]).is_relative_to(state["mountPath"])
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}


def test_it_sees_the_processes_of_the_host_and_all_gpus(pod, container):
    assert pod["hostPID"]
    told = environment(container)
    assert told["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert told["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert pod["runtimeClassName"] == "nvidia"
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_its_settings_are_ones_that_the_agent_starts_with(objects, container):
    words = parser_of("muxflow-agent", "").parse_args(container["args"])
    assert str(words.config) == CONFIG_FILE
    content = tomllib.loads(objects["ConfigMap"]["data"]["agent.toml"])
    effective = resolve(Told({}, environment(container), content, CONFIG_FILE))
    assert effective.faults == ()
    assert effective.config.sharing_ceiling is SharingMode.OBSERVE
    assert effective.config.kubernetes == "in-cluster"
    assert effective.config.node == "node-01"
    assert effective.config.kubernetes_token == SERVICE_ACCOUNT / "token"


def test_what_it_mounts_is_where_the_agent_looks(pod, container):
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    told = environment(container)
    credentials = mounts[told["MUXFLOW_AGENT_CREDENTIALS"]]
    assert credentials["subPathExpr"] == "$(MUXFLOW_AGENT_NODE).json"
    assert mounts[told["MUXFLOW_AGENT_CONFIG"]]["subPath"] == "agent.toml"
    assert {one["name"] for one in mounts.values()} == {one["name"] for one in pod["volumes"]}
    (secret,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert secret["defaultMode"] == 0o440


def test_the_node_is_named_by_the_downward_api(container):
    (node,) = [one for one in container["env"] if "valueFrom" in one]
    assert node["name"] == SETTINGS["node"].variable
    assert node["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}


def test_the_agent_itself_says_how_it_is(container):
    probes = [container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert {tuple(one["exec"]["command"]) for one in probes} == {("muxflow-agent", "status")}


def test_it_is_chosen_by_its_own_labels_and_has_this_version(objects, template, container):
    labels = objects["DaemonSet"]["spec"]["selector"]["matchLabels"]
    assert labels.items() <= template["metadata"]["labels"].items()
    assert container["image"].endswith(f"/muxflow-agent:{VERSION}")


def test_the_page_names_what_must_be_there_before(pod):
    (secret,) = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert secret["secretName"] in PAGE
    assert "deploy/kubernetes/observe.yaml" in PAGE
