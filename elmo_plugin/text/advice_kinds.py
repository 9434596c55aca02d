"""The kinds of warnings about text: their messages, and when they are said."""

from typing import NamedTuple

N_EXAMPLES = 3
"""Number of different words in a warning. A few words of a name are no reason for one."""

RAW_SPLITS = (
    "; raw=True, or --raw of the commands elmo, score and uses, splits English text into tokens"
)
"""The end of a message about text that was not split so."""


class Kind(NamedTuple):
    """
    A kind of finding: its message, and above which share of what was read and for how many
    different examples it is said.
    """

    message: str
    share: float = 0.0
    least: int = 1


MANY_UNKNOWN = 0.3
"""The share of unknown words above which there is a warning; in English, `small` lacks 2 to 5 %."""

KINDS = {
    "a list of words": Kind(
        "the {of:,} strings of a list without whitespace in any, such as {examples}, are read as "
        "sentences of one word each; [x] is one sentence with the tokens x, and [[word] for word "
        "in x] are sentences without this warning"
    ),
    "wrapped lines": Kind(
        "{n:,} of {of:,} lines begin in lower case after a line without final punctuation, and a "
        "sentence ends with its line; {hint}running_text in Python joins the lines of a paragraph",
        share=0.1,
        least=0,
    ),
    "other language": Kind(
        "raw=True, or --raw of the command, splits text by the rules of English, and the model's "
        "{n_first} most frequent words have only {n_english} of {n_all} such as {examples}, so "
        "that it is probably a model of another language, by whose rules its text has to be split"
    ),
    "unsplit sentences": Kind(
        "{n:,} of {of:,} sentences ({percent:.1f} %) end in a word together with its punctuation, "
        "such as {examples}, and the model reads both as one word; the text is probably not split "
        "into tokens{hint}",
        share=0.5,
    ),
    "symbols": Kind(
        "{n:,} of {of:,} tokens are symbols of other programs, such as {examples}, and are read as "
        "words (<S> and </S> as sentence boundaries); remove them, because the biLM adds "
        "boundaries and handles unknown words itself, or write the - , . of @-@ @,@ @.@"
    ),
    "invisible characters": Kind(
        "{n:,} of {of:,} tokens contain an invisible character, which makes them different words, "
        "such as {character} in {examples}; remove it, or write a space if it separates words"
    ),
    "cut words": Kind(
        "{n:,} of {of:,} tokens ({percent:.1f} %) are longer than {limit} and are cut, such as "
        "{examples}{equal}; a model that was trained with a larger max_characters_per_token reads "
        "more; words of text such as Chinese have to be separated by spaces first, and the tokens "
        "of a protein are its letters: [list(protein)]",
        share=0.01,
        least=N_EXAMPLES,
    ),
    "unknown words": Kind(
        "{percent:.1f} % of {of:,} words, such as {examples}, are unknown to the model, which "
        "takes all of them for one word, <UNK>; check that language, case, encoding and tokens of "
        "the text are as in the model's own text{hint}",
        share=MANY_UNKNOWN,
        least=N_EXAMPLES,
    ),
    "cut tokens": Kind(
        "{n:,} of {of:,} spans start or end within a token, such as {examples}, and their vectors "
        "or sums are those of the whole tokens{hint}"
    ),
    "other words": Kind(
        "in {n:,} of {of:,} rows, the span is no form of the word in the column word, such as "
        "{examples}{hint}",
        share=0.2,
    ),
    "listed words": Kind(
        "{n:,} of {of:,} listed forms contain an invisible character, and are not found in other "
        "text, such as {examples}"
    ),
    "divided documents": Kind(
        "documents: a new document begins where a label occurs again after another one, such as "
        "{examples}; sort the sentences by document to read them as one"
    ),
    "no token": Kind("{examples}: expected sentences, found no token"),
}
"""In the order in which they are said."""
