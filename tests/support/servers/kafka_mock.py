"""librdkafka's mock cluster: a broker within this process that keeps messages, and fails as told."""

from __future__ import annotations

import ctypes
from pathlib import Path

PRODUCE = 0
"""ApiKey of Produce requests."""


class MockCluster:
    """One broker on loopback."""

    def __init__(self, topic: str, partitions: int = 1) -> None:
        import confluent_kafka

        folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
        self._lib = lib = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
        for name in ("conf_new", "new", "mock_cluster_new"):
            getattr(lib, f"rd_kafka_{name}").restype = ctypes.c_void_p
        lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        conf = ctypes.c_void_p(lib.rd_kafka_conf_new())
        self._handle = ctypes.c_void_p(lib.rd_kafka_new(0, conf, None, ctypes.c_size_t(0)))
        self._cluster = ctypes.c_void_p(lib.rd_kafka_mock_cluster_new(self._handle, 1))
        lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)

    @property
    def brokers(self) -> list[str]:
        """Its address."""
        found: bytes = self._lib.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode().split(",")

    def fail(self, *errors: int) -> None:
        """Answer the next requests to produce with these errors."""
        codes = (ctypes.c_int * len(errors))(*errors)
        self._lib.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(PRODUCE), ctypes.c_size_t(len(errors)), codes
        )

    def away(self, away: bool) -> None:
        """Close all connections and accept none, or serve again."""
        name = "rd_kafka_mock_broker_set_down" if away else "rd_kafka_mock_broker_set_up"
        getattr(self._lib, name)(self._cluster, ctypes.c_int32(1))

    def close(self) -> None:
        """End it."""
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._handle)
