import inspect
import io
from pathlib import Path

import pytest
import torch
import yaml

from data.errors import DuetError
from data.tokenizer import BOS, EOS, PAD, UNK, Characters, SentencePiece, restore

ENGLISH = ["a small dog runs", "two dogs run fast", "the dog sees the small cat", "a cat and a dog"]
CHINESE = ["晚风吹柳，细雨", "明月照松间，清泉", "春风又绿江南岸"]
ODD = ["a\u2028b", "c\x85d", "tab\there", "no\u00a0break", "\x0b\x0c\x1c", "ﬁ ½ Ａ", "😀 é e\u0301", "  two  blanks "]

CONF = Path(__file__).parents[1] / "conf" / "tokenizer"


def pieces_of(texts, **options):
    return SentencePiece.train(texts, **{"vocab_size": 60, "normalization": "identity", **options})


def reloaded(tokenizer):
    file = io.BytesIO()
    torch.save(tokenizer.state(), file)
    file.seek(0)
    return restore(torch.load(file, weights_only=True))


# Both


def every_tokenizer(texts):
    alphabet = len(set("".join(texts)))
    yield Characters.train(texts)
    yield pieces_of(texts, model_type="bpe", vocab_size=alphabet + 20)
    yield pieces_of(texts, model_type="unigram", vocab_size=alphabet + 6)


def test_special_ids_stand_for_no_text():
    for tokenizer in every_tokenizer(ENGLISH):
        ids = tokenizer.encode("a dog")
        assert not {PAD, UNK, BOS, EOS} & set(ids)
        assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "a dog"
        assert tokenizer.decode([PAD, *ids[:1], EOS, BOS, *ids[1:]]) == "a dog"
        assert tokenizer.decode([]) == tokenizer.decode([EOS]) == ""


def test_ids_cover_the_vocabulary():
    for tokenizer in every_tokenizer(ENGLISH):
        pieces = tokenizer.pieces(range(len(tokenizer)))
        assert pieces[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
        assert len(set(pieces)) == len(tokenizer)


def test_restored_is_equal_and_its_state_loads_without_pickled_code():
    for tokenizer in every_tokenizer(ENGLISH + CHINESE):
        again = reloaded(tokenizer)
        assert type(again) is type(tokenizer) and len(again) == len(tokenizer)
        assert again.state() == tokenizer.state()
        for text in [*ENGLISH, *CHINESE, "unseen Ω 龘", ""]:
            assert again.encode(text) == tokenizer.encode(text)


def test_many_texts_encode_as_one_by_one():
    for tokenizer in every_tokenizer(ENGLISH):
        texts = [*ENGLISH, "", "unseen Ω"]
        assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]


def test_ids_may_be_tensors_turned_to_lists_or_any_iterable():
    for tokenizer in every_tokenizer(ENGLISH):
        ids = tokenizer.encode("a dog")
        assert tokenizer.decode(iter(torch.tensor(ids).tolist())) == "a dog"


# Characters


@pytest.mark.parametrize("text", [*ENGLISH, *CHINESE, *ODD, "", " ", "e\u0301 is not é"])
def test_characters_change_nothing(text):
    tokenizer = Characters.train([*ENGLISH, *CHINESE, *ODD, "e\u0301 is not é"])
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert "".join(tokenizer.pieces(ids)) == text


def test_unknown_characters_keep_their_places():
    tokenizer = Characters.train(["ab"])
    ids = tokenizer.encode("xaxxb")
    assert ids == [UNK, *tokenizer.encode("a"), UNK, UNK, *tokenizer.encode("b")]
    assert tokenizer.decode(ids) == "⁇a⁇⁇b"


@pytest.mark.parametrize("min_count, kept", [(1, "cba"), (2, "cb"), (3, "c")])
def test_rare_characters_are_left_out(min_count, kept):
    tokenizer = Characters.train(["abb", "ccc"], min_count=min_count)
    assert tokenizer.pieces(range(4, len(tokenizer))) == list(kept)  # the most frequent first


def test_characters_do_not_depend_on_the_order_of_texts():
    assert Characters.train(ENGLISH).state() == Characters.train(ENGLISH[::-1]).state()


