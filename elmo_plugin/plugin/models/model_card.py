"""The model card with which the Hugging Face Hub shows a folder of bilm-tf's files as a model."""

import re
from collections.abc import Sequence

from elmo_plugin.checks import fail
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.models.export_readers import who_reads

LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")

CARD = """\
---
{languages}license: {license}
library_name: elmo_plugin
pipeline_tag: feature-extraction
tags:
- elmo
- bilm
- word-embeddings
---

# {name}

This is an ELMo model (Peters et al. 2018), a bidirectional language model: {n_layers} LSTM layers
of {dim} cells, projected to {projection_dim}, so that a vector has {output_dim} numbers. The files
are in bilm-tf's format; {readers}.

## Training

Write here on which text the model was trained, how that text was split into tokens, and the
perplexity of held-out text.

## Use

```python
from elmo_plugin import Elmo

elmo = Elmo.from_archive("hf://USER/REPOSITORY")
vectors = elmo.embed("A sentence with spaces between its tokens .")
```

In a config of AllenNLP: `elmo: {{ type: 'elmo', archive_file: 'hf://USER/REPOSITORY' }}`
"""


def model_card(name: str, options: BiLMOptions, license: str, languages: Sequence[str]) -> str:
    """
    The text of a card with YAML front matter. `license` and `languages` are the Hub's identifiers.
    Raises an `InputError` if they have another form.
    """
    if not LICENSE.fullmatch(license):
        fail(
            "--license", "an identifier of the Hub, such as apache-2.0, cc-by-4.0 or other", license
        )
    for language in languages:
        if not LANGUAGE.fullmatch(language):
            fail("--language", "a code such as en, nds or pt-BR", language)
    return CARD.format(
        name=name,
        languages="".join(["language:\n", *(f'- "{x}"\n' for x in languages)]) if languages else "",
        license=license,
        output_dim=2 * options.lstm.projection_dim,
        readers=who_reads(options),
        **vars(options.lstm),
    )
