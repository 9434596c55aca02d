"""
Importing and using AllenNLP 2.10.1 prints warnings that its users can do nothing about:

- fairscale 0.4.6 and AllenNLP's trainer call `torch.cuda.amp`, which PyTorch 2.4 deprecated;
- rouge imports `pkg_resources`, which setuptools deprecated.

Only these warnings of these modules are ignored. They can go with the package that each one names.
The command `allennlp` imports all of this before any plugin, so that it still prints those of the
import; `python -m elmo_plugin` does not.
"""

import warnings

for category, message, module in (
    (FutureWarning, r"`torch\.cuda\.amp\.custom_", r"fairscale\."),
    (FutureWarning, r"`torch\.cuda\.amp\.", r"allennlp\."),
    (UserWarning, "pkg_resources is deprecated", r"rouge\."),
):
    warnings.filterwarnings("ignore", message, category, module)
