"""Settings and final scores in TensorBoard, read back from the events as TensorBoard itself reads them."""

from collections import Counter

import pytest
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups, metadata

from tasks.hparams import settings
from tasks.runs import events
from tests.test_conf import compose_train

REQUEST = RequestContext()
CONFIG = {
    "name": "a",
    "seed": 1,
    "test": True,
    "data": {"_target_": "data.module.PairData", "root": None, "test_file": ["x", "y"], "make_src_tokenizer": {"size": 9}},
    "tokenizer": {"source": {"vocab_size": 9}, "vocab_size": 9, "shared": True},
    "model": {"_target_": "model.transformer.Transformer", "dropout": 0.1, "_partial_": True},
}


def test_settings_go_by_their_names_on_the_command_line():
    assert settings(OmegaConf.create(CONFIG), model="transformer_tiny", parameters=5) == {
        "name": "a",
        "seed": 1,
        "data.class": "PairData",
        "data.root": "null",
        "data.test_file": '["x", "y"]',
        "tokenizer.vocab_size": 9,
        "tokenizer.shared": True,
        "model.class": "Transformer",
        "model.dropout": 0.1,
        "model": "transformer_tiny",
        "parameters": 5,
    }


def test_tokenizers_are_told_apart():
    def of(*words):
        config = OmegaConf.to_container(compose_train(["data=text", *words]), resolve=True)
        return {name: value for name, value in settings(OmegaConf.create(config)).items() if name.startswith("tokenizer.")}

    pieces, characters, mixed = of(), of("tokenizer=characters"), of("tokenizer.target.vocab_size=99")
    assert all(pieces[f"tokenizer.{side}.class"] == "SentencePiece.train" for side in ("source", "target"))
    assert characters["tokenizer.source.class"] == "Characters.train" and "tokenizer.source.vocab_size" not in mixed
    assert (mixed["tokenizer.vocab_size"], mixed["tokenizer.target.vocab_size"]) == (8000, 99)


@pytest.fixture(scope="module")
def board(small_sweep):
    """TensorBoard's view of all runs of the sweep."""
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(small_sweep.folder))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(small_sweep.folder))
    return backend_context.Context(base_plugin.TBContext(data_provider=provider)), multiplexer


def test_the_tab_shows_every_run_with_its_settings_and_scores(small_sweep, board):
    context, multiplexer = board
    contents = context.hparams_metadata(REQUEST, "")
    experiment = context.experiment_from_metadata(REQUEST, "", True, contents, [])
    assert {"model", "model.heads", "optimizer.lr", "parameters"} <= {info.name for info in experiment.hparam_infos}
    assert {"test/bleu", "val/bleu", "train/minutes"} <= {info.name.tag for info in experiment.metric_infos}
    request = api_pb2.ListSessionGroupsRequest(slice_size=10, allowed_statuses=[api_pb2.STATUS_SUCCESS], include_metrics=True)
    request.col_params.add(hparam="model.heads", include_in_result=True)
    request.col_params.add(hparam="model", include_in_result=True)
    request.col_params.add(metric=api_pb2.MetricName(tag="test/bleu", group=""))
    groups = list_session_groups.Handler(REQUEST, context, "", request).run().session_groups
    assert {group.hparams["model.heads"].number_value for group in groups} == {2, 4}
    assert {group.hparams["model"].string_value for group in groups} == {"transformer_tiny"}
    scores = {metric.name.tag: metric.value for group in groups for metric in group.metric_values}
    assert scores["test/bleu"] > 0 and len(multiplexer.Runs()) == 2


def test_no_subfolder_and_no_scalar_twice(small_run):
    folders = {path.name for path in small_run.folder.iterdir() if path.is_dir()}
    assert folders <= {"checkpoints", "heatmaps", "evaluate"}
    found = events(small_run.folder)
    assert "hp_metric" not in found.Tags()["scalars"]
    for tag in found.Tags()["scalars"]:
        assert max(Counter(point.step for point in found.Scalars(tag)).values()) == 1, tag
    plugin = found.PluginTagToContent(metadata.PLUGIN_NAME)
    assert set(plugin) == {metadata.SESSION_START_INFO_TAG, metadata.SESSION_END_INFO_TAG}