@pytest.mark.parametrize("min_count, texts, message", [
    (0, ["a"], "min_count is 0: it must be at least 1"),
    (3, ["aab"], "no character occurs tokenizer.min_count=3 times"),
    (1, [], "hold no character: every pair is blank"),
])  # fmt: skip
def test_character_mistakes(min_count, texts, message):
    with pytest.raises(DuetError, match=message):
        Characters.train(texts, min_count=min_count)


# SentencePiece


@pytest.mark.parametrize("model_type, vocab_size", [("bpe", 60), ("unigram", 26)])
def test_sentencepiece_has_the_size_asked_for(model_type, vocab_size):
    assert len(pieces_of(ENGLISH, model_type=model_type, vocab_size=vocab_size)) == vocab_size


@pytest.mark.parametrize("size", [0, 60])
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_sentencepiece_training_repeats_itself(model_type, size):
    texts = (ENGLISH + CHINESE) * 20
    options = {"model_type": model_type, "vocab_size": 46, "input_sentence_size": size}
    assert pieces_of(texts, **options).state() == pieces_of(texts, **options).state()


def test_sentencepiece_trains_from_a_generator_on_odd_text():
    tokenizer = pieces_of((text for text in ODD * 3), vocab_size=70)
    for text in ["a\u2028b", "c\x85d", "tab\there", "no\u00a0break"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("rule, comma", [("identity", "，"), ("nmt_nfkc", ",")])
def test_the_normaliser_is_a_choice(rule, comma):
    tokenizer = pieces_of(CHINESE, normalization=rule, vocab_size=36)
    assert tokenizer.decode(tokenizer.encode("晚风，")) == f"晚风{comma}"


def test_pieces_keep_the_mark_of_a_blank():
    tokenizer = pieces_of(ENGLISH)
    assert "".join(tokenizer.pieces(tokenizer.encode("a dog"))) == "▁a▁dog"


def test_unknown_characters_that_touch_become_one():
    tokenizer = pieces_of(ENGLISH)
    assert tokenizer.encode("龘龘").count(UNK) == 1


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_vocabulary_too_large_names_the_largest_possible(model_type):
    with pytest.raises(DuetError, match="vocab_size=5000 is too large for this corpus: the largest possible") as raised:
        pieces_of(ENGLISH, model_type=model_type, vocab_size=5000)
    assert "\n" not in str(raised.value)
    largest = int(str(raised.value).split()[-1])
    assert len(pieces_of(ENGLISH, model_type=model_type, vocab_size=largest)) == largest


@pytest.mark.parametrize("options, message", [
    ({"vocab_size": 6}, "vocab_size=6 is too small .* give at least"),
    ({"vocab_size": 0}, "vocab_size is 0: it must be a whole number"),
    ({"vocab_size": "big"}, "vocab_size is 'big': it must be a whole number"),
    ({"model_type": "word"}, "model_type is 'word': choose bpe, unigram"),
    ({"normalization": "none"}, "normalization is 'none': choose .*identity"),
    ({"character_coverage": 2.0}, "character_coverage is 2.0: it must be from 0.98 to 1"),
])  # fmt: skip
def test_sentencepiece_mistakes(options, message):
    with pytest.raises(DuetError, match=message) as raised:
        pieces_of(ENGLISH, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("texts", [[], ["", "  "]])
def test_no_text_to_train_on(texts):
    with pytest.raises(DuetError, match="no text to train a tokenizer on"):
        pieces_of(texts)


def test_an_error_of_the_texts_comes_through():
    def broken():
        yield "a"
        raise DuetError("the file is broken")

    with pytest.raises(DuetError, match="the file is broken"):
        SentencePiece.train(broken())


# Configuration


def options_of(train):
    parameters = inspect.signature(train).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("name, train", [("characters", Characters.train), ("sentencepiece", SentencePiece.train)])
def test_yaml_equals_the_signature(side, name, train):
    group = yaml.safe_load((CONF / "sentencepiece.yaml").read_text())
    keys = yaml.safe_load((CONF / side / f"{name}.yaml").read_text())
    assert keys.pop("_target_") == f"data.tokenizer.{train.__self__.__name__}.train" and keys.pop("_partial_")
    assert keys == {option: f"${{tokenizer.{option}}}" for option in options_of(train)}
    assert {option: group[option] for option in keys} == options_of(train)
