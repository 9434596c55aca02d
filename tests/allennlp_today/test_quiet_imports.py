import json

import pytest

from tests.conftest import python

SENTENCES = '{"validation_data_loader": {"type": "multiprocess", "batch_size": 8}}'


def test_training_prints_no_warning_that_a_user_can_do_nothing_about(tmp_path):
    """Expected: no Python warning and no failed download, whereas `allennlp train` prints nine.
    Logging is disabled."""
    config = "training_configs/two_cores/ner.jsonnet"
    command = ["train", config, "-s", str(tmp_path / "run")]
    run = elmo_plugin(*command, "--overrides", '{"trainer.num_epochs": 1}')
    printed = [line for line in run.stderr.splitlines() if "Warning" in line or "nltk" in line]
    assert printed == []


def test_evaluate_prints_its_metrics(bilm_archive, tmp_path):
    """Expected: the metrics that are in the output file, and little else."""
    (tmp_path / "text.txt").write_text("the dog\nhe threw the stick .\n" * 20)
    metrics = tmp_path / "metrics.json"
    command = ["evaluate", str(bilm_archive), str(tmp_path / "text.txt"), "-o"]
    run = elmo_plugin(*command, SENTENCES, "--output-file", str(metrics))
    expected = json.loads(metrics.read_text())
    _, printed = run.stderr.split("Metrics: ")
    assert json.loads(printed) == expected and "perplexity" in expected
    assert len([line for line in run.stderr.splitlines() if "it/s" not in line]) <= 10


@pytest.mark.long
def test_importing_the_package_hides_only_what_others_deprecated():
    """Expected, with a PyTorch that warns as 2.14 does: nothing at import, and the user's own call
    still warns."""
    code = (
        "import torch, warnings\n"
        "script = torch.jit.script\n"
        "def warn(*arguments, **options):\n"
        "    warnings.warn('`torch.jit.script` is deprecated.', FutureWarning)\n"
        "    return script(*arguments, **options)\n"
        "torch.jit.script = warn\n"
        "import allennlp_today\n"
        "print('imported', file=__import__('sys').stderr)\n"
        "torch.jit.script(torch.nn.Identity())"
    )
    before, after = python("-c", code, PYTHONWARNINGS="").stderr.split("imported")
    assert "FutureWarning" not in before and "FutureWarning" in after


def elmo_plugin(*arguments):
    """`python -m elmo_plugin` without the log of training."""
    return python("-m", "elmo_plugin", *arguments, ALLENNLP_LOG_LEVEL="ERROR", PYTHONWARNINGS="")
