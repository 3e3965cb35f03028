"""A stand-in for the module pynvml: cards whose answers the test sets, call by call."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

MIB = 1 << 20
GIB = 1 << 30
UUID = "GPU-5d1f9a3e-0000-4000-8000-000000000001"
OTHER = "GPU-5d1f9a3e-0000-4000-8000-000000000002"


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"error {value}")
        self.value = value


class Code:
    """An answer that is an error."""

    def __init__(self, value):
        self.value = value


class Gone:
    """A function that this library does not have."""


class FakeCard:
    def __init__(self, uuid=UUID, **answers):
        self.answers = {
            "nvmlDeviceGetUUID": uuid,
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:83:00.0"),
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetComputeMode": 3,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetCudaComputeCapability": [9, 0],
            "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=1),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=85, memory=7),
            "nvmlDeviceGetMemoryInfo": memory_v2(80 * GIB, 30 * GIB, 1 * GIB),
            "nvmlDeviceGetClockInfo": 1755,
            "nvmlDeviceGetTemperatureV": 52,
            "nvmlDeviceGetPowerUsage": 627_320,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetPcieThroughput": 8_691,
            "nvmlDeviceRegisterEvents": None,
            "nvmlGpmSampleGet": "sample",
            "nvmlDeviceGetComputeRunningProcesses_v3": [],
            "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
            "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
        } | answers


def memory_v2(total, used, reserved):
    """As the library answers to version 2, or to version 1 of the call."""

    def answer(version=None):
        if version is None:
            return SimpleNamespace(total=total, used=used + reserved, free=total - used - reserved)
        return SimpleNamespace(total=total, used=used, reserved=reserved)

    return answer


def memory_v1(total, used):
    def answer(version=None):
        if version is not None:
            raise NVMLError(13)
        return SimpleNamespace(total=total, used=used, free=total - used)

    return answer


def process(pid, memory_bytes=GIB):
    return SimpleNamespace(pid=pid, usedGpuMemory=memory_bytes)


class FakeNvml:
    """Install as the library of `Nvml`."""

    NVMLError = NVMLError

    def __init__(self, *cards, init=None):
        self.cards = cards
        self.init = init
        self.opened = 0
        self.calls = Counter()
        self.events = []
        self.metrics = {2: 40.0, 3: 25.0, 10: 33.0, 21: 100.0}
        self.metric_return = 0
        self.compared = []

    def nvmlInit(self):
        self.opened += 1
        if self.init is not None:
            raise NVMLError(self.init)

    def nvmlShutdown(self): ...

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def nvmlSystemGetDriverVersion(self):
        return "590.48.01"

    def nvmlEventSetCreate(self):
        return "event set"

    def nvmlEventSetWait_v2(self, events, timeout_ms):
        assert timeout_ms == 0
        if not self.events:
            raise NVMLError(10)
        card, code = self.events.pop(0)
        return SimpleNamespace(device=card, eventType=0x8, eventData=code)

    def nvmlGpmSampleAlloc(self):
        return object()

    def c_nvmlGpmMetricsGet_t(self):
        return SimpleNamespace(metrics=[SimpleNamespace() for _ in range(8)])

    def nvmlGpmMetricsGet(self, request):
        assert request.sample1 is not request.sample2
        self.compared.append((request.sample1, request.sample2))
        for metric in request.metrics[: request.numMetrics]:
            metric.value = self.metrics[metric.metricId]
            metric.nvmlReturn = self.metric_return
        return request

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(card, *arguments):
            self.calls[name] += 1
            answer = card.answers.get(name, Gone())
            if isinstance(answer, Gone):
                raise NVMLError(13)
            if isinstance(answer, Code):
                raise NVMLError(answer.value)
            return answer(*arguments) if callable(answer) else answer

        return call
