"""Whether AllenNLP's own ELMo can read a biLM in bilm-tf's files."""

from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS


def who_reads(options: BiLMOptions) -> str:
    """
    One sentence on whether AllenNLP's own ELMo, which most programs copied, can read the files.
    """
    reasons = refused_by_allennlp(options)
    if not reasons:
        return "AllenNLP's own ELMo reads them, as elmo_plugin does"
    return f"elmo_plugin reads them; AllenNLP's own ELMo does not: it needs {', '.join(reasons)}"


def refused_by_allennlp(options: BiLMOptions) -> list[str]:
    """
    The properties that AllenNLP's own ELMo needs and this biLM lacks; empty if AllenNLP can read
    it.
    """
    reasons = []
    if not options.lstm.use_skip_connections:
        reasons.append("lstm.use_skip_connections")
    if options.lstm.projection_dim == options.lstm.dim:
        reasons.append("an lstm.projection_dim other than lstm.dim")
    if options.char_cnn is None or options.reads_code_points:
        return [*reasons, "a char_cnn over bytes"]
    if options.lstm.projection_dim == options.char_cnn.n_filters:
        reasons.append("an lstm.projection_dim other than the number of filters")
    if options.char_cnn.max_characters_per_token != DEFAULT_MAX_CHARACTERS:
        reasons.append(f"a char_cnn.max_characters_per_token of {DEFAULT_MAX_CHARACTERS}")
    return reasons
