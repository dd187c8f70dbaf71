"""The weights that come with detol, and weights as bytes. Importing this file loads torch."""

import json
from functools import cache
from importlib.resources import files

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from detol.embedding.autoencoder import FORMAT, Autoencoder
from detol.errors import UsageError

FILE = "svge.safetensors"


def to_bytes(model: Autoencoder) -> bytes:
    """Return a model as safetensors: its weights in half precision, its sizes and the format in the header."""
    weights = {name: weight.detach().half().contiguous() for name, weight in model.state_dict().items()}
    return save(weights, metadata={"format": FORMAT, "sizes": json.dumps(model.sizes)})


def from_bytes(data: bytes) -> Autoencoder:
    """Return the model that :func:`to_bytes` wrote (weights rounded to half precision), ready to read and write.

    Raises:
        UsageError: no such file, or of another format.
    """
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
        weights = load(data)
    except (SafetensorError, ValueError) as error:
        raise UsageError(f"weights of an encoder are a safetensors file: {error}") from None
    if header.get("format") != FORMAT:
        raise UsageError(f"weights of an encoder have format {FORMAT} here, got {header.get('format')!r}: train anew")
    model = Autoencoder(**json.loads(header["sizes"]))
    model.load_state_dict({name: weight.float() for name, weight in weights.items()})
    return model.eval()


@cache
def pretrained() -> Autoencoder:
    """Return the model that comes with detol; one for the process: change a ``copy`` of it alone."""
    return from_bytes(files("detol.embedding").joinpath(FILE).read_bytes())


def copy(model: Autoencoder) -> Autoencoder:
    """Return a model of the same weights that may be trained on."""
    made = Autoencoder(**model.sizes)
    with torch.no_grad():
        made.load_state_dict(model.state_dict())
    return made.eval()
