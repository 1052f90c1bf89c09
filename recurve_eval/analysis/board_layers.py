"""The report of an interception in the words of an experiment tracker: one note for all of it, one for each layer."""

from __future__ import annotations

from recurve_eval.analysis.board import Note, fitting, with_interval
from recurve_eval.analysis.format import Data, rate
from recurve_eval.domain import INTERCEPTION

KIND = INTERCEPTION
RATES = (("tpr", "defects stopped"), ("fpr", "good work stopped"), ("marginal_tpr", "newly stopped defects"),
         ("precision", "precision"))  # fmt: skip
COUNTS = ("broken", "unable", "unscored")


def interception_notes(data: Data, markdown: str) -> tuple[Note, list[Note]]:
    """The note of the whole and those of the layers, in their order."""
    census, layers = data["census"], data["layers"]
    whole = Note(data["study"], fitting(markdown.partition("\n## By kind")[0]))
    standing = {f"n_{word}": count for word, count in census["standing"].items()}
    whole.metrics = {"n_items": census["items"], "n_tasks": census["tasks"], **standing}
    whole.tags["finding"] = f"interception by {data['source']}"
    whole.tags["answer"] = "; ".join(
        f"{x['layer']}: {rate(x['tpr'])} of defects stopped, {rate(x['fpr'])} of good work" for x in layers
    )
    return whole, [_layer_note(data, x) for x in layers]


def _layer_note(data: Data, layer: Data) -> Note:
    note = Note(str(layer["layer"]), f"**Layer {layer['layer']}**")
    note.params = {key: str(data[key]) for key in ("benchmark", "source", "claims")} | {"layer": str(layer["layer"])}
    note.metrics = {f"n_{key}": layer[key] for key in COUNTS}
    for key, words in RATES:
        if layer[key] is not None:
            note.tags[words] = rate(layer[key])
            note.metrics |= with_interval(key, layer[key])
    return note
