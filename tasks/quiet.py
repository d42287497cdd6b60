"""Silences what libraries say on every run and no user can act on."""

import logging
import warnings


def quiet() -> None:
    for name in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in (
        ".*does not have many workers.*",
        ".*enumerate(.*) is being called but there is no.*",
        ".*Checkpoint directory.*exists and is not empty.*",
        ".*GPU available but not used.*",
        ".*your dataloader is not resumable.*",  # PairData is, by itself
        ".*Total length of `list` across ranks is zero.*",
        ".*sync_dist=True.*",  # every device has the same scores: they are gathered before
        ".*LeafSpec.*",
        ".*Starting from v1.9.0.*",
        ".*was not specified.*batch_size.*",
    ):
        warnings.filterwarnings("ignore", message=message)
