# What a GPU node runs; alone, without the console's packages. Build from the root:
#   docker build --file docker/agent.Dockerfile --tag muxflow-agent .
FROM python:3.11-slim-bookworm AS packages
WORKDIR /source
COPY requirements/agent.txt requirements.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements.txt
COPY agents agents
RUN /venv/bin/pip install --no-cache-dir --no-deps ./agents

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/muxflow-agent muxflow
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1
COPY --from=packages /venv /venv
USER 10001
# Identity, spool and the ids of placements that once started: they must outlive the container.
VOLUME /var/lib/muxflow-agent
ENTRYPOINT ["muxflow-agent"]
