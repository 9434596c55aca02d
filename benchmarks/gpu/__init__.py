"""
Measures a GPU: whether the fast paths compute the right numbers there, and how fast they are. It
needs PyTorch, NumPy, h5py and tqdm, and compares with AllenNLP's modules where they are installed.
"""
