"""
Trains the biLM of `training_configs/bilm.jsonnet` and small transformers on the same small text, to
compare what each reaches in which time. Each result becomes a row of
`experiments/results/from_scratch.jsonl`:

    python -m experiments.from_scratch TEXT UD_English-EWT elmo --epochs 8 --dropout 0.2
    python -m experiments.from_scratch TEXT UD_English-EWT words --layers 2 --dim 128 --rate 1e-3

TEXT is a folder of files with one tokenized sentence per line. The last twentieth of each is held
out; `--tokens` takes that many of the others, from the beginnings of all files. The models are

- `elmo`: the biLM, trained by `allennlp train`;
- `words`: a causal transformer over the words of the biLM's vocabulary;
- `pieces`: the same over 8,000 word pieces (BPE of bytes, GPT-2's); the probability of a word is
  the product of those of its pieces;
- `masked`: a transformer over the same pieces that predicts 15 % of them (BERT's), for the probe.

The perplexity is that of the words that the biLM's vocabulary has, given those before them in their
sentence, and of the sentence's end. The probe finds parts of speech from the mean of a model's
layers (`experiments/probe.py`), trained on every second sentence of the treebank.

Transformers have the biLM's sampled softmax, and its allocation of memory. They are trained by
AdamW on streams of shuffled sentences, 16 rows of 128 in a step. Their rate rises in 200 steps and
stays. At each of `--minutes`, a copy is trained for a quarter of the steps done, while its rate
falls to zero, and measured; the training ends when a copy is not better than the one before. The
time of a row is the CPU time, on one thread, of the steps that led to it. Products are in bf16
where the processor has them.
"""
