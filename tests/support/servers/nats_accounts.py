"""An operator of NATS with one account and one user: what a server with JWTs and its users need."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import nkeys

_NO_LIMIT = ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage", "disk_storage",
             "streams", "consumer")  # fmt: skip
_OF_JETSTREAM = ("mem_storage", "disk_storage", "streams", "consumer")
"""Limits that a system account must not have."""


class Accounts:
    """Files in `folder`: `configuration` of the server, and `credentials` of the user."""

    def __init__(self, folder: Path) -> None:
        operator, account, system, user = (
            _pair(kind)
            for kind in (
                nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_ACCOUNT,
                nkeys.PREFIX_BYTE_USER,
            )
        )  # fmt: skip
        limits = {**dict.fromkeys(_NO_LIMIT, -1), "wildcards": True}
        bare = {key: value for key, value in limits.items() if key not in _OF_JETSTREAM}
        of_operator = _token(operator, operator, "operator")
        of_account = _token(operator, account, "account", limits=limits)
        of_user = _token(account, user, "user", subs=-1, data=-1, payload=-1)
        self.configuration, self.credentials = folder / "jwt.conf", folder / "user.creds"
        tokens = {account: of_account, system: _token(operator, system, "account", limits=bare)}
        preload = ", ".join(f"{pair.public_key.decode()}: {token}" for pair, token in tokens.items())
        self.configuration.write_text(
            f"operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {preload} }}\n"
            f"system_account: {system.public_key.decode()}\n"
        )
        self.credentials.write_text(
            f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
        )
        self.credentials.chmod(0o600)


def _pair(kind: int) -> Any:
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


def _token(issuer: Any, subject: Any, kind: str, **claims: Any) -> str:
    head = _text({"typ": "JWT", "alg": "ed25519-nkey"})
    body = _text({
        "jti": "x", "iat": int(time.time()), "iss": issuer.public_key.decode(), "name": kind,
        "sub": subject.public_key.decode(), "nats": {"type": kind, "version": 2, **claims},
    })  # fmt: skip
    signature = base64.urlsafe_b64encode(issuer.sign(f"{head}.{body}".encode())).decode().rstrip("=")
    return f"{head}.{body}.{signature}"


def _text(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
