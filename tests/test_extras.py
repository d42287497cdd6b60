"""Packages that may not be there."""

import json.decoder
import sys

import pytest

from data.errors import DuetError
from data.extras import extra, located


def test_a_package_and_a_module_of_one():
    assert extra("json", "demo") is json and extra("json.decoder", "demo") is json.decoder
    assert located("json", "demo").name == "json"


@pytest.mark.parametrize("find", [extra, located])
def test_one_that_is_not_installed_is_told_with_what_brings_it(find):
    with pytest.raises(DuetError) as told:
        find("no_such_package", "demo")
    assert str(told.value) == 'this needs the package no_such_package, which is not installed: pip install -e ".[demo]"'


def test_so_is_one_of_which_only_the_module_is_asked_for():
    with pytest.raises(DuetError, match="the package no_such_package, which is not installed"):
        extra("no_such_package.part", "demo")


def test_one_that_is_broken_is_told_with_the_reason(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("import no_such_library")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(DuetError, match=r"broken_package, which cannot be imported \(No module named 'no_such_library'\): pip"):
        extra("broken_package", "demo")
    assert located("broken_package", "demo").name == "broken_package"  # it is not imported
