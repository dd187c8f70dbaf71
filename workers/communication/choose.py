"""From the name in a recipe to the way itself."""

from torch import nn

from detol.search.exchange import parse
from detol.search.recipe import Recipe
from detol.workers.communication.base import Communication
from detol.workers.communication.halves import Halves
from detol.workers.communication.sparse import TopK


def communicate(model: nn.Module, recipe: Recipe, width: int) -> Communication:
    """Return how a training exchanges; one rank alone has nothing to exchange, and trains as by the plain way."""
    chosen = parse(recipe.communication)
    if width == 1 or chosen.name == "plain":
        return Communication(model, recipe)
    if chosen.name in ("fp16", "bf16"):
        return Halves(model, recipe)
    if chosen.name == "topk":
        return TopK(model, recipe, chosen.value)
    if chosen.name == "powersgd":  # imported here: torch's hook brings much along
        from detol.workers.communication.power import PowerSGD

        return PowerSGD(model, recipe, int(chosen.value))
    from detol.workers.communication.local import LocalSGD

    return LocalSGD(model, recipe, int(chosen.value))
