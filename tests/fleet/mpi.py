"""Two real MPIs, from wheels: Open MPI in the environment of these tests, MPICH beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import environment

PREFIX = Path(sys.prefix)
MPICH = PREFIX / "mpich"
MPIEXECS = {
    "openmpi": [str(PREFIX / "bin" / "mpiexec"), "--allow-run-as-root", "--oversubscribe"],
    "mpich": [str(MPICH / "bin" / "mpiexec")],
}


def mpi_environment(which: str) -> dict[str, str]:
    """Variables under which mpi4py takes the library that belongs to an mpiexec."""
    return environment() | ({"MPI4PY_LIBMPI": str(MPICH / "lib" / "libmpi.so.12")} if which == "mpich" else {})


def mpiexec(
    which: str, ranks: int, *arguments: str | Path, timeout: float = 90
) -> subprocess.CompletedProcess[str]:
    """Run Python with some arguments on so many ranks."""
    command = [*MPIEXECS[which], "-n", str(ranks), sys.executable, *map(str, arguments)]
    # mpiexec reads from its standard input, and stops when it is a terminal that it is not in front of.
    return subprocess.run(
        command,
        env=mpi_environment(which),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
