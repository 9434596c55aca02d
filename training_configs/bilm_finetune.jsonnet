// A trained biLM, trained on with your own text:
//
//   BILM_ARCHIVE=OUT/model.tar.gz BILM_TEXT=my/text BILM_DEV=my/dev.txt \
//     allennlp train training_configs/bilm_finetune.jsonnet --include-package elmo_plugin -s TUNED
//
// BILM_ARCHIVE=small starts from the model that comes with the package: much better than nothing
// where there is little text. Its sizes are those of bilm.jsonnet. To start from the paper's,
// import bilm_1b.jsonnet instead, and name bilm-tf's weight file; its sizes are the same.
(import 'bilm.jsonnet') + {
  train_data_path: std.extVar('BILM_TEXT'),
  validation_data_path: std.extVar('BILM_DEV'),
  // The vocabulary is the new text's. Words that the old one had keep their softmax.
  model+: { pretrained_file: std.extVar('BILM_ARCHIVE') },
}
