"""How wide a training is worth: a model, by layer, of a data-parallel step, and the widths of trials chosen by it.

``rates`` and ``link`` are how fast products and messages are on a ``machine``; ``work`` is what a network asks for;
``step`` puts them together; ``answer`` says what that means for a person, ``forecast`` and ``auto`` for a search.
"""
