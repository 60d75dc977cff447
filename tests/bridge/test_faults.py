"""Why a plant cannot be reached, in words that name the address and the remedy, from real servers and brokers."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import re
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bridge.interrupting import needs
from bridge.rig import MOSQUITTO, answers, free_port, wait_for

from holdcourse.bridge.bridgefile import BridgeFile
from holdcourse.bridge.faults import network_fault
from holdcourse.bridge.plant import PlantLost, plant_of
from holdcourse.errors import InvalidInput

FILE = {
    "controller": "mill",
    "period": 60.0,
    "timeout": 2.0,
    "service": {"url": "http://127.0.0.1:1"},
    "heartbeat": {"node": "ns=2;s=Beat"},
    "setpoint": {"node": "ns=2;s=SetPoint"},
    "measurement": {"node": "ns=2;s=Power", "stale_after": "never"},
    "control": {"node": "ns=2;s=Control"},
}
SPOKEN = {
    **{name: FILE[name] for name in ("controller", "period", "timeout", "service")},
    "heartbeat": {"topic": "plc/beat"},
    "setpoint": {"topic": "plc/set", "read_back": {"topic": "plc/taken"}},
    "measurement": {"topic": "plc/power"},
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two keys with their own certificates, for 127.0.0.1 alone, and a password that is right and one that is not."""
    needs("opcua")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        own = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        own = own.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        known = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.UniformResourceIdentifier("urn:t")]
        own = own.add_extension(x509.SubjectAlternativeName(known), critical=False)
        certificate = own.sign(key, hashes.SHA256())
        (folder / f"{name}.der").write_bytes(certificate.public_bytes(serialization.Encoding.DER))
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        written = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}-key.pem").write_bytes(written)
        (folder / name).write_text(f"{name}\n")  # the password that is right, and one that is wrong
    (folder / "empty.pem").write_text("nothing\n")
    return folder


@contextmanager
def server(keys, *, secured=False, named=False):
    """An OPC UA server in a thread."""
    from asyncua import Server, ua
    from asyncua.crypto.permission_rules import User, UserRole

    class Users:
        def get_user(self, iserver, username=None, password=None, certificate=None):
            return User(role=UserRole.User) if (username, password) == ("anna", "ours") or not named else None

    port, ready, ended = free_port(), threading.Event(), threading.Event()

    async def serve():
        plc = Server(user_manager=Users())
        await plc.init()
        plc.set_endpoint(f"opc.tcp://127.0.0.1:{port}/plc")
        if secured:
            await plc.load_certificate(str(keys / "theirs.der"))
            await plc.load_private_key(str(keys / "theirs-key.pem"))
        policy = ua.SecurityPolicyType
        plc.set_security_policy([policy.Basic256Sha256_SignAndEncrypt if secured else policy.NoSecurity])
        plc.set_identity_tokens([ua.UserNameIdentityToken if named else ua.AnonymousIdentityToken])
        await plc.register_namespace("urn:holdcourse:test")
        for name, first in (("Beat", 0), ("SetPoint", 1.0), ("Power", 1.0), ("Control", False), ("Fixed", 1.0)):
            node = await plc.nodes.objects.add_variable(ua.NodeId(name, 2), name, first)
            if name != "Fixed":
                await node.set_writable()
        async with plc:
            ready.set()
            while not ended.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield f"opc.tcp://127.0.0.1:{port}/plc"
    finally:
        ended.set()
        thread.join(20)


@contextmanager
def plant(keys, about, **more):
    kind, base = ("opcua", FILE) if "url" in about else ("mqtt", SPOKEN)
    opened = plant_of(BridgeFile.model_validate({**base, kind: about, **more}), keys)
    try:
        yield opened
    finally:
        opened.close()


def refused(keys, about, error=PlantLost, **more):
    """What is said when the plant is connected to; no words of a library are among it."""
    with plant(keys, about, **more) as lost, pytest.raises(error) as found:
        lost.connect()
    words = str(found.value)
    assert not re.search(r"Error:|Errno|No matching|_ssl\.c|http://opcfoundation", words), words
    return words


