"""Waits until a database answers every query of every dashboard, run by the package's Python.

    python -m support.servers.dashboard_answers URL FOLDER PID

FOLDER is Grafana's folder of provisioning, PID the process that has to run. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

from support.servers.grafana import Prometheus, View, targets
from support.waiting import eventually

INTERVAL = 5
"""Of the scrapes, s."""
ABSENT = re.compile("hopscope_export_|hopscope_drops_total")
"""Metrics of destinations, which the demo has none of, and of drops, which it has after 16 s."""


def main() -> None:
    """Print how many queries were answered, and after how many seconds."""
    url, folder, process = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    database, began = Prometheus(url), time.time()
    found = targets(folder / "dashboards/hopscope-prometheus")
    waiting = [one for one in found if not ABSENT.search(one.target["expr"])]
    asked = len(waiting)

    def answered() -> bool:
        os.kill(process, 0)
        view = View(began - 60, time.time(), INTERVAL)
        waiting[:] = [one for one in waiting if not database.ask(one, view)]
        return not waiting

    eventually(answered, lambda: [one.panel for one in waiting], every=1.0)
    print(json.dumps({"queries": asked, "seconds": round(time.time() - began, 1)}))


if __name__ == "__main__":
    main()
