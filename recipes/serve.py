"""Serves the vectors of an exported model, with FastAPI, uvicorn, ONNX Runtime and NumPy alone:
MODEL=elmo.onnx uvicorn serve:app --app-dir recipes
curl localhost:8000/vectors --json '[["He", "threw", "it", "."], ["The", "dog", "."]]'"""

import os
from typing import Annotated

import numpy as np
from fastapi import FastAPI
from onnxruntime import InferenceSession
from pydantic import Field

app, model = FastAPI(), InferenceSession(os.environ["MODEL"])
[characters], MARKS = model.get_inputs(), {"<S>": [257], "</S>": [258]}
shapes, Token = [x.shape for x in model.get_outputs()], Field(pattern=r"^[^ \t\r\n]+$")
if [shape[-3:-1] for shape in shapes] != [characters.shape[:2]]:
    raise SystemExit(f"MODEL: expected the output of Elmo.export, found those of shape {shapes}")
Sentence = Annotated[list[Annotated[str, Token]], Field(min_length=1, max_length=512)]


@app.post("/vectors")  # in a thread of its own for each request, because it is not `async`
def vectors(sentences: Annotated[list[Sentence], Field(min_length=1, max_length=64)]):
    ids = np.zeros((len(sentences), max(map(len, sentences)), characters.shape[2]), np.int64)
    for row, sentence in zip(ids, sentences):
        for place, token in zip(row, sentence):  # see docs/deployment.md
            word = MARKS.get(token) or [byte + 1 for byte in token.encode("utf-8", "ignore")]
            word = [259, *word[: len(place) - 2], 260]
            place[:] = word + [261] * (len(place) - len(word))
    found = np.moveaxis(model.run(None, {characters.name: ids})[0], -3, 0)  # sentences first
    return [x[..., : len(sentence), :].tolist() for x, sentence in zip(found, sentences)]
