# SPDX-License-Identifier: BSD-2-Clause
"""Certificates for tests of the control plane."""
import os
import subprocess


class Certificates:
    """A CA and the certificates that it signs, made by the openssl program, in a directory of their own."""

    def __init__(self, directory):
        self.dir = directory
        os.mkdir(self.dir)
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", "/CN=CA " + os.path.basename(directory), "-keyout", self.at("ca.key"), "-out", self.at("ca.pem"))

    def at(self, name):
        return os.path.join(self.dir, name)

    @staticmethod
    def run(*args):
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def sign(self, name, cn, *extensions, days=1, curve="P-256"):
        """Makes NAME.pem and NAME.key; days -1: it expired yesterday."""
        self.run("req", "-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-nodes", "-subj", f"/CN={cn}",
                 "-keyout", self.at(name + ".key"), "-out", self.at(name + ".csr"))
        with open(self.at("ext"), "w") as f:
            f.write("\n".join(extensions) + "\n")
        self.run("x509", "-req", "-in", self.at(name + ".csr"), "-CA", self.at("ca.pem"), "-CAkey", self.at("ca.key"),
                 "-CAcreateserial", "-days", str(days), "-extfile", self.at("ext"), "-out", self.at(name + ".pem"))
        os.chmod(self.at(name + ".key"), 0o600)
        return self

    def options(self, name, ca=None):
        """The options for a daemon. ca: another CA to trust."""
        return ["--tls-cert", self.at(name + ".pem"), "--tls-cert-key", self.at(name + ".key"),
                "--tls-ca", (ca or self).at("ca.pem")]

    def variables(self, name, ca=None):
        """The same as environment variables for libinccl."""
        return dict(zip(("INCCL_TLS_CERT", "INCCL_TLS_CERT_KEY", "INCCL_TLS_CA"), self.options(name, ca)[1::2]))