def test_an_opc_ua_server_that_is_not_there(keys):
    url = f"opc.tcp://127.0.0.1:{free_port()}"
    remedy = "check the address and the port, and whether an OPC UA server runs there"
    assert refused(keys, {"url": url}) == f"nobody listens at {url}; {remedy}"
    said = refused(keys, {"url": "opc.tcp://plc.invalid:4840"})
    assert "the host of opc.tcp://plc.invalid:4840 is not known" in said
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"opc.tcp://127.0.0.1:{listener.getsockname()[1]}"
        assert refused(keys, {"url": url}).startswith(f"{url} did not answer within 2 s; check the port, ")


def test_an_opc_ua_server_without_security(keys):
    ours = "Basic256Sha256,SignAndEncrypt,ours.der,ours-key.pem"
    with server(keys) as url:
        said = f"{url} does not offer Basic256Sha256,SignAndEncrypt, but an open connection; leave out opcua.security"
        assert refused(keys, {"url": url, "security": ours}) == said
        said = f"{url} takes no names and passwords (BadIdentityTokenRejected); leave out opcua.user"
        assert said in refused(keys, {"url": url, "user": "anna", "password_file": "ours"})
        said = "setpoint: the server has no node ns=2;s=SetPiont (BadNodeIdUnknown); check the number after ns= and"
        assert refused(keys, {"url": url}, setpoint={"node": "ns=2;s=SetPiont"}).startswith(said)
        said = refused(keys, {"url": url}, setpoint={"node": "i=85"})
        assert said == "setpoint: i=85 has no value (BadAttributeIdInvalid); name a variable of the server"
        said = refused(keys, {"url": url}, InvalidInput, setpoint={"node": "Mill.Speed"})
        assert said == "the node 'Mill.Speed' is not written as OPC UA needs it; write it like ns=2;s=Mill.Load"
        with plant(keys, {"url": url}, setpoint={"node": "ns=2;s=Fixed"}) as found:
            found.connect()
            with pytest.raises(
                PlantLost, match=r"^setpoint cannot be written to ns=2;s=Fixed: .* let the bridge write"
            ):
                found.write("setpoint", 2.0)
        with plant(keys, {"url": url}, measurement={"node": "ns=9;s=Power", "stale_after": "never"}) as found:
            found.connect()
            assert "the server has no node ns=9;s=Power (Bad" in found.read()["measurement"].trouble


def test_an_opc_ua_server_with_security_and_users(keys):
    ours = "Basic256Sha256,SignAndEncrypt,ours.der,ours-key.pem"
    with server(keys, secured=True, named=True) as url:
        begin = 'begin opcua.security with "Basic256Sha256,SignAndEncrypt"'
        said = f"{url} does not offer an open connection, but Basic256Sha256,SignAndEncrypt; {begin}"
        assert refused(keys, {"url": url}) == said
        other = ours.replace("Basic256Sha256", "Aes256Sha256RsaPss")
        assert begin in refused(keys, {"url": url, "security": other})
        about = {"url": url, "security": ours}
        assert "lets nobody in without a name" in refused(keys, about)
        said = refused(keys, {**about, "user": "anna", "password_file": "theirs"})
        assert said.startswith(f"{url} does not let in the user 'anna', or the password is wrong (BadUserAccessDenied)")
        said = refused(keys, {**about, "security": ours.replace("ours-key.pem", "lost-key.pem")}, InvalidInput)
        assert said == f"opcua.security: there is no file {keys / 'lost-key.pem'}; correct the name, or put it there"
        said = refused(keys, {**about, "security": ours.replace("ours-key.pem", "/")}, InvalidInput)
        assert said.startswith("opcua.security: / cannot be read (Is a directory); give a file that")
        said = refused(keys, {**about, "security": ours.replace("ours-key.pem", "empty.pem")}, InvalidInput)
        assert "the certificate or the key cannot be used" in said
        with plant(keys, {**about, "user": "anna", "password_file": "ours"}) as found:
            found.connect()
            assert found.read()["measurement"].value == 1.0


@contextmanager
def broker(folder, *lines):
    needs("mqtt")
    port = free_port()
    (folder / "m.conf").write_text("\n".join([f"listener {port} 127.0.0.1", "user root", *lines, ""]))
    process = subprocess.Popen([MOSQUITTO, "-c", folder / "m.conf"], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port), "the broker")
        yield {"host": "127.0.0.1", "port": port}
    finally:
        process.terminate()
        process.wait(60)


