from elmo_plugin.modules.initial_state import N_BOUNDARIES, warm_up
from tests import oracle
from tests.compare import assert_close
from tests.random_bilm import arrays_of, oracle_state, random_bilm


def test_warm_up_is_a_run_over_boundaries(tmp_path):
    """The expected state is that of the oracle after it reads `<S> </S>` repeatedly from zeros, and
    `</S> <S>` in the backward direction. Dropout, as while a model is built, changes nothing."""
    bilm, options = random_bilm()
    arrays = arrays_of(bilm, tmp_path)
    begin, end = (oracle.word_vector(arrays, options, token) for token in ("<S>", "</S>"))
    state = oracle.zero_state(options)
    for _ in range(N_BOUNDARIES):
        _, state = oracle.stream(arrays, options, 0, [begin, end], state)
        _, state = oracle.stream(arrays, options, 1, [end, begin], state)
    bilm.bilstm.dropout.p = 0.5
    bilm.train()
    found = warm_up(bilm)
    assert found.n_rows == 1 and bilm.training
    for key, (c, h) in oracle_state(found, 0).items():
        assert_close(c, state[key][0], atol=1e-5, what=f"c {key}")
        assert_close(h, state[key][1], atol=1e-5, what=f"h {key}")
