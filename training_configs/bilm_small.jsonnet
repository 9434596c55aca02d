// The model `small` in the package (`pretrained: 'small'`) was trained with this config, in several
// runs (see its model card, elmo_plugin/pretrained/small/README.md):
//
//   BILM_TEXT=FOLDER python -m elmo_plugin train training_configs/bilm_small.jsonnet \
//     -s OUT
//   python -m elmo_plugin bilm-export OUT/model.tar.gz elmo_plugin/pretrained/small \
//     --softmax --float16
//
// The model card describes the text in the folders `train` and `heldout`.
(import 'bilm.jsonnet') + {
  train_data_path: std.extVar('BILM_TEXT') + '/train',
  validation_data_path: std.extVar('BILM_TEXT') + '/heldout',
  vocabulary+: { max_size: 65000 },
  data_loader+: { batch_size: 128 },
  model+: {
    char_cnn+: {
      filters: [[1, 8], [2, 16], [3, 40], [4, 64], [5, 96], [6, 128], [7, 160]],  // 512
    },
    lstm+: { dim: 1024, projection_dim: 128 },  // 256-dimensional vectors
    n_negative_samples: 4096,
    // As good as fp32 here, and faster on CPUs with native bfloat16 (AVX512_BF16 or AMX on x86).
    // Others, such as those of most laptops, compute in fp32.
    precision: 'bf16',
  },
  trainer+: { optimizer+: { lr: 0.003 } },
}
