"""Receives the dashboard's stream like a browser, without displaying it.

`python -m bench.dashboard_client PORT NODE` answers each line of its standard input with the number of
pictures since the previous line.
"""

from __future__ import annotations

import sys
import threading
from typing import Any


def main() -> int:
    """Receive pictures until standard input ends."""
    from websockets.sync.client import connect

    port, node = sys.argv[1:3]
    count = 0

    def take(socket: Any) -> None:
        nonlocal count
        socket.send("next")
        for message in socket:
            if isinstance(message, bytes):
                count += 1
                socket.send("next")

    with connect(f"ws://127.0.0.1:{port}/live?node={node}&view={node}", max_size=None) as socket:
        threading.Thread(target=take, args=(socket,), daemon=True).start()
        for _ in sys.stdin:
            taken, count = count, 0
            print(taken, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
