"""Of the processes of one stage, each has Redis keys and files of its own, as pytest-django gives
each a database of its own. `-p tests.apart`: loaded before Django's settings are read."""

from __future__ import annotations

import os

if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["MUXFLOW_REDIS_PREFIX"] = f"{os.environ['MUXFLOW_REDIS_PREFIX']}-{worker}"
    os.environ["MUXFLOW_VAR_DIR"] = f"{os.environ['MUXFLOW_VAR_DIR']}/{worker}"
