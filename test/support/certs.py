"""Certificates for tests, made with the program openssl: a CA, certificates that it signed, and self-signed ones.

Promise: PEM files in the caller's folder; P-256 keys, which take milliseconds to make.
"""

import os
import shutil
import subprocess


P256 = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
RSA4096 = ("-newkey", "rsa:4096")


def why_missing():
    """Why certificates cannot be made here, or None."""
    return None if shutil.which("openssl") else "no program openssl (Debian: openssl)"


class Certificate:
    """Paths: `cert`, `key`, and `both` (the key, then the chain: ZooKeeper's PEM keystore)."""

    def __init__(self, stem):
        self.cert, self.key, self.both = stem + ".pem", stem + ".key", stem + ".both.pem"


class Certificates:
    """Makes certificates in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        os.makedirs(folder, exist_ok=True)

    def _run(self, *words):
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {' '.join(words)}: {done.stderr}")

    def _sign_expired(self, request, cert, issuer, extensions):
        """A certificate that was valid in January 2020: only "openssl ca" takes dates in the past in all versions."""
        database, config = cert + ".db", cert + ".conf"
        with open(database, "w", encoding="ascii"):
            pass
        with open(config, "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca=own\n[own]\ndatabase={database}\nnew_certs_dir={self.folder}\n"
                       "rand_serial=yes\npolicy=any\ndefault_md=sha256\n[any]\ncommonName=supplied\n")
        self._run("ca", "-config", config, "-batch", "-notext", "-preserveDN", "-in", request, "-out", cert,
                  "-cert", issuer.cert, "-keyfile", issuer.key, "-extfile", extensions,
                  "-startdate", "20200101000000Z", "-enddate", "20200201000000Z")

    def make(self, name, subject, issuer=None, expired=False, san="DNS:localhost,IP:127.0.0.1", key=P256):
        """Makes a certificate; subject as openssl takes it ("/O=a/CN=b"); without issuer a self-signed CA."""
        made = Certificate(os.path.join(self.folder, name))
        request, extensions = made.cert + ".csr", made.cert + ".ext"
        self.count += 1
        self._run("req", "-new", *key, "-nodes", "-utf8", "-multivalue-rdn", "-keyout", made.key, "-subj", subject, "-out", request)
        with open(extensions, "w", encoding="ascii") as file:
            # As RFC 5280 wants them: Python 3.13 refuses others (ssl.VERIFY_X509_STRICT).
            file.write("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign,digitalSignature\n"
                       "subjectKeyIdentifier=hash\n" if issuer is None else
                       f"basicConstraints=CA:FALSE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\nsubjectAltName={san}\n")
        signer = (["-signkey", made.key] if issuer is None else
                  ["-CA", issuer.cert, "-CAkey", issuer.key, "-set_serial", str(1000 + self.count)])
        if expired:
            self._sign_expired(request, made.cert, issuer, extensions)
        else:
            self._run("x509", "-req", "-in", request, "-out", made.cert, "-days", "30", "-extfile", extensions, *signer)
        with open(made.both, "w", encoding="ascii") as both:
            for path in (made.key, made.cert):
                with open(path, encoding="ascii") as part:
                    both.write(part.read())
        return made
