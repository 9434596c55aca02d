"""AllenNLP's commands with `--include-package allennlp_today`, and without `elmo_plugin`."""

import json
from pathlib import Path

from tests.conftest import ROOT, python

TEXT = str(ROOT / "fixtures" / "tagging" / "dev.tsv")
CONFIG = f"""(import '{ROOT}/training_configs/tagger.jsonnet') + {{
  train_data_path: '{TEXT}',
  validation_data_path: '{TEXT}',
  data_loader: {{ batch_size: 16 }},
  trainer+: {{
    num_epochs: 2,
    cuda_device: -1,
    learning_rate_scheduler: {{ type: 'reduce_on_plateau' }},
  }},
}}"""
RUN = """
import json, sys
from allennlp.commands import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["allennlp", *arguments, "--include-package", "allennlp_today"]
    main(prog="allennlp")
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "elmo_plugin"]))
"""


def test_a_tagger_is_trained_evaluated_and_used(tmp_path: Path) -> None:
    """Expected: a tag for each token; the accuracy of the best epoch, as training has written it;
    and no module of ELMo. AllenNLP alone fails at the scheduler, gives tags to the padding, and
    downloads a spaCy model or fails without one."""
    (tmp_path / "config.jsonnet").write_text(CONFIG)
    (tmp_path / "sentences").write_text('{"sentence": "The dog barks."}\n{"sentence": "Hi."}\n')
    archive, language = "run/model.tar.gz", '{"language": "blank:en"}'
    predict = ["predict", archive, "sentences", "--predictor", "sentence_tagger"]
    commands = [
        ["train", "config.jsonnet", "-s", "run"],
        ["evaluate", archive, TEXT, "--output-file", "metrics"],
        [*predict, "--predictor-args", language, "--output-file", "tags"],
    ]
    done = python("-c", RUN, json.dumps(commands), folder=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1]) == []
    trained = json.loads((tmp_path / "run" / "metrics.json").read_text())
    evaluated = json.loads((tmp_path / "metrics").read_text())
    assert evaluated["accuracy"] == trained["best_validation_accuracy"]
    predicted = [json.loads(line) for line in (tmp_path / "tags").read_text().splitlines()]
    assert [output["words"] for output in predicted] == [["The", "dog", "barks", "."], ["Hi", "."]]
    assert [len(output["tags"]) for output in predicted] == [4, 2]
