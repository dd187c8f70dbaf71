"""Units: which axis of which parameter follows which node's channels or features.

What prunes or widens a network has to cut or copy alike whatever is tied: a convolution's outputs, the norm behind it,
the inputs of all that read it, and, through sums, the outputs of every other node that is added to it (dependency
groups, Fang et al. 2023, arXiv 2301.12900). Here each channel or feature that a node makes is a *unit* with a number;
a layout (a vector of these numbers) is carried through the plan of the network: elementwise operations pass it on, a
concatenation joins layouts, flattening repeats each number, a sum makes the numbers it adds up one. So one rule covers
skips, cells, projections and the head.

Nodes are named as the topology names them, those in cells by their path: ``CELL/NODE``. Nodes that the normal form
contracts (identities, sums) have none. Projections are nodes of their own, called as :func:`~detol.graph.plan.
projection_name` does. ``NODE:hidden`` are the inner units of ``mbconv`` and ``squeeze_excite``; their number follows
from that of the units that enter.
"""

from collections.abc import Sequence

import numpy as np

from detol.graph.plan import Plan, Step, Term, plan, projection_name
from detol.graph.shapes import Shape
from detol.graph.topology import Topology
from detol.graph.unit_ledger import Ledger
from detol.graph.unit_rules import RULES, Place
from detol.graph.unit_table import HIDDEN, Axis, Layout, Reader, Role, Units

__all__ = ["HIDDEN", "Axis", "Layout", "Reader", "Role", "Units", "units"]


def units(topology: Topology, shape: Sequence[int], outputs: int) -> Units:
    """Return the units of the network that ``build(topology, shape, outputs)`` makes.

    Raises:
        ShapeError, TopologyError: as :func:`~detol.graph.build.build`.
    """
    walk = _Walk()
    made = plan(topology, shape)
    entering = walk.new(made.steps[0].before[0])
    walk.fix(entering)
    last = walk.body(made, entering, "", "")
    scores = walk.new(outputs)
    walk.fix(scores)
    walk.modules[""] = "head.linear"
    walk.weights("", "head.linear", scores, last, bias=True)
    return walk.found()


def _end(made: Plan, name: str, place: int) -> str:
    """Return the node where tensors enter (0) or leave (-1) a step: of a cell, its input or output, by its path."""
    work = next(step.work for step in made.steps if step.name == name)
    return f"{name}/{_end(work, work.steps[place].name, place)}" if isinstance(work, Plan) else name


class _Walk(Ledger):
    """Carries layouts through a plan and notes what is tied."""

    def body(self, made: Plan, entering: Layout, path: str, prefix: str) -> Layout:
        """Walk the nodes of a plan whose input has a layout; return the layout of its output."""
        from detol.graph.build import module_names  # torch

        keys = module_names(step.name for step in made.steps)
        projections = module_names(projection_name(term) for term in made.projections)
        values: dict[str, Layout] = {}
        projected: dict[tuple[str, Shape], Layout] = {}
        for step in made.steps:
            node, module = f"{path}{step.name}", f"{prefix}nodes.{keys[step.name]}"
            parts = []
            for term in step.terms:
                name = projection_name(term)
                if term.projected and (term.source, term.after) not in projected:
                    place = f"{prefix}projections.{projections[name]}"
                    projected[term.source, term.after] = self._project(term, values[term.source], path + name, place)
                    self.projections[path + name] = (path + _end(made, term.source, -1), [])
                if term.projected:
                    self.projections[path + name][1].append(path + _end(made, step.name, 0))
                parts.append(projected[term.source, term.after] if term.projected else values[term.source])
            merged = parts[0] if parts else entering
            if step.concat:
                merged = np.concatenate(parts)
            else:
                for part in parts[1:]:
                    self.tie(merged, part)
            self.enters[node] = merged
            values[step.name] = self.leaves[node] = self._work(step, merged, node, module)
        return values[made.steps[-1].name]

    def _work(self, step: Step, layout: Layout, node: str, module: str) -> Layout:
        if isinstance(step.work, Plan):
            return self.body(step.work, layout, f"{node}/", f"{module}.")
        self.operations[node] = step.work
        self.modules[node] = module
        rule = RULES.get(step.work.kind)
        if rule is not None:
            return rule(self, Place(node, module, step.work, step.before, step.after), layout)
        self.fix(layout)
        made = self.make(node, step.after[0])
        self.fix(made)
        return made

    def _project(self, term: Term, layout: Layout, node: str, module: str) -> Layout:
        if term.before[0] == term.after[0]:
            return layout
        self.modules[node] = module
        made = self.make(node, term.after[0])
        self.weights(node, f"{module}.conv", made, layout, bias=False)
        self.norm(node, f"{module}.norm", made)
        return made
