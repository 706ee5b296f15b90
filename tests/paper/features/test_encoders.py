"""Encoders of texts and images."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from setpoint import SetpointError
from setpoint.paper.features import ImageEncoder, TextEncoder, extract
from setpoint.paper.features.pixels import read_pixels

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "fever",
    "##s",
    "rash",
    "no",
    "ü",
]
VOCABULARY += ["日", "a", "b", "c", "."]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Large weights: with the usual ones a random model says nearly the same of every input.
BERT = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 160,
    "initializer_range": 0.5,
}
DINO = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
    "initializer_range": 0.3,
}


def hf(name):
    """Return something of transformers, which is imported only now."""
    import transformers

    return getattr(transformers, name)


def new_processor(**settings):
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil

    return BitImageProcessorPil(**settings)


def save_bert(folder, seed=0, kind="BertModel", vocabulary=VOCABULARY, **changes):
    torch.manual_seed(seed)
    hf(kind)(hf("BertConfig")(**BERT, **changes)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return folder


def save_dino(folder, seed=0, mean=MEAN):
    torch.manual_seed(seed)
    hf("Dinov2Model")(hf("Dinov2Config")(**DINO)).save_pretrained(folder)
    new_processor(image_mean=mean, image_std=STD).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def dino(tmp_path_factory):
    return save_dino(tmp_path_factory.mktemp("dino"))


@pytest.fixture(scope="module")
def text(bert):
    return TextEncoder.from_pretrained(bert, device="cpu")


@pytest.fixture(scope="module")
def image(dino):
    return ImageEncoder.from_pretrained(dino, size=28, device="cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for k in range(7):
        array = rng.integers(0, 256, (20 + k, 40 - k, 3), dtype=np.uint8)
        Image.fromarray(array).save(folder / f"{k}.png")
    return sorted(folder.iterdir())


@pytest.fixture
def offline(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def bert_directly(folder, words):
    """The vector of known words, without tokenizer, batch or padding."""
    ids = [VOCABULARY.index(word) for word in ["[CLS]", *words, "[SEP]"]]
    model = hf("BertModel").from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    return states[-1][0, 0].numpy()


def dino_directly(folder, path, size):
    """The first token after the final layer norm, step by step."""
    small = Image.open(path).resize((size, size), Image.Resampling.BICUBIC)
    pixels = (np.asarray(small) / 255.0 - MEAN) / STD
    model = hf("Dinov2Model").from_pretrained(folder).eval()
    with torch.no_grad():
        tokens = model.embeddings(torch.tensor(pixels.transpose(2, 0, 1)[None]).float())
        for layer in model.encoder.layer:
            tokens = layer(tokens)
            tokens = tokens[0] if isinstance(tokens, tuple) else tokens
        return model.layernorm(tokens)[0, 0].numpy()


class TestText:
    def test_equals_a_direct_pass(self, bert, text):
        found = extract(["The fevers.", "No rash", "no fever"], text)
        assert found.shape == (3, text.dimension) == (3, 16)
        assert found.dtype == np.float32
        direct = [["the", "fever", "##s", "."], ["no", "rash"], ["no", "fever"]]
        for row, words in zip(found, direct, strict=True):
            assert np.allclose(row, bert_directly(bert, words), atol=1e-5)

    def test_a_text_does_not_depend_on_those_beside_it(self, text):
        short, long = "no rash", "the fever a b c " * 20
        alone = text.encode([short])
        beside = text.encode([long, short, "", short])
        assert np.allclose(beside[[1, 3]], alone, atol=1e-5)
        assert not np.allclose(beside[0], beside[1], atol=0.1)  # the model tells texts apart
        many = [" ".join(VOCABULARY[5 + k % 11] for k in range(n)) for n in (90, 1, 30, 7, 127)]
        one_by_one = extract(many, text, batch_size=1)
        assert np.allclose(extract(many, text, batch_size=5), one_by_one, atol=1e-5)

    def test_is_cut_at_the_limit_of_tokens_and_not_before(self, bert, text):
        start = ["a", "b", "c"] * 42  # 126 words, and [CLS] and [SEP]
        found = text.encode([" ".join([*start, *end]) for end in ([], ["rash"], ["fever"] * 99)])
        assert np.allclose(found[0], bert_directly(bert, start), atol=1e-5)
        assert np.allclose(found[1:], found[0], atol=1e-5)
        changed = text.encode([" ".join([*start[:-1], "rash"])])
        assert not np.allclose(changed, found[0], atol=1e-3)
        longer = TextEncoder.from_pretrained(bert, max_tokens=129, device="cpu")
        assert not np.allclose(longer.encode([" ".join([*start, "rash"])]), found[0], atol=1e-3)

    def test_empty_and_odd_texts(self, bert, text):
        odd = [
            "",
            " \n\t",
            "日ü 🤒 \u0000 e\u0301",
            "x" * 100_000,
            "\ud83e\udd12",
            "\udc80",
            "[CLS]",
        ]
        found = extract(odd, text)
        assert np.isfinite(found).all()
        assert np.allclose(found[0], bert_directly(bert, []), atol=1e-5)
        assert np.allclose(found[1], found[0], atol=1e-5)
        assert text.digest("\ud83e\udd12") == text.digest("🤒")

    def test_an_item_that_is_not_a_text_is_named(self, text):
        for item in (None, 3, float("nan"), b"fever", ["fever"]):
            with pytest.raises(SetpointError, match=r"item 1: a text must be a str, not .*drop"):
                extract(["fever", item], text)

    def test_nothing(self, text):
        assert extract([], text).shape == (0, 16)
        assert text.encode([]).shape == (0, 16)

    def test_strings_of_numpy(self, text):
        words = np.array(["fever", "rash"])
        assert np.array_equal(extract(words, text), extract(words.tolist(), text))

    def test_the_fingerprint_is_of_the_content_and_stays(self, bert, text, tmp_path):
        before = TextEncoder.from_pretrained(bert, device="cpu")
        text.encode(["a b"])  # changes the state of the tokenizer
        again = TextEncoder.from_pretrained(shutil.copytree(bert, tmp_path / "moved"), device="cpu")
        again.encode(["c"])
        assert before.fingerprint == again.fingerprint == text.fingerprint
        assert len(text.fingerprint) == 64

    def test_whatever_changes_the_features_changes_the_fingerprint(self, bert, text, tmp_path):
        variants = {
            "weights": TextEncoder.from_pretrained(save_bert(tmp_path / "w", seed=1), device="cpu"),
            "tokens": TextEncoder.from_pretrained(bert, max_tokens=64, device="cpu"),
            "precision": TextEncoder.from_pretrained(bert, device="cpu", precision="bfloat16"),
        }
        swapped = [*VOCABULARY[:5], *VOCABULARY[:4:-1]]
        folder = save_bert(tmp_path / "v", vocabulary=swapped)
        variants["vocabulary"] = TextEncoder.from_pretrained(folder, device="cpu")
        folder = save_bert(tmp_path / "c", hidden_act="relu")
        variants["configuration"] = TextEncoder.from_pretrained(folder, device="cpu")
        prints = {name: encoder.fingerprint for name, encoder in variants.items()}
        assert len({text.fingerprint, *prints.values()}) == 6, prints

    def test_another_model_gets_no_stale_features(self, text, tmp_path):
        items = ["fever", "no rash"]
        first = extract(items, text, tmp_path / "cache")
        other = TextEncoder.from_pretrained(save_bert(tmp_path / "other", seed=1), device="cpu")
        found = extract(items, other, tmp_path / "cache")
        assert np.allclose(found, other.encode(items), atol=1e-5)
        assert not np.allclose(found, first, atol=0.1)

    @pytest.mark.parametrize("precision", ["float16", "bfloat16"])
    def test_less_precision_gives_nearly_the_same_as_float32(self, bert, text, precision):
        coarse = TextEncoder.from_pretrained(bert, device="cpu", precision=precision)
        found, exact = (e.encode(["fever", "no rash"]) for e in (coarse, text))
        assert found.dtype == np.float32
        assert np.allclose(found, exact, atol=0.2)
        assert not np.array_equal(found, exact)

    def test_a_checkpoint_in_half_precision_is_computed_in_float32(self, bert, tmp_path):
        model = hf("BertModel").from_pretrained(bert).half()
        folder = shutil.copytree(bert, tmp_path / "half")
        model.save_pretrained(folder)
        encoder = TextEncoder.from_pretrained(folder, device="cpu")
        assert encoder.model.dtype == torch.float32

    def test_a_model_saved_with_another_head_gives_the_same_each_time(self, tmp_path):
        folder = save_bert(tmp_path, kind="BertForMaskedLM")  # it has no pooler: random weights
        first, second = (TextEncoder.from_pretrained(folder, device="cpu") for _ in range(2))
        assert first.fingerprint == second.fingerprint
        assert np.array_equal(first.encode(["fever"]), second.encode(["fever"]))

    def test_incomplete_weights_raise(self, bert, tmp_path):
        from safetensors.torch import load_file, save_file

        folder = shutil.copytree(bert, tmp_path / "gaps")
        weights = load_file(folder / "model.safetensors")
        del weights["encoder.layer.1.output.dense.weight"]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(SetpointError, match=r"lack 1 of .*encoder\.layer\.1\.output"):
            TextEncoder.from_pretrained(folder, device="cpu")

    def test_truncated_weights(self, bert, tmp_path):
        folder = shutil.copytree(bert, tmp_path / "short")
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        with pytest.raises(SetpointError, match=r"could not be loaded by transformers\.AutoModel"):
            TextEncoder.from_pretrained(folder, device="cpu")

    def test_a_model_without_its_tokenizer(self, bert, tmp_path):
        folder = shutil.copytree(bert, tmp_path / "bare")
        (folder / "vocab.txt").unlink()
        with pytest.raises(SetpointError, match="tokenizer has no words"):
            TextEncoder.from_pretrained(folder, device="cpu")

    def test_a_tokenizer_of_another_model(self, tmp_path):
        folder = save_bert(tmp_path, vocabulary=[*VOCABULARY, "more"])
        with pytest.raises(SetpointError, match="17 tokens, the model 16"):
            TextEncoder.from_pretrained(folder, device="cpu")

    def test_a_model_without_cls_raises(self):
        class NoClass:
            all_special_tokens = ("<eos>",)
            cls_token_id = None

            def __len__(self):
                return 9

            def __call__(self, text):
                return {"input_ids": [5]}

        model = hf("GPT2Model")(hf("GPT2Config")(vocab_size=9, n_embd=4, n_layer=1, n_head=1))
        with pytest.raises(SetpointError, match=r"does not put a \[CLS\] token first"):
            TextEncoder(model, NoClass())

    def test_a_limit_that_the_model_cannot_have(self, bert):
        for limit in (2, 161, 128.0, None, True):
            with pytest.raises(
                SetpointError, match="max_tokens must be a whole number,? from 3 to 160"
            ):
                TextEncoder.from_pretrained(bert, max_tokens=limit, device="cpu")

    def test_an_unknown_device_or_precision_raises(self, bert):
        with pytest.raises(SetpointError, match="the device 'gpu' cannot be used"):
            TextEncoder.from_pretrained(bert, device="gpu")
        with pytest.raises(SetpointError, match="precision must be one of float32.* not 'int8'"):
            TextEncoder.from_pretrained(bert, precision="int8")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
    def test_a_device_that_is_not_there(self, bert):
        with pytest.raises(SetpointError, match=r"'cuda' cannot be used .*'auto' uses a GPU"):
            TextEncoder.from_pretrained(bert, device="cuda")


class TestImages:
    @pytest.mark.parametrize("size", [28, 56, 224])
    def test_equals_a_direct_pass(self, dino, files, size):
        encoder = ImageEncoder.from_pretrained(dino, size=size, device="cpu")
        found = extract(files[:3], encoder)
        assert found.shape == (3, encoder.dimension) == (3, 12)
        assert found.dtype == np.float32
        for row, path in zip(found, files, strict=False):
            assert np.allclose(row, dino_directly(dino, path, size), atol=1e-4)
        assert np.ptp(found, axis=0).max() > 0.1  # the model tells images apart

    def test_the_size_of_the_paper_is_the_default(self, dino):
        encoder = ImageEncoder.from_pretrained(dino)
        assert encoder.size == 224

    def test_order_and_batches(self, image, files):
        shuffled = [files[k] for k in (3, 0, 6, 3, 5, 1)]
        one_by_one = np.vstack([image.encode([path]) for path in shuffled])
        for batch_size in (1, 2, 64):
            found = extract(shuffled, image, batch_size=batch_size)
            assert np.allclose(found, one_by_one, atol=1e-5)

    def test_paths_of_any_kind(self, image, files):
        paths = [str(path) for path in files]
        assert np.array_equal(extract(paths, image), extract(files, image))

    def test_a_renamed_file_is_known_and_a_changed_one_is_not(self, image, files, tmp_path):
        cache, names = tmp_path / "cache", []
        for k, path in enumerate(files[:3]):
            names.append(shutil.copy(path, tmp_path / f"{k}.png"))
        before = extract(names, image, cache)
        encoded = []

        class Watched(ImageEncoder):
            def encode(self, items):
                encoded.extend(items)
                return super().encode(items)

        watched = Watched(image.model, new_processor(image_mean=MEAN, image_std=STD), 28)
        renamed = [Path(name).rename(tmp_path / f"new {Path(name).name}") for name in names]
        assert np.array_equal(extract(renamed, watched, cache), before)
        assert encoded == []
        shutil.copy(files[5], renamed[1])
        after = extract(renamed, watched, cache)
        assert encoded == [renamed[1]]
        assert np.array_equal(after[[0, 2]], before[[0, 2]])
        assert not np.allclose(after[1], before[1], atol=0.01)

    def test_whatever_changes_the_features_changes_the_fingerprint(self, dino, image, tmp_path):
        other = save_dino(tmp_path / "weights", seed=1)
        shifted = save_dino(tmp_path / "mean", mean=(0.5, 0.5, 0.5))
        variants = [
            ImageEncoder.from_pretrained(other, size=28, device="cpu"),
            ImageEncoder.from_pretrained(shifted, size=28, device="cpu"),
            ImageEncoder.from_pretrained(dino, size=56, device="cpu"),
            ImageEncoder.from_pretrained(dino, size=28, device="cpu", precision="bfloat16"),
        ]
        assert len({image.fingerprint, *(v.fingerprint for v in variants)}) == 5
        moved = shutil.copytree(dino, tmp_path / "moved")
        again = ImageEncoder.from_pretrained(moved, size=28, device="cpu", workers=1)
        assert again.fingerprint == image.fingerprint

    def test_normalises_with_the_processor(self, files, tmp_path):
        """Another mean must act as if the pixels were shifted by the difference."""
        plain = save_dino(tmp_path / "a", mean=(0.0, 0.0, 0.0))
        shifted = save_dino(tmp_path / "b", mean=(0.25, 0.25, 0.25))
        first, second = (
            ImageEncoder.from_pretrained(folder, 28, "cpu") for folder in (plain, shifted)
        )
        pixels = [read_pixels(files[0], 28) / np.float32(STD), second._normalised(files[0])]
        assert np.allclose(first._normalised(files[0]), pixels[0], atol=1e-6)
        assert np.allclose(pixels[0] - pixels[1], 0.25 / np.float32(STD), atol=1e-5)

    def test_sixteen_bit_gray_sees_more_than_white(self, image, tmp_path):
        """Clipped at 255, both would be the same white sheet."""
        ramp = np.linspace(300, 60000, 40 * 40).reshape(40, 40).astype(np.uint16)
        Image.fromarray(ramp).save(tmp_path / "a.png")
        Image.fromarray(np.ascontiguousarray(ramp[::-1])).save(tmp_path / "b.png")
        found = extract([tmp_path / "a.png", tmp_path / "b.png"], image)
        assert not np.allclose(found[0], found[1], atol=0.01)

    def test_a_truncated_file_is_named_and_the_others_are_kept(self, image, files, tmp_path):
        broken = tmp_path / "broken.png"
        broken.write_bytes(files[0].read_bytes()[:-400])
        with pytest.raises(SetpointError, match=r"broken\.png.*truncated"):
            extract([*files[:4], broken], image, tmp_path / "cache", batch_size=2)
        batches = []

        class Watched(ImageEncoder):
            def encode(self, items):
                batches.append(items)
                return super().encode(items)

        processor = new_processor(image_mean=MEAN, image_std=STD)
        extract(files[:5], Watched(image.model, processor, 28), tmp_path / "cache")
        assert batches == [[files[4]]]

    def test_an_item_that_is_not_a_path_is_named(self, image):
        for item in (None, 3, np.zeros((2, 2)), b"a.png"):
            with pytest.raises(SetpointError, match="item 0: an image must be the path"):
                extract([item], image)

    def test_files_that_are_not_there(self, image, files, tmp_path):
        with pytest.raises(SetpointError, match=r"item 1: the image .*none\.png.*No such file"):
            extract([files[0], tmp_path / "none.png"], image)
        with pytest.raises(SetpointError, match=r"item 0: the image .*cannot be read"):
            extract([tmp_path], image)

    def test_nothing(self, image):
        assert extract([], image).shape == (0, 12)
        assert image.encode([]).shape == (0, 12)

    def test_a_size_that_patches_do_not_cover(self, dino):
        for size in (225, 29):
            near = size // 14 * 14
            with pytest.raises(SetpointError, match=f"patches: {near} or {near + 14}, not {size}"):
                ImageEncoder.from_pretrained(dino, size=size, device="cpu")

    def test_an_invalid_size_raises(self, dino):
        for size in (0, 13, -14, 28.0, None):
            with pytest.raises(SetpointError, match="size must be a whole number.* at least 14"):
                ImageEncoder.from_pretrained(dino, size=size, device="cpu")


class TestLoading:
    @pytest.mark.parametrize("kind", [TextEncoder, ImageEncoder])
    def test_without_network_or_such_a_name(self, kind, offline):
        with pytest.raises(SetpointError) as caught:
            kind.from_pretrained("no-such/model")
        message = str(caught.value)
        assert "'no-such/model' could not be loaded" in message
        assert "hf download no-such/model --local-dir FOLDER" in message
        assert "no such folder" in message

    @pytest.mark.parametrize("kind", [TextEncoder, ImageEncoder])
    def test_a_folder_without_a_model(self, kind, tmp_path):
        with pytest.raises(SetpointError, match="The folder must contain config.json"):
            kind.from_pretrained(tmp_path)
        with pytest.raises(SetpointError, match="There is no such folder"):
            kind.from_pretrained(tmp_path / "nowhere")

    def test_a_model_of_the_other_kind(self, bert, dino):
        with pytest.raises(SetpointError, match="AutoImageProcessor"):
            ImageEncoder.from_pretrained(bert)
        with pytest.raises(SetpointError, match="could not be loaded|no words"):
            TextEncoder.from_pretrained(dino)
        model = hf("BertModel")(hf("BertConfig")(**BERT))
        with pytest.raises(SetpointError, match="BertModel is not a model of RGB images"):
            ImageEncoder(model, new_processor())

    def test_without_transformers_the_extra_is_named(self, bert, monkeypatch):
        monkeypatch.setitem(sys.modules, "transformers", None)
        with pytest.raises(ImportError, match=r'pip install "setpoint\[features\]"'):
            TextEncoder.from_pretrained(bert)
