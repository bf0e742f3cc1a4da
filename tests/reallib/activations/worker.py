"""Measures cases handed over as JSON lines on stdin and answers one JSON line each. Runs in its own process, because
it changes what torch and transformers see of the machine.

    python -m tests.reallib.activations.worker < cases.jsonl > measured.jsonl
    python -m tests.reallib.activations.worker --lines < case.jsonl      (every saved tensor of two blocks, for people)
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from typing import Any

from tests.accounting.memory.saved_models import DEEP, SHALLOW, config_of
from tests.reallib.activations.saved import Ledger, measure

warnings.filterwarnings("ignore")


def difference(case: dict[str, Any]) -> tuple[int, int, Counter[str]]:
    """(saved bytes, bytes of weight copies, places) of the blocks between two depths."""
    deep, shallow = (measure(case, config_of(case, layers)) for layers in (DEEP, SHALLOW))

    def change(*, copies: bool) -> int:
        return deep.held(copies=copies) - shallow.held(copies=copies)

    return change(copies=False), change(copies=True), _places(deep, shallow)


def _places(deep: Ledger, shallow: Ledger) -> Counter[str]:
    found = deep.lines()
    found.subtract(shallow.lines())
    return found


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        try:
            saved, copies, places = difference(case)
        except Exception as fault:  # noqa: BLE001 - the test that reads this says which case broke, and how
            answer: dict[str, Any] = {**case, "error": f"{type(fault).__name__}: {fault}"[:500]}
        else:
            answer = {**case, "saved_bytes": saved, "copy_bytes": copies}
            if "--lines" in sys.argv:
                answer["lines"] = {place: count for place, count in places.items() if count}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
