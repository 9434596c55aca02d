// ESIM on a part of SNLI, for `python -m experiments.finetuning`: DATA/snli has the two files.
(import '../../training_configs/esim.jsonnet') + {
  dataset_reader+: { tokenizer: { type: 'spacy', language: std.extVar('DATA') + '/blank_en' } },
  train_data_path: std.extVar('DATA') + '/snli/snli_dev_as_train.jsonl',
  validation_data_path: std.extVar('DATA') + '/snli/snli_dev_as_dev.jsonl',
  data_loader: { batch_size: 32, shuffle: true },
  trainer+: { num_epochs: 5 },
}
