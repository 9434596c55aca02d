import nltk
from allennlp.data import DatasetReader

TREES = """
(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))
(TOP (S (NP (PRP It)) (VP (VBZ sleeps)) (. .)))
"""


def test_trees_of_any_folder(tmp_path):
    """Expected: the words as they are written, and NLTK's folders as they were before. Without the
    patch, NLTK raises `PermissionError`."""
    file = tmp_path / "trees.txt"
    file.write_text(TREES)
    before = list(nltk.data.path)
    reader = DatasetReader.by_name("ptb_trees")()
    instances = reader.read(str(file))
    first = next(instances)
    assert set(nltk.data.path) - set(before) == {str(tmp_path)}
    sentences = [[t.text for t in i["tokens"]] for i in (first, *instances)]
    assert sentences == [["The", "dog", "barks", "."], ["It", "sleeps", "."]]
    assert nltk.data.path == before
