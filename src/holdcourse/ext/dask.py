"""A Dask cluster as an executor for sweeps (extra ``[dask]``)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from holdcourse.errors import InvalidInput, MissingExtra

try:
    from distributed import Client
except ImportError as error:
    raise MissingExtra(
        f'holdcourse.ext.dask needs Dask ({error}); install it with: pip install "holdcourse[dask]"'
    ) from error

CONNECT_SECONDS = 15
RETRIES = 3  # of work whose worker was lost; what our own code raises never comes back as an error of the task


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Return the workers of a running scheduler, e.g. at ``tcp://10.0.0.1:8786``, as a `concurrent.futures.Executor`.

    The workers need the same version of holdcourse. If a worker is lost, others do its work.

    Examples
    --------
    ::

        with cluster("tcp://10.0.0.1:8786") as executor:
            run_sweep(sweep, "results", executor=executor)
    """
    connect: Any = Client  # untyped where it is installed, unknown where it is not
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidInput(
            f"no Dask scheduler answers at {address!r} ({reason}); start one with 'dask scheduler' and give its address"
        ) from None
    try:
        with client.get_executor(retries=RETRIES) as executor:
            yield executor
    finally:
        client.close()
