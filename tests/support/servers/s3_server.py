"""SeaweedFS on loopback, an S3 server; its buckets are read as folders of its filer."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx

from support.servers.server_process import NO_TLS, ServerProcess, free_port


class S3Server(ServerProcess):
    """SeaweedFS with the data in `folder`.

    `policies`: users (access keys, with SECRET), and the policy of each in IAM's language. `tls`: a
    certificate and its key, in files.
    """

    KEY, SECRET = "key", "of-the-tests"

    def __init__(
        self,
        program: str,
        folder: Path,
        policies: Mapping[str, str] = {},
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        self.port, self._filer = free_port(), free_port()
        who = {
            "name": "tests",
            "credentials": [{"accessKey": self.KEY, "secretKey": self.SECRET}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        others = [
            {
                "name": name,
                "credentials": [{"accessKey": name, "secretKey": self.SECRET}],
                "policyNames": [name],
            }
            for name in policies
        ]
        rules = [{"name": name, "content": text} for name, text in policies.items()]
        (folder / "s3.json").write_text(json.dumps({"identities": [who, *others], "policies": rules}))
        ports = [
            f"-{part}={free_port()}"
            for part in (
                *("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port.grpc"),
                *("s3.port.grpc", "s3.port.iceberg", "s3.port.lance"),
            )
        ]
        words = [program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-filer", "-s3"]
        words += [
            f"-s3.port={self.port}",
            f"-s3.config={folder}/s3.json",
            f"-filer.port={self._filer}",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",  # of one; by default a second start takes 10-20 s
            "-volume.max=50",  # of the few, its own log would take all that buckets need
            *(f"-{part}.localSocket={folder}/{part}.sock" for part in ("filer", "s3")),  # not in /tmp
            *ports,
        ]
        self._scheme, self._verify = "https" if tls else "http", NO_TLS
        if tls:
            self._verify = ssl.create_default_context(cafile=tls[0])
            self._verify.verify_flags |= (
                ssl.VERIFY_X509_PARTIAL_CHAIN
            )  # the server's own certificate is enough
            words += [f"-s3.cert.file={tls[0]}", f"-s3.key.file={tls[1]}"]
        super().__init__(words, folder, self._answers)

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        return httpx.get(self.url, trust_env=False, verify=self._verify).status_code == 403

    def make_bucket(self, name: str) -> None:
        """An empty bucket."""
        httpx.post(f"{self._place(name)}/", trust_env=False, verify=NO_TLS).raise_for_status()

    def download(self, place: str, folder: Path) -> None:
        """Copy what is in a bucket, or a folder of it."""
        folder.mkdir()
        listing = httpx.get(
            f"{self._place(place)}/", headers={"accept": "application/json"}, trust_env=False, verify=NO_TLS
        ).json()
        for entry in listing["Entries"] or ():
            name = Path(entry["FullPath"]).name
            if entry["Mode"] & 1 << 31:  # a folder
                self.download(f"{place}/{name}", folder / name)
            else:
                answer = httpx.get(f"{self._place(place)}/{name}", trust_env=False, verify=NO_TLS)
                (folder / name).write_bytes(answer.content)

    def _place(self, path: str) -> str:
        return f"http://127.0.0.1:{self._filer}/buckets/{path}"
