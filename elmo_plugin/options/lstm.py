from dataclasses import asdict, dataclass
from typing import Self

from elmo_plugin.checks import check_count, check_flag, check_number
from elmo_plugin.modules import BiLSTM


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    """The block `lstm`; see `BiLSTM`. A clip of 0 is none, as in bilm-tf."""

    dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False

    def __post_init__(self) -> None:
        for key in ("dim", "projection_dim", "n_layers"):
            check_count(f"lstm.{key}", getattr(self, key))
        for key in ("cell_clip", "proj_clip"):
            clip = getattr(self, key)
            if clip is not None:
                check_number(f"lstm.{key}", clip, least=0)
                object.__setattr__(self, key, float(clip) or None)
        check_flag("lstm.use_skip_connections", self.use_skip_connections)

    @classmethod
    def of(cls, bilstm: BiLSTM) -> Self:
        return cls(
            dim=bilstm.dim,
            projection_dim=bilstm.projection_dim,
            n_layers=bilstm.n_layers,
            cell_clip=bilstm.layers[0].cell_clip,
            proj_clip=bilstm.layers[0].proj_clip,
            use_skip_connections=bilstm.use_skip_connections,
        )

    def build(self, dropout: float) -> BiLSTM:
        return BiLSTM(input_dim=self.projection_dim, dropout=dropout, **asdict(self))

    @property
    def n_parameters(self) -> int:
        """The number of parameters of all layers in both directions."""
        n = (2 * self.projection_dim + 1) * 4 * self.dim
        n += 0 if self.projection_dim == self.dim else self.dim * self.projection_dim
        return self.n_layers * 2 * n
