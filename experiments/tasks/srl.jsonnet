// SRL on the English Web Treebank, for `python -m experiments.finetuning`, with one LSTM layer and
// 25,600 of the predicates, which take minutes.
local base = import '../../training_configs/srl.jsonnet';
base {
  train_data_path: std.extVar('DATA') + '/srl/ewt-propbank/train',
  validation_data_path: std.extVar('DATA') + '/srl/ewt-propbank/dev',
  model+: {
    encoder: {
      type: 'lstm',
      input_size: base.model.encoder.input_size,
      hidden_size: 100,
      bidirectional: true,
    },
  },
  data_loader: { batch_size: 32, shuffle: true, batches_per_epoch: 400 },
  validation_data_loader: { batch_size: 64 },
  trainer+: { optimizer: { type: 'adam', lr: 1e-3 }, num_epochs: 2 },
}
