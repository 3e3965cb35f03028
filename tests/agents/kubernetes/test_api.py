"""One request: who is let in, over what, and how much of an answer is taken."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from agents.collectors.base import Unavailable
from agents.config import Config
from agents.kubernetes import address, source
from agents.kubernetes import api as api_module
from agents.kubernetes.api import Access, Api, Refused
from agents.stub.kubernetes_api import PATH, FakeKubernetes, serving

QUERY = {"limit": "1"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """For 127.0.0.1, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl: not installed")
    folder = tmp_path_factory.mktemp("ca")
    key, cert = folder / "key.pem", folder / "ca.crt"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=fake", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = subprocess.run(
        ["openssl", "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(cert)],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return key, cert


@pytest.fixture
def secure(certificate):
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with serving(FakeKubernetes(), lambda it: context.wrap_socket(it, server_side=True)) as url:
        yield url


def asked(*access):
    return Api(lambda: Access(*access))


def test_the_authority_of_the_cluster_is_the_only_one(secure, token, certificate, tmp_path):
    _, cert = certificate
    trusted = asked(secure, token, cert)
    assert b"PodList" in trusted.get(PATH, QUERY)
    trusted.close()
    with pytest.raises(Unavailable, match="certificate verify failed"):
        asked(secure, token).get(PATH, QUERY)
    empty = tmp_path / "empty.crt"
    empty.touch()
    for missing in (empty, tmp_path / "absent.crt"):
        with pytest.raises(Unavailable, match="no certificate authority"):
            asked(secure, token, missing).get(PATH, QUERY)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"a\r\nHost: evil", b"\xff\xfe", b"a\x00b"]
)
def test_a_file_that_holds_no_token_is_not_sent(cluster, url, token, content):
    token.write_bytes(content)
    with pytest.raises(Unavailable, match="token"):
        asked(url, token).get(PATH, QUERY)
    assert cluster.requests == []


def test_an_absent_token_is_named(url, tmp_path):
    with pytest.raises(Unavailable, match=r"cannot read the token in .*absent: No such file"):
        asked(url, tmp_path / "absent").get(PATH, QUERY)


def test_a_redirect_is_not_followed(cluster, api):
    cluster.fail(302, headers={"Location": "http://127.0.0.1:1/"})
    with pytest.raises(Refused, match="302"):
        api.get(PATH, QUERY)
    assert len(cluster.requests) == 1


def test_a_server_that_keeps_no_connection_is_asked_all_the_same(cluster, api):
    for _ in range(2):
        cluster.fail(200, b"{}", headers={"Connection": "close"})
        assert api.get(PATH, QUERY) == b"{}"


def test_an_answer_without_end_is_cut(cluster, api, monkeypatch):
    monkeypatch.setattr(api_module, "MOST_BYTES", 100)
    cluster.fail(200, b"x" * 1_000)
    with pytest.raises(Unavailable, match="more than 100 bytes"):
        api.get(PATH, QUERY)


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_takes_for_ever_is_cut(cluster, api, monkeypatch, status):
    monkeypatch.setattr(api_module, "DEADLINE_S", -1.0)
    cluster.fail(status, b"{}")
    with pytest.raises(Unavailable, match="for longer than"):
        api.get(PATH, QUERY)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: " + b"b" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    ],
    ids=["nothing", "no HTTP", "cut", "no chunk", "a long header", "many headers"],
)
def test_what_is_no_answer_is_told(token, answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_once, args=(server, answer), daemon=True).start()
        with pytest.raises(Unavailable, match=f"127.0.0.1:{server.getsockname()[1]}"):
            asked(f"http://127.0.0.1:{server.getsockname()[1]}", token).get(PATH, QUERY)


def answer_once(server, answer):
    connection, _ = server.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(answer)


def test_what_the_api_says_is_shown_without_what_a_terminal_obeys(cluster, api):
    cluster.fail(500, {"kind": "Status", "message": "boom\x1b[31m\n" + "x" * 900})
    with pytest.raises(Refused) as refused:
        api.get(PATH, QUERY)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://10.0.0.1:6443", True),
        ("https://[fd00::1]:6443", True),
        ("https://kubernetes.default.svc/", True),
        ("http://127.0.0.1:8001", True),
        ("http://[::1]:8001", True),
        ("http://10.0.0.1:8001", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://localhost@evil.example", False),
        ("https://", False),
        ("https://host:port", False),
        ("https://host:0", False),
        ("https://host/k8s/clusters/c-1", False),
        ("ftp://127.0.0.1", False),
        ("in-cluster", False),
    ],
)
def test_a_token_goes_over_tls_or_stays_on_this_machine(url, safe):
    assert address.is_safe(url) == safe


def test_a_pod_finds_the_api_by_what_the_kubelet_tells_it():
    told = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    config = Config(kubernetes="in-cluster")
    assert source.access(config, told).url == "https://10.96.0.1:6443"
    assert source.access(config, told | {"KUBERNETES_SERVICE_HOST": "fd00::1"}).url == (
        "https://[fd00::1]:6443"
    )
    with pytest.raises(Unavailable, match="this is no pod"):
        source.access(config, {})
    with pytest.raises(Unavailable, match="may be sent to"):
        source.access(Config(kubernetes="http://evil.example"), {})


def test_the_loopback_needs_no_token(tmp_path, token):
    config = Config(kubernetes="http://127.0.0.1:8001", kubernetes_token=tmp_path / "absent")
    assert source.access(config, {}) == Access("http://127.0.0.1:8001")
