"""Cross-entropy with label smoothing (Szegedy et al. 2016, section 7), in few passes over the logits.

Shapes: M target tokens, V vocabulary.
"""

import torch
from torch import Tensor


class SmoothedCrossEntropy(torch.autograd.Function):
    """Keeps one (M, V) tensor and makes one more for the gradient; `F.cross_entropy` with smoothing makes several."""

    @staticmethod
    def forward(ctx, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        log_p = logits.log_softmax(dim=-1)
        nll = -log_p.gather(1, gold.unsqueeze(1)).sum()
        uniform = -log_p.mean(dim=-1).sum()  # cross-entropy to the uniform distribution
        ctx.save_for_backward(log_p, gold)
        ctx.smoothing = smoothing
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx, grad: Tensor | None, _) -> tuple[Tensor | None, None, None]:
        if grad is None:  # nobody asks for the loss
            return None, None, None
        log_p, gold = ctx.saved_tensors
        result = log_p.exp()  # the softmax, minus the smoothed distribution
        result.sub_(ctx.smoothing / log_p.size(1))
        result.scatter_add_(1, gold.unsqueeze(1), result.new_full((len(gold), 1), ctx.smoothing - 1))
        return result.mul_(grad), None, None


def smoothed_cross_entropy(logits: Tensor, gold: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """logits (M, V) and gold (M,) -> the loss and the unsmoothed negative log-likelihood, both summed over the tokens.

    The reference distribution has 1 − smoothing on gold and smoothing spread over all V, as in `F.cross_entropy`.
    """
    return SmoothedCrossEntropy.apply(logits.float(), gold, smoothing)  # float32, whatever the precision
