"""Architecture: the class of transformers that a configuration names, and what it takes."""

from __future__ import annotations

from typing import Any

from attn_cli.errors import UnsupportedError
from attn_cli.formats.names import quoted
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.inputs import PICTURES
from attn_cli.models.hf.loaded import Kind

SOUNDS = ("input_features", "input_values")
_AUTO = {
    "CausalLM": "AutoModelForCausalLM",
    "Seq2SeqLM": "AutoModelForSeq2SeqLM",
    "MaskedLM": "AutoModelForMaskedLM",
    "ImageTextToText": "AutoModelForImageTextToText",
    "SpeechSeq2Seq": "AutoModelForSpeechSeq2Seq",
}


def class_of(config: Any, *, remote: bool) -> Any:
    """The class to build: the one that `architectures` names, else by the kind of model.

    Remote code is asked through the Auto class that its auto_map lists. UnsupportedError where no
    class is known.
    """
    package = transformers()
    said = getattr(config, "architectures", None)
    named = [name for name in (said if isinstance(said, list) else ()) if isinstance(name, str)]
    if remote and isinstance(listed := getattr(config, "auto_map", None), dict):
        chosen = next((each for each in (*_AUTO.values(), "AutoModel") if each in listed), None)
        if chosen is not None:
            return getattr(package, chosen)
    for name in named:
        found = getattr(package, name, None)
        if isinstance(found, type) and issubclass(found, package.PreTrainedModel):
            return found
    for auto in (*_usual(config), "AutoModel"):
        if type(config) in getattr(package, auto)._model_mapping:
            return getattr(package, auto)
    what = f"architecture {quoted(named[0])}" if named else f"model type {config.model_type!r}"
    raise UnsupportedError(
        f"transformers {package.__version__} has no {what}",
        hint="is transformers new enough? pip install --upgrade transformers",
    )


def _usual(config: Any) -> list[str]:
    """The Auto classes that fit a configuration which names no architecture, best first."""
    if getattr(config, "is_encoder_decoder", False):
        return [_AUTO["Seq2SeqLM"], _AUTO["SpeechSeq2Seq"]]
    return [_AUTO["ImageTextToText"], _AUTO["CausalLM"], _AUTO["MaskedLM"]]


def kind_of(model: Any) -> Kind:
    """What a model takes, by the parameters of its forward and the names of its main input."""
    import inspect

    takes = inspect.signature(model.forward).parameters
    main = getattr(model, "main_input_name", "input_ids")
    pictures = any(name in takes for name in PICTURES)
    if main in SOUNDS or (SOUNDS[0] in takes and not pictures):
        return "speech"
    if main in PICTURES and "input_ids" not in takes:
        return "vision"
    if pictures and "input_ids" in takes:
        return "image-text"
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    return "decoder" if _is_decoder(model) else "encoder"


def _is_decoder(model: Any) -> bool:
    """Whether the model generates text from the left to the right."""
    package = transformers()
    causal = package.AutoModelForCausalLM._model_mapping
    masked = package.AutoModelForMaskedLM._model_mapping
    kind = type(model.config)
    said = getattr(model.config, "is_decoder", False)
    return bool(said) or (kind in causal and kind not in masked)
