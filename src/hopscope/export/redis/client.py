"""A client for Redis servers, for all modules that need one."""

from __future__ import annotations

from typing import Any

from ...settings.destinations.redis import RedisServerSettings
from ..credentials import secret, tls_context
from ..destination import DeliveryError


def redis_client(settings: RedisServerSettings, timeout_seconds: float) -> Any:
    """A client whose server has answered; it does not retry commands. Raises DeliveryError."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    more: dict[str, Any] = {}
    if settings.user:
        more["username"] = settings.user
    if settings.url.startswith("rediss:"):
        tls_context(settings)  # raises an error that names an invalid file
        files = {"ca_certs": settings.ca_file, "certfile": settings.cert_file, "keyfile": settings.key_file}
        more |= {f"ssl_{name}": str(file) for name, file in files.items() if file}
        more["ssl_check_hostname"] = True
    if settings.password:
        more["password"] = secret(settings.password)
    client = None
    try:
        client = redis.Redis.from_url(
            settings.url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **more,
        )
        client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        if client is not None:
            client.close()
        raise DeliveryError(error) from None
    return client
