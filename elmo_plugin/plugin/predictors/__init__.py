"""The predictors `bilm` and `elmo`."""
