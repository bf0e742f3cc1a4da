"""The procedure of device runs on a CPU: the counters are a double, the steps are real. Prints what came of each."""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.validation.measure import gpu


class Double:
    """Counters of a device that is none: levels rise with every reading, and memory ends after so many."""

    name = "cpu"
    out_of_memory = (MemoryError,)

    def __init__(self, ends_after: int | None) -> None:
        self.read, self.ends_after = 0, ends_after

    def forget(self) -> None:
        pass

    def new_phase(self) -> None:
        pass

    def wait(self) -> None:
        pass

    def levels(self) -> dict[str, int]:
        self.read += 1
        if self.read == self.ends_after:
            raise MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return {"allocated": self.read, "reserved": 2 * self.read, "driver": 3 * self.read}

    def environment(self) -> dict[str, Any]:
        return {"device": "double"}


def main() -> None:
    jobs = json.load(sys.stdin)
    print(json.dumps([[gpu.measure(job, Double(None)), gpu.measure(job, Double(5))] for job in jobs]))


if __name__ == "__main__":
    main()
