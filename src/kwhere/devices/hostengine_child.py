"""The child process that speaks to nv-hostengine: `python -m kwhere.devices.hostengine_child LIBRARY ADDRESS`.

Each line on standard input asks once; each answer is a line of JSON: places with their activity, or why there is none.
"""

import json
import os
import sys
from typing import IO

from kwhere.devices.gpu_library import LibraryError
from kwhere.devices.libdcgm import HostEngine


def serve(engine: HostEngine, orders: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until nobody asks. Raises LibraryError (ended)."""
    for _ in orders:
        told = [
            {"uuid": uuid, "gpu_instance": instance, "values": values}
            for (uuid, instance), values in engine.read().items()
        ]
        _say(answers, {"places": told})


def main(argv: list[str]) -> None:
    """Serve over standard input and output; what the library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    library, address = argv
    code = 0
    try:
        engine = HostEngine(library, address)
        serve(engine, sys.stdin.buffer, answers)
        engine.close()
    except LibraryError as error:
        code = 3
        _say(answers, {"reason": error.reason, "message": str(error)})
    except BrokenPipeError:
        code = 4
    os._exit(code)  # the library has threads of its own


def _say(answers: IO[bytes], answer: dict[str, object]) -> None:
    answers.write(json.dumps(answer, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
