"""Reads TensorFlow's checkpoints of bilm-tf. TensorFlow's names appear only here."""
