"""A certificate authority of a test's own, and the server and client certificates that it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Signed:
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for 127.0.0.1 and 127.0.0.2 in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key, is_authority=True)
        self.file = self._write(f"{name}.crt", self._certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key, is_authority=False)
        plain = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return Signed(
            self._write(f"{name}.crt", certificate.public_bytes(pem)),
            self._write(f"{name}.key", key.private_bytes(pem, form, plain)),
        )

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        subject, issuer = _named(name), _named(self._name)
        addresses = [x509.IPAddress(ip_address(each)) for each in ("127.0.0.1", "127.0.0.2")]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, body: bytes) -> Path:
        file = self._folder / name
        file.write_bytes(body)
        return file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
