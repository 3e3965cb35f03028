# The Celery processes: rounds, shares, sweeps (worker) and their clock (beat). Build from the root:
#   docker build --file docker/worker.Dockerfile --tag muxflow-worker .
FROM gcc:12-bookworm AS solver
WORKDIR /source
COPY workers/matching/native workers/matching/native
RUN make -C workers/matching/native OUT=/built

FROM python:3.11-slim-bookworm AS packages
WORKDIR /source
COPY requirements/worker.txt requirements.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements.txt
# --build-arg PYTORCH=yes: workers that learn predictors from what they observe, 900 MB larger.
ARG PYTORCH=
COPY requirements/ml.txt ml.txt
RUN if [ -n "$PYTORCH" ]; then /venv/bin/pip install --no-cache-dir --requirement ml.txt; fi

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/muxflow muxflow
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MUXFLOW_VAR_DIR=/var/lib/muxflow
COPY --from=packages /venv /venv
WORKDIR /app
COPY manage.py ./
COPY templates templates
COPY agents agents
COPY console console
COPY workers workers
COPY --from=solver /built/libmuxmatch.so build/matching/
USER 10001
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD \
    ["sh", "-c", "celery --app workers.app inspect ping --destination celery@$HOSTNAME"]
CMD ["celery", "--app", "workers.app", "worker", "--pool", "threads", "--concurrency", "4", \
     "--queues", "matching,reallocation,telemetry,default"]
