"""The encoder `elmo_output`, which adds ELMo to the output of a task's encoder."""
