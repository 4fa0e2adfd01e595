"""koordlet on a simulated node: a plain file does not forget what it held as a kernel's does."""

import os

from koord_host import kernel
from koordlet.agent.main import main

if __name__ == "__main__":
    kernel._WRITE |= os.O_TRUNC  # noqa: SLF001 - of no use to anybody else
    kernel._BOTH |= os.O_TRUNC  # noqa: SLF001
    main()
