"""Serves the vectors of an exported model, with FastAPI, uvicorn, ONNX Runtime and NumPy alone:
MODEL=elmo.onnx uvicorn serve:app --app-dir recipes
curl localhost:8000/vectors --json '[["He", "threw", "it", "."], ["The", "dog", "."]]'"""

import os
from typing import Annotated

import numpy as np
from fastapi import FastAPI
from onnxruntime import InferenceSession
from pydantic import Field

MARKS = {"<S>": [257], "</S>": [258]}  # sentence boundaries, if they are written as tokens
Token = Annotated[str, Field(pattern=r"^\S+$")]
Sentence = Annotated[list[Token], Field(min_length=1, max_length=512)]

app = FastAPI()
model = InferenceSession(os.environ["MODEL"])
[characters] = model.get_inputs()
shapes = [output.shape for output in model.get_outputs()]
if [shape[-3:-1] for shape in shapes] != [characters.shape[:2]]:
    raise SystemExit(f"MODEL: expected the output of Elmo.export, found those of shape {shapes}")


@app.post("/vectors")  # in a thread of its own for each request, because it is not `async`
def vectors(sentences: Annotated[list[Sentence], Field(min_length=1, max_length=64)]):
    n_tokens = max(map(len, sentences))
    ids = np.zeros((len(sentences), n_tokens, characters.shape[2]), np.int64)
    for row, sentence in zip(ids, sentences):
        for position, token in zip(row, sentence):  # see docs/deployment.md
            word = MARKS.get(token) or [byte + 1 for byte in token.encode("utf-8", "ignore")]
            word = [259, *word[: len(position) - 2], 260]
            position[:] = word + [261] * (len(position) - len(word))
    [output] = model.run(None, {characters.name: ids})
    by_sentence = np.moveaxis(output, -3, 0)
    return [x[..., : len(sentence), :].tolist() for x, sentence in zip(by_sentence, sentences)]
