// bilm.jsonnet with bilm-tf's recipe, which the paper's models used. It keeps the restarts of
// bilm.jsonnet, which bilm-tf does not have.
(import 'bilm.jsonnet') + {
  model+: { dropout: 0.1 },
  trainer+: {
    // Like bilm-tf, the model multiplies the loss by the window; the accumulator and the norm are
    // chosen for that.
    optimizer: { type: 'adagrad', lr: 0.2, initial_accumulator_value: 1.0 },
    grad_norm: 10.0,
    learning_rate_scheduler: null,
  },
}
