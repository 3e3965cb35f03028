"""A version of the predictor as one file: arrays in .npz, a JSON header among them, no pickle.

A file may come from anywhere; whatever is not exactly as documented is refused before it is used.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from workers.prediction.bilinear import Bilinear
from workers.prediction.calibration import Calibration
from workers.prediction.features import FEATURES, Side
from workers.prediction.kernel import TERMS, Kernel
from workers.prediction.linear import Additive
from workers.prediction.model import Model
from workers.prediction.network import Ensemble, Student
from workers.prediction.profiles import QUANTITIES
from workers.prediction.trained import OUTPUTS, Trained, View

Shaped: TypeAlias = tuple[Any, tuple[int, ...]]

FORMAT: Final = 2
# A file as trained here has less than one.
MOST_BYTES: Final = 32 << 20
HEADER: Final = "header"
NETWORK: Final = "network"


def dump(predictor: Trained, header: Mapping[str, Any]) -> bytes:
    """`header` is told beside the version: where it comes from, when it was made, its report."""
    told = {**header, "format": FORMAT, "features": FEATURES, "outputs": OUTPUTS}
    told["gpu_models"] = predictor.view.gpu_models
    text = np.frombuffer(json.dumps(told, allow_nan=False).encode(), np.uint8)
    packed = io.BytesIO()
    np.savez_compressed(packed, **_arrays(predictor), allow_pickle=False, **{HEADER: text})
    return packed.getvalue()


def load(data: bytes, version: int | None = None) -> Trained:
    """Raises ValueError when these are not the bytes of a predictor that fits this release."""
    arrays = _read(data)
    header = _header(arrays)
    if header.get("format") != FORMAT or header.get("features") != list(FEATURES):
        raise ValueError("this predictor was made for another release: train a new one")
    name = NETWORK if version is None else f"{NETWORK} v{version}"
    try:
        predictor = _predictor(name, arrays, tuple(str(one) for one in header["gpu_models"]))
        _check(predictor)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"this predictor lacks a part: {error}") from None
    return predictor


def header(data: bytes) -> dict[str, Any]:
    """What is told beside a version. Raises ValueError like `load`."""
    return _header(_read(data))


def _arrays(predictor: Trained) -> dict[str, Any]:
    parts = {
        "online": predictor.view.online._asdict(),
        "jobs": predictor.view.jobs._asdict(),
        "bilinear": predictor.model.bilinear._asdict(),
        "kernel": predictor.model.kernel._asdict(),
        "scale": predictor.model.calibration.scale._asdict(),
        "student": predictor.student._asdict(),
    }
    named = {f"{part}.{name}": one for part, of in parts.items() for name, one in of.items()}
    calibration = predictor.model.calibration._asdict()
    named |= {f"calibration.{name}": calibration[name] for name in _CALIBRATION}
    named |= {f"model.{name}": getattr(predictor.model, name) for name in _MODEL}
    for layer, pair in enumerate(zip(*predictor.model.ensemble, strict=True)):
        named |= {f"ensemble.{layer}.{kind}": one for kind, one in zip("wb", pair, strict=True)}
    return named


_MODEL: Final = ("centre", "gain", "unit", "lift", "trust", "near")
_CALIBRATION: Final = ("quantile", "references", "reach", "least", "most")


def _read(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise ValueError("this is too large to be a predictor")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError("this unpacks to more than a predictor has")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:
        # Whatever a parser of zip, deflate or npy makes of bytes that are none.
        raise ValueError(f"this is no predictor: {error}") from None


def _header(arrays: Mapping[str, Any]) -> dict[str, Any]:
    try:
        header = json.loads(arrays[HEADER].astype(np.uint8).tobytes())
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"this predictor has no header: {error}") from None
    if not isinstance(header, dict):
        raise ValueError("the header of this predictor is no object")
    return header


def _predictor(name: str, arrays: Mapping[str, Any], gpu_models: tuple[str, ...]) -> Trained:
    def part(prefix: str, names: tuple[str, ...], kind: type[Any] = np.float64) -> list[Any]:
        return [arrays[f"{prefix}.{one}"].astype(kind) for one in names]

    def side(prefix: str) -> Side:
        ends = part(prefix, Side._fields[:3])
        return Side(*ends, *part(prefix, Side._fields[3:], np.bool_))

    layers = range(sum(one.startswith("ensemble.") and one.endswith(".w") for one in arrays))
    quantile, references, reach, least, most = part("calibration", _CALIBRATION)
    scale = Additive(*part("scale", Additive._fields))
    centre, gain, unit, lift, trust, near = part("model", _MODEL)
    ensemble = Ensemble(
        *(
            tuple(arrays[f"ensemble.{layer}.{kind}"].astype(np.float32) for layer in layers)
            for kind in "wb"
        )
    )
    calibration = Calibration(scale, quantile, references, float(reach), least, most)
    bilinear = Bilinear(*part("bilinear", Bilinear._fields))
    kernel = Kernel(*part("kernel", Kernel._fields))
    model = Model(centre, gain, bilinear, ensemble, kernel, unit, lift, trust, near, calibration)
    student = Student(*part("student", Student._fields, np.float32))
    return Trained(name, View(side("online"), side("jobs"), gpu_models), model, student)


def _check(predictor: Trained) -> None:
    """Every array has the shape that the others ask for, and holds numbers."""
    view, model, student = predictor.view, predictor.model, predictor.student
    rows, columns = len(FEATURES) + 1 + len(view.gpu_models), len(FEATURES)
    outputs, features = (len(OUTPUTS),), (rows + columns,)
    shapes: list[Shaped] = [
        (one, (len(QUANTITIES),)) for side in (view.online, view.jobs) for one in side
    ]
    ends, products = features + outputs, (rows, columns, *outputs)
    shapes += zip(model.calibration.scale, (features, ends, outputs), strict=True)
    shapes += zip(model.bilinear, (features, ends, products, outputs), strict=True)
    shapes += zip(
        model.kernel,
        ((*outputs, TERMS), outputs + features, outputs + model.calibration.references.shape[:1]),
        strict=True,
    )
    shapes += [(one, features) for one in (model.centre, model.gain)]
    shapes += [(one, outputs) for one in (model.unit, model.lift, model.trust, model.near)]
    shapes += [(getattr(model.calibration, one), outputs) for one in ("quantile", "least", "most")]
    shapes += [(model.calibration.references, (len(model.calibration.references), *features))]
    wide, hidden = student.rows.shape[1:], student.hidden.shape[1:]
    shapes += zip(
        student,
        ((rows, *wide), (columns, *wide), wide, wide + hidden, hidden, hidden + outputs, outputs),
        strict=True,
    )
    shapes += _layers(model.ensemble, ends)
    for array, shape in shapes:
        if array.shape != shape:
            raise ValueError(f"this predictor does not fit together: {array.shape} for {shape}")
    _check_numbers(predictor)


def _layers(ensemble: Ensemble, ends: tuple[int, ...]) -> list[Shaped]:
    members = len(ensemble.weights[0])
    widths = [ends[0], *(one.shape[2] for one in ensemble.weights[:-1]), ends[1]]
    shapes: list[Shaped] = []
    for at, (weight, bias) in enumerate(zip(*ensemble, strict=True)):
        shapes.append((weight, (members, widths[at], widths[at + 1])))
        shapes.append((bias, (members, 1, widths[at + 1])))
    return shapes


def _check_numbers(predictor: Trained) -> None:
    """Ends may be endless where nothing was known; nothing else may be."""
    for name, array in _arrays(predictor).items():
        endless = name.startswith("calibration.") or name.endswith((".low", ".high"))
        if np.isnan(array).any() or not (endless or np.isfinite(array).all()):
            raise ValueError(f"{name} of this predictor holds what is no number")
    if (predictor.model.kernel.rates < 0.0).any():
        raise ValueError("the kernel of this predictor grows with the distance")
