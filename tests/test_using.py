"""What commands check before their work."""

import pytest
import torch
from omegaconf import OmegaConf

from data.errors import DuetError
from tasks.using import check_device, check_names


def test_a_device_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    check_device("cpu")
    for device in ("cuda", "tpu"):
        with pytest.raises(DuetError, match=f"^device is '{device}': allowed is cpu .torch sees no GPU here.$"):
            check_device(device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check_device("cuda")
    with pytest.raises(DuetError, match="^device is 'tpu': allowed is cpu, cuda$"):
        check_device("tpu")


def test_a_name_that_is_no_choice_is_told():
    config = OmegaConf.create({"format": "xml", "script": "auto"})
    check_names(config, {"script": ("auto", "simplified")})
    with pytest.raises(DuetError, match="^format is 'xml': choose text, json$"):
        check_names(config, {"script": ("auto",), "format": {"text": len, "json": repr}})
