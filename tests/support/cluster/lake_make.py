"""Settings of lakes of one's own in the servers of tests."""

from __future__ import annotations

import itertools

from hopscope.settings.lake import LakeSettings
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

_numbers = itertools.count(1)


def lake_settings(database: PostgresServer, **more: object) -> LakeSettings:
    """Settings of a lake in a schema of its own."""
    place = f"postgresql://hopscope@127.0.0.1:{database.port}/hopscope"
    return LakeSettings.model_validate(
        {"catalog": place, "schema_name": f"lake{next(_numbers)}", "every_seconds": 0.5, **more}
    )


def in_bucket(store: S3Server) -> dict[str, object]:
    """Settings of files in a bucket."""
    return {"data": "s3://lake/x", "endpoint": store.url, "access_key": store.KEY, "secret": store.SECRET}
