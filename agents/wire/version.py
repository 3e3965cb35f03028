"""The version of both distributions, of the images and of what an agent says in its hello."""

from __future__ import annotations

VERSION = "0.1.0"
