"""`--secure`: a certificate authority of the run's own, and the test secrets that go with it."""

import os
import shutil
import socket
import ssl
import subprocess

from . import doctor
from .base import HOST, Failure, last_lines
from .process import exit_words

# Test secrets, in the open on purpose: they guard throw-away servers on 127.0.0.1 and nothing else.
USER = "payfold"
# Without any right until ACLs give them some; USER, and who comes by another listener, may do everything.
ROLE_USERS = ["payfold-%s" % role for role in ("ingest", "checkout", "projector", "reconciler", "operator")]
PASSWORD = "dev-stack-only"
CQL_USER = "cassandra"
CQL_PASSWORD = "cassandra"

ALIAS = "server"

# Of the certificates that `openssl` makes.
OPENSSL = """\
[req]
distinguished_name = name
x509_extensions = of_authority
[name]
[of_authority]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[of_server]
subjectAltName = IP:%s,DNS:localhost
extendedKeyUsage = serverAuth
""" % HOST


class Certificates:
    """`ca.pem` for clients, `server.p12` for servers; made once per folder, so that clients may keep what they trust."""

    def __init__(self, home):
        self.folder = home / "tls"
        self.ca = self.folder / "ca.pem"
        self.store = self.folder / "server.p12"

    def make(self):
        if self.ca.exists():
            return
        partial = self.folder.with_name("tls.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self.fill(partial)
        os.rename(partial, self.folder)

    def fill(self, partial):
        """Makes the files in a folder that becomes the real one when all of them are there."""
        store, log = partial / self.store.name, partial / "keytool.log"
        key = ["-keyalg", "RSA", "-keysize", "2048", "-validity", "365"]
        steps = [
            ["-genkeypair", "-alias", "ca", "-dname", "CN=payfold dev-stack CA", *key, "-ext", "bc:c=ca:true",
             "-ext", "ku:c=keyCertSign"],
            ["-genkeypair", "-alias", ALIAS, "-signer", "ca", "-dname", "CN=%s" % HOST, *key,
             "-ext", "san=ip:%s,dns:localhost" % HOST, "-ext", "eku=serverAuth"],
            ["-exportcert", "-rfc", "-alias", "ca", "-file", str(partial / self.ca.name)],
            # A server picks among the keys of its store, and this one is not for it.
            ["-delete", "-alias", "ca"],
        ]
        for step in steps:
            keytool(step + ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD], log)

    def keystore(self):
        """A broker's settings for its key."""
        return {"type": "PKCS12", "location": self.store, "password": PASSWORD}


class PemCertificates(Certificates):
    """The same as PEM, for containers, where no Java need be on the machine: `server.pem` with its chain, `server.key`."""

    def fill(self, partial):
        log = partial / "openssl.log"
        (partial / "openssl.cnf").write_text(OPENSSL)
        new = ["req", "-config", "openssl.cnf", "-newkey", "rsa:2048", "-nodes", "-sha256"]
        steps = [
            [*new, "-x509", "-days", "365", "-subj", "/CN=payfold dev-stack CA", "-keyout", "ca.key", "-out", "ca.pem"],
            [*new, "-subj", "/CN=" + HOST, "-keyout", "server.key", "-out", "server.csr"],
            ["x509", "-req", "-sha256", "-days", "365", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
             "-set_serial", "2", "-extfile", "openssl.cnf", "-extensions", "of_server", "-out", "leaf.pem"],
        ]
        for step in steps:
            run_logged(["openssl", *step], log, cwd=partial)
        (partial / "server.pem").write_text((partial / "leaf.pem").read_text() + (partial / "ca.pem").read_text())

    def keystore(self):
        """In the settings themselves, a line each."""
        chain, key = ((self.folder / name).read_text().replace("\n", "\\n") for name in ("server.pem", "server.key"))
        return {"type": "PEM", "certificate.chain": chain, "key": key}


def keytool(arguments, log):
    beside = os.path.join(os.path.dirname(os.path.realpath(doctor.java())), "keytool")
    path = beside if os.access(beside, os.X_OK) else shutil.which("keytool")
    if path is None:
        raise Failure("no `keytool`, neither beside java nor on the PATH", "install a whole JDK 17, or leave out --secure")
    run_logged([path, *arguments], log)


def run_logged(command, log, cwd=None):
    with open(log, "ab") as out:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd).returncode
    if code != 0:
        wrong = "%s failed at %s (%s)" % (os.path.basename(command[0]), command[1], exit_words(code))
        raise Failure(wrong, "see the whole log: %s" % log, last_lines(log, 20))


def handshakes(port, ca):
    """A client that trusts only our authority gets through the TLS handshake, the name check included."""
    with connect(port, ca):
        return True


def connect(port, ca):
    context = ssl.create_default_context(cafile=str(ca))
    link = socket.create_connection((HOST, port), timeout=2)
    try:
        return context.wrap_socket(link, server_hostname=HOST)
    except OSError:
        link.close()
        raise


def broker_properties(certificates):
    """Of the listener SECURE: TLS, and users known to SCRAM (in the metadata) and to PLAIN (right here), who are held to ACLs."""
    prefix = "listener.name.secure."
    module = "org.apache.kafka.common.security.%s required"
    users = " ".join('user_%s="%s"' % (user, PASSWORD) for user in [USER, *ROLE_USERS])
    return {
        **{prefix + "ssl.keystore." + key: value for key, value in certificates.keystore().items()},
        prefix + "ssl.client.auth": "none",
        prefix + "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        prefix + "scram-sha-512.sasl.jaas.config": module % "scram.ScramLoginModule" + ";",
        prefix + "plain.sasl.jaas.config": module % "plain.PlainLoginModule" + " %s;" % users,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:%s" % USER,
    }


def format_arguments():
    users = (("--add-scram", "SCRAM-SHA-512=[name=%s,password=%s]" % (user, PASSWORD)) for user in [USER, *ROLE_USERS])
    return [argument for user in users for argument in user]


def cassandra_lines(certificates, quoted):
    return [
        "authenticator: PasswordAuthenticator",
        "client_encryption_options:",
        "  enabled: true",
        "  optional: true",
        "  require_client_auth: false",
        "  keystore: %s" % quoted(certificates.store),
        "  keystore_password: %s" % PASSWORD,
        "  store_type: PKCS12",
    ]


def summary(certificates, brokers, node):
    out = {"ca": str(certificates.ca)}
    if brokers:
        out.update(kafkaSecure=brokers[0].secure_address(), user=USER, password=PASSWORD)
    if node:
        out.update(cqlUser=CQL_USER, cqlPassword=CQL_PASSWORD)
    return out
