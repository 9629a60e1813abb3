"""Small captures that come with the package, made by the simulator (docs/samples.py)."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import HopscopeError

FOLDER = Path(__file__).parent / "samples"
SAMPLES = {
    "microburst.pcap": "Telemetry Reports 2.0 of a leaf-spine fabric in which a queue fills up",
    "int-md.pcap": "packets with INT-MD, as they arrive at a sink",
    "ifa.pcap": "copies of packets with IFA, as the last switch mirrors them",
    "labels.pcap": "packets with labels of INT-label",
    "edge.pcap": "sFlow and IPFIX of switches without INT",
    "names.toml": "names of the switches and ports in these captures",
}
"""Description of each file."""


def sample(name: str) -> Path:
    """Path of a sample, by a name such as `microburst` or `microburst.pcap`. Raises HopscopeError if it is
    unknown.
    """
    for file in SAMPLES:
        if name in (file, Path(file).stem):
            return FOLDER / file
    raise HopscopeError(f"unknown sample {name!r}; expected {', '.join(SAMPLES)}")
