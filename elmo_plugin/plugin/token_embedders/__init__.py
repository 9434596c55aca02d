"""The token embedder `elmo`."""
