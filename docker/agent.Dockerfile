# What a GPU node runs; alone, without the console's packages. Build from the root:
#   docker build --file docker/agent.Dockerfile --tag muxflow-agent .
# It carries libxcuda.so too, which is preloaded into jobs, also of older images: it asks for no
# glibc after 2.27, and the build fails if that is not so.
FROM gcc:12-bookworm AS xcuda
WORKDIR /source
COPY agents/xcuda agents/xcuda
RUN make -C agents/xcuda lib symbols /built/xcuda-block OUT=/built

FROM python:3.11-slim-bookworm AS packages
WORKDIR /source
COPY requirements/agent.txt requirements.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements.txt
COPY agents agents
RUN /venv/bin/pip install --no-cache-dir --no-deps ./agents

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/muxflow-agent muxflow
# Where the state is must hold for the health check too, so it is said here and not by a flag.
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONMALLOC=malloc \
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1 \
    MUXFLOW_AGENT_STATE_DIR=/var/lib/muxflow-agent/state \
    MUXFLOW_AGENT_CREDENTIALS=/var/lib/muxflow-agent/credentials.json
COPY --from=packages /venv /venv
COPY --from=xcuda /built/libxcuda.so /usr/local/lib/muxflow/
COPY --from=xcuda /built/xcuda-block /usr/local/bin/
USER 10001
# Identity, spool and the ids of placements that once started: they must outlive the container.
VOLUME /var/lib/muxflow-agent
# A fresh word of an agent that runs; no network is asked.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["muxflow-agent", "status"]
ENTRYPOINT ["muxflow-agent"]
