"""Ways to take single datagrams out of a UDP socket, in C: recvmmsg, recvfrom, io_uring, busy polling."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from harness.common import Bench, median
from hopscope.capture.sockets import bind_share
from hopscope.capture.udp.sender import UdpSender
from hopscope.fabric.load import Load
from hopscope.settings.listen import ListenSettings

SOURCE = Path(__file__).parent / "harness" / "receive.c"
CALLS = ("recvmmsg", "recvfrom", "io_uring", "recvmmsg, busy polling")
RATES = (50_000, 200_000)


def cost(program: Path, call: str, rate: int, seconds: float) -> float:
    """Processor time of the receiver for a datagram, ns."""
    handle = bind_share(ListenSettings(port=0, gro=False))
    file = handle.fileno()
    words = [str(program), call, str(file), str(seconds)]
    receiver = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=(file,))
    sender = UdpSender("127.0.0.1", handle.getsockname()[1], rate=rate, trains=False)
    load = Load(hops=6, flows=100, sources=1)
    ended = threading.Event()

    def send() -> None:
        while not ended.is_set():
            sender.send(load.next(max(64, rate // 100)))

    thread = threading.Thread(target=send)
    thread.start()
    output = receiver.communicate()[0]
    ended.set()
    thread.join()
    sender.close()
    handle.close()
    if receiver.returncode:
        raise SystemExit(f"{call}: this kernel does not offer it")
    got, spent = map(int, output.split())
    return spent / max(1, got)


def main() -> None:
    """All calls, in turns."""
    bench, _ = Bench.start(
        "receive_calls",
        "CPU time of a process that receives single datagrams (reports of 6 hops and 8 fields) "
        "from a socket, with addresses and the pauses of a worker, and reads a byte of each "
        "cache line; median of rounds.",
        "a network card: on loopback the kernel's receive work runs on the sender's core, so busy polling has"
        " nothing to poll.",
    )
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("this benchmark needs a C compiler")
    rounds, seconds = (1, 0.5) if bench.quick else (5, 0.7)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "receive")
        subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=True)
        for rate in RATES:
            found: dict[str, list[float]] = {call: [] for call in CALLS}
            for _ in range(rounds):
                for call in CALLS:
                    found[call].append(cost(program, call, rate, seconds))
                    time.sleep(0.05)
            for call, each in found.items():
                ratio = median(one / base for one, base in zip(each, found["recvmmsg"], strict=True))
                case: dict[str, object] = {"call": call, "reports/s": rate}
                bench.row(case, median(each), "ns/datagram", f"{ratio:.2f} times recvmmsg")


if __name__ == "__main__":
    main()