# Where TLS fails, paho leaves its socket to the frames of the error, and `connect` clears those.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_a_broker_that_is_not_there_or_lets_nobody_in(keys, tmp_path):
    about = {"host": "127.0.0.1", "port": free_port()}
    said = f"nobody listens at 127.0.0.1:{about['port']}; check the address and the port, and whether an MQTT broker"
    assert refused(keys, about).startswith(said)
    with broker(tmp_path, "allow_anonymous false") as about:
        assert refused(keys, about).endswith("(Not authorized); give mqtt.user and mqtt.password_file")
        said = refused(keys, {**about, "user": "anna", "password_file": "theirs"})
        assert f"127.0.0.1:{about['port']} does not let in the user 'anna', or the password is wrong" in said
        said = refused(keys, {**about, "tls_ca": "theirs.pem"})
        assert "does not speak TLS; if its port is not for TLS (often 1883), leave out mqtt.tls_ca" in said
        said = refused(keys, {**about, "tls_ca": "lost.pem"}, InvalidInput)
        assert f"there is no file {keys / 'lost.pem'}; give the certificate of the authority" in said
        said = refused(keys, {**about, "tls_ca": "/"}, InvalidInput)
        assert "/: Is a directory; give the certificate of the authority" in said
        assert "empty.pem: it contains no cert" in refused(keys, {**about, "tls_ca": "empty.pem"}, InvalidInput)


# Where TLS fails, paho leaves its socket to the frames of the error, and `connect` clears those.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_a_broker_with_tls(keys, tmp_path):
    for name in ("theirs.pem", "theirs-key.pem"):
        (tmp_path / name).write_bytes((keys / name).read_bytes())
        (tmp_path / name).chmod(0o644)  # the broker may run as a user of its own
    files = [f"certfile {tmp_path / 'theirs.pem'}", f"keyfile {tmp_path / 'theirs-key.pem'}", "allow_anonymous true"]
    with broker(tmp_path, *files) as about:
        with plant(keys, {**about, "tls_ca": "theirs.pem"}) as found:
            found.connect()
        gc.disable()
        try:
            before = len(list(Path("/proc/self/fd").iterdir()))
            said = refused(keys, {**about, "tls_ca": "ours.pem"})
            assert len(list(Path("/proc/self/fd").iterdir())) == before  # a bridge tries again for months
        finally:
            gc.enable()
        assert re.search(r"the certificate of 127.0.0.1:\d+ is not trusted: .*; give .* in mqtt.tls_ca", said)
        said = refused(keys, {**about, "host": "localhost", "tls_ca": "theirs.pem"})
        assert re.search("not valid for 'localhost'; .* write mqtt.host as it stands in the certificate", said)
        assert "if its port is for TLS (often 8883), give mqtt.tls_ca" in refused(keys, about)
    wanted = f"cafile {tmp_path / 'theirs.pem'}"
    with broker(tmp_path, *files, wanted, "require_certificate true") as about:
        assert "It may also want a certificate of the bridge" in refused(keys, {**about, "tls_ca": "theirs.pem"})


# Where TLS fails, paho leaves its socket to the frames of the error, and `connect` clears those.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_a_broker_that_wants_a_certificate_is_not_said_to_be_without_tls(keys):
    """Who then left TLS out would send the password in the open."""
    needs("mqtt")
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.maximum_version = ssl.TLSVersion.TLSv1_2  # later ones ask after the greeting
    secured.load_cert_chain(keys / "theirs.pem", keys / "theirs-key.pem")
    secured.load_verify_locations(keys / "theirs.pem")
    secured.verify_mode = ssl.CERT_REQUIRED

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with listener.accept()[0] as accepted, suppress(ssl.SSLError):
                secured.wrap_socket(accepted, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        said = refused(keys, {"host": "127.0.0.1", "port": port, "tls_ca": "theirs.pem"})
        thread.join(20)
    assert said.startswith(f"127.0.0.1:{port} speaks TLS, but refuses the bridge (SSLV3_ALERT_HANDSHAKE_FAILURE); let")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), "there is no route to plc:1; check the address, the cable"),
        (TimeoutError("timed out"), "plc:1 did not answer; check the port, whether a server runs there"),
        (
            ConnectionResetError(errno.ECONNRESET, "reset"),
            "plc:1 closed the connection; check that a server runs there",
        ),
        (PermissionError(errno.EACCES, "no"), "plc:1 cannot be reached: Permission denied; check the address"),
    ],
)
def test_faults_of_the_network(error, words):
    assert network_fault(error, "plc:1", "a server").startswith(words)
