// The model `small`, which comes with the package (`pretrained: 'small'`), was trained with this on
// one core in an hour:
//
//   BILM_TEXT=FOLDER OMP_NUM_THREADS=1 allennlp train training_configs/bilm_small.jsonnet \
//     --include-package elmo_plugin -s OUT
//   allennlp bilm-export OUT/model.tar.gz elmo_plugin/pretrained/small --float16
//
// elmo_plugin/pretrained/small/README.md describes the text in the folders `train` and `dev`.
(import 'bilm.jsonnet') + {
  train_data_path: std.extVar('BILM_TEXT') + '/train',
  validation_data_path: std.extVar('BILM_TEXT') + '/dev',
  vocabulary+: { max_size: 50000 },
  data_loader+: { batch_size: 64, restart_every: null },
  model+: {
    n_negative_samples: 4096,
    precision: 'bf16',
  },
}
