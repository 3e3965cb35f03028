"""Whom a node takes for its console, and what a console may ask of it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from agents import enrol, tls
from agents.config import CannotRun, Config, Size
from agents.settings import rules
from tests import debian
from tests.agents.fake_console import FakeConsole, until
from tests.agents.network.site import Site, be_quick
from tests.agents.test_enrol import GIVEN, GPUS, Clerk, Desk

pytestmark = pytest.mark.timeout(120)


class Office:
    """Makes keys and certificates with `openssl`."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return self.folder / name

    def authority(self, name):
        words = ("-x509", "-subj", f"/CN={name}", "-days", "2")
        self._openssl("req", *self._new_key(name), *words, "-out", self.path(f"{name}.pem"))
        return self.path(f"{name}.pem")

    def certificate(self, name, by, host="127.0.0.1"):
        """Signed by the authority `by`; the paths of certificate and key."""
        request, made = self.path(f"{name}.csr"), self.path(f"{name}.pem")
        self._openssl("req", *self._new_key(name), "-subj", f"/CN={name}", "-out", request)
        self.path("names").write_text(f"subjectAltName=IP:{host}\n")
        signer = (
            "-CA",
            self.path(f"{by}.pem"),
            "-CAkey",
            self.path(f"{by}.key"),
            "-CAcreateserial",
        )
        more = ("-days", "2", "-extfile", self.path("names"), "-out", made)
        self._openssl("x509", "-req", "-in", request, *signer, *more)
        return made, self.path(f"{name}.key")

    def _new_key(self, name):
        words = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*words, "-keyout", self.path(f"{name}.key"))

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    if not shutil.which("openssl"):
        debian.install("openssl")
    if not shutil.which("openssl"):
        pytest.skip("openssl: none here (Debian, Ubuntu: apt install openssl)")
    office = Office(tmp_path_factory.mktemp("office"))
    for name in ("ours", "theirs"):
        office.authority(name)
    office.certificate("console", by="ours")
    office.certificate("elsewhere", by="ours", host="192.0.2.7")
    office.certificate("node", by="ours")
    return office


def config_of(office, ca="", cert="", key=""):
    def named(name):
        return office.path(name) if name else None

    return Config(tls_ca=named(ca), tls_cert=named(cert), tls_key=named(key))


class SecureConsole(FakeConsole):
    """Shows `name`; `asks`: only nodes with a certificate of ours come in."""

    def __init__(self, office, name="console", asks=False):
        super().__init__()
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(office.path(f"{name}.pem"), office.path(f"{name}.key"))
        if asks:
            self.tls.load_verify_locations(office.path("ours.pem"))
            self.tls.verify_mode = ssl.CERT_REQUIRED


@pytest.fixture
def connect(tmp_path, office, monkeypatch, caplog):
    """Lets a node try, and returns what came of it: "connected", or the one line it logged."""
    be_quick(monkeypatch)

    async def connect(console, **named):
        async with console:
            site = Site(tmp_path, console.url, tls.context(config_of(office, **named)))
            try:
                await until(lambda: site.link.is_up or warnings(caplog))
                if site.link.is_up:
                    return "connected"
                await asyncio.sleep(0.3)  # a few tries more
                assert console.handshakes == 0
                (line,) = warnings(caplog)
                return line.partition("/ws/agent/: ")[2]
            finally:
                await site.die()

    return connect


def warnings(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("agents")
    ]


async def test_a_console_that_our_authority_vouches_for_is_spoken_to(office, connect):
    assert await connect(SecureConsole(office), ca="ours.pem") == "connected"


@pytest.mark.parametrize(
    ("shown", "ca", "why"),
    [
        ("console", "theirs.pem", "unable to get local issuer certificate"),
        ("console", "", "unable to get local issuer certificate"),
        ("elsewhere", "ours.pem", "IP address mismatch"),
    ],
    ids=["another authority", "those of this machine", "another address"],
)
async def test_any_other_console_hears_no_token(office, connect, shown, ca, why):
    told = await connect(SecureConsole(office, shown), ca=ca)
    assert told.startswith("its certificate is not trusted: ")
    assert why in told


async def test_a_console_that_asks_for_a_certificate_gets_it(office, connect):
    named = {"ca": "ours.pem", "cert": "node.pem", "key": "node.key"}
    assert await connect(SecureConsole(office, asks=True), **named) == "connected"


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"ca": "nowhere.pem"}, "cannot read tls_ca .*nowhere.pem: No such file"),
        ({"ca": "node.key"}, "tls_ca .*node.key holds no certificate"),
        ({"cert": "nowhere.pem"}, "cannot read .*nowhere.pem: No such file"),
        ({"cert": "node.pem", "key": "console.key"}, "node.pem and its key cannot be used"),
        ({"cert": "node.pem", "key": "locked.key"}, "the key without a passphrase"),
    ],
)
def test_files_that_cannot_be_used_are_named(office, named, sentence):
    locked = ("-aes256", "-passout", "pass:word", "-out", office.path("locked.key"))
    office._openssl("ec", "-in", office.path("node.key"), *locked)
    with pytest.raises(CannotRun, match=sentence):
        tls.context(config_of(office, **named))


def test_enrolment_speaks_to_the_same_consoles_alone(office):
    desk = Desk(("127.0.0.1", 0), Clerk)
    desk.socket = SecureConsole(office).tls.wrap_socket(desk.socket, server_side=True)
    thread = threading.Thread(target=desk.serve_forever, args=(0.05,))
    thread.start()
    url = f"https://127.0.0.1:{desk.server_port}"
    try:
        ours, theirs = (
            tls.context(config_of(office, ca=f"{who}.pem")) for who in ("ours", "theirs")
        )
        assert enrol.enrol(url, "token", "node-01", GPUS, ours) == GIVEN
        with pytest.raises(enrol.NotEnrolled, match="certificate verify failed"):
            enrol.enrol(url, "token", "node-01", GPUS, theirs)
    finally:
        desk.shutdown()
        thread.join()
        desk.server_close()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tls_ca": "a.pem"}, "--tls-ca and --tls-cert are for a wss:// address"),
        ({"tls_key": "a.key"}, "--tls-key is the key of a certificate"),
    ],
)
def test_settings_without_what_they_are_for_are_named(given, sentence):
    values = {name: Path(value) for name, value in given.items()}
    config = Config(simulate=Size(1, 1), console="ws://127.0.0.1:1/", **values)
    (told,) = rules.broken(config)
    assert told.startswith(sentence)
