import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_training_prints_no_warning_that_a_user_can_do_nothing_about(tmp_path):
    """
    Expected: no warning of Python's and no failed download, where `allennlp train` prints nine. The
    log itself is switched off.
    """
    config = "training_configs/two_cores/ner.jsonnet"
    command = [sys.executable, "-m", "elmo_plugin", "train", config, "-s", str(tmp_path / "run")]
    environment = {**os.environ, "ALLENNLP_LOG_LEVEL": "ERROR", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONWARNINGS", None)
    run = subprocess.run(
        [*command, "--overrides", '{"trainer.num_epochs": 1}'],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    printed = [line for line in run.stderr.splitlines() if "Warning" in line or "nltk" in line]
    assert printed == []
