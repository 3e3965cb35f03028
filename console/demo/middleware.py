from __future__ import annotations

from django.utils.deprecation import MiddlewareMixin


class FirstViewMiddleware(MiddlewareMixin):
    pass
