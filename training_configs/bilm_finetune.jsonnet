// Continues training an existing biLM on your own text:
//
//   BILM_ARCHIVE=pretrained://small BILM_TEXT=my/text BILM_DEV=my/dev.txt \
//     python -m elmo_plugin train training_configs/bilm_finetune.jsonnet -s TUNED
//
// The text may be that of a task, as the dataset reader in the task's config reads it:
//
//   BILM_TEXT='task://TASK.jsonnet#train_data_path' BILM_DEV='task://TASK.jsonnet#validation_data_path'
//
// BILM_ARCHIVE is the archive of a `bilm`, the folder of its training, or an installed model, with
// the sizes of bilm_small.jsonnet; docs/finetuning.md explains how to fine-tune other sizes, and
// bilm-tf's files.
(import 'bilm_small.jsonnet') + {
  train_data_path: std.extVar('BILM_TEXT'),
  validation_data_path: std.extVar('BILM_DEV'),

  // The words of the softmax stay the same, so that perplexities before and after are comparable.
  vocabulary: { type: 'from_files', directory: std.extVar('BILM_ARCHIVE') },
  data_loader+: { batch_size: 16 },  // fewer rows, for more steps on little text
  model+: { pretrained_file: std.extVar('BILM_ARCHIVE'), dropout: 0.0 },

  trainer+: {
    // On two texts, rates of 0.001 to 0.003 and two or three epochs gave perplexities within 6 % of
    // these. The archive contains the best epoch's weights.
    optimizer+: { lr: 2e-3 },
    learning_rate_scheduler: { type: 'linear_with_warmup', warmup_steps: 100 },  // then decay to zero
    num_epochs: 2,
  },
}
