"""What benchmarks share. Importing it puts `tests` on the path, for what they share with tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
