# The console: pages, API, agent and browser sockets. Build from the root of the repository:
#   docker build --file docker/web.Dockerfile --tag muxflow-web .
FROM node:24-bookworm-slim AS front-end
WORKDIR /app
COPY .npmrc package.json package-lock.json ./
RUN npm ci --ignore-scripts --omit=dev --no-audit --no-fund

FROM python:3.11-slim-bookworm AS packages
WORKDIR /source
COPY requirements/web.txt requirements.txt
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements.txt

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/muxflow muxflow
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MUXFLOW_VAR_DIR=/var/lib/muxflow \
    MUXFLOW_HOST=0.0.0.0 \
    MUXFLOW_PORT=8000
COPY --from=packages /venv /venv
WORKDIR /app
COPY manage.py ./
COPY templates templates
COPY static static
COPY agents agents
COPY console console
COPY --from=front-end /app/node_modules node_modules
USER 10001
RUN python manage.py collectstatic --no-input --verbosity 0
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# On SIGTERM it hands its agents over, 500 a second, before it ends: leave it the time.
CMD ["python", "-m", "console.serve"]
