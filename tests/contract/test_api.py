"""Every operation answers as the OpenAPI document says, whatever it is sent."""

from __future__ import annotations

import hypothesis
import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from drf_spectacular.generators import SchemaGenerator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)

document = SchemaGenerator().get_schema(request=None, public=True)
schema = schemathesis.openapi.from_dict(document)
schema.app = get_wsgi_application()


@pytest.mark.timeout(60)
@schema.parametrize()
@hypothesis.settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_the_answer_is_the_one_described(case: schemathesis.Case, bearer: str) -> None:
    case.call_and_validate(headers={"Authorization": bearer}, checks=CHECKS)
