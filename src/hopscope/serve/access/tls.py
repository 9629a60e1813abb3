"""The server's certificate, reloaded when its files change, without closing any connection."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

from ...base.log import logger
from ...base.tls import TlsError

log = logger("serve")
LOOK_SECONDS = 5.0
"""How often the files are checked."""
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""TLS 1.2 ciphers with forward secrecy and authenticated encryption; all those of TLS 1.3 have both."""
_LONGEST_FILE = 1 << 20


class Certificate:
    """A certificate and its key (PEM), in a TLS context. Raises TlsError.

    `client_ca_file`: clients need a certificate that one of these CAs signed.
    """

    def __init__(
        self, cert_file: Path, key_file: Path | None = None, client_ca_file: Path | None = None
    ) -> None:
        self.files = (cert_file, key_file or cert_file)
        self.problem = ""
        """Why the current files are not used; empty: they are used."""
        self.context = _empty_context()
        self._seen = self._state()
        self._load()
        if client_ca_file is not None:
            try:
                self.context.load_verify_locations(client_ca_file)
            except OSError as error:
                raise TlsError(f"{client_ca_file}: {error.strerror or error}") from None
            self.context.verify_mode = ssl.CERT_REQUIRED

    def look(self) -> None:
        """Load the files if they have changed; if they are not valid, the old certificate stays in use."""
        try:
            state = self._state()
            if state == self._seen and not self.problem:
                return
            self._load()
        except TlsError as error:
            if self.problem != str(error):
                log.error("the new certificate is not used, the old one stays", error=str(error))
            self.problem = str(error)
            return
        if state != self._seen:
            log.info("certificate loaded again", file=str(self.files[0]))
        self._seen, self.problem = state, ""

    async def watch(self) -> None:
        """Check the files every LOOK_SECONDS."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def _state(self) -> list[tuple[int, int, int]]:
        found = []
        for file in self.files:
            try:
                state = file.stat()
            except OSError as error:
                raise TlsError(f"{file}: {error.strerror}") from None
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        return found

    def _load(self) -> None:
        """Load the files, but first try the same bytes in another context: a certificate that does not fit
        its key would spoil this one.
        """
        names, copies = [], []
        try:
            for file in self.files:
                try:
                    with file.open("rb") as opened:
                        text = opened.read(_LONGEST_FILE)
                except OSError as error:
                    raise TlsError(f"{file}: {error.strerror}") from None
                copies.append(os.memfd_create("certificate"))
                os.write(copies[-1], text)
                names.append(f"/proc/self/fd/{copies[-1]}")
            for context in (_empty_context(), self.context):
                try:
                    context.load_cert_chain(names[0], names[1], password="")  # never prompts for a password
                except OSError as error:
                    files = " and ".join(dict.fromkeys(map(str, self.files)))
                    raise TlsError(f"{files}: {error.strerror or error}") from None
        finally:
            for copy in copies:
                os.close(copy)


def _empty_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    return context
