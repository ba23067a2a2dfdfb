"""Ask a kernel, by a real jupyter-client: `ask_kernel.py NAME CODE` prints what CODE prints in the kernel NAME; without words,
the kernels that this shell's Jupyter offers, a line each: name, display name, file.
"""

from __future__ import annotations

import sys

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel

SECONDS = 120


def main() -> int:
    if len(sys.argv) == 1:
        for name, found in sorted(KernelSpecManager().get_all_specs().items()):
            print(name, found["spec"]["display_name"], found["resource_dir"], sep="\t")
        return 0
    manager, client = start_new_kernel(kernel_name=sys.argv[1], startup_timeout=SECONDS)

    def show(message: dict) -> None:  # type: ignore[type-arg]
        content = message["content"]
        if message["msg_type"] == "stream":
            print(content["text"], end="")
        elif message["msg_type"] == "error":
            print(*content["traceback"], sep="\n")

    try:
        reply = client.execute_interactive(sys.argv[2], timeout=SECONDS, output_hook=show)
        return int(reply["content"]["status"] != "ok")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    sys.exit(main())
