"""Cross-entropy with label smoothing (Szegedy et al. 2016, section 7), in few passes over the logits.

Shapes: M target tokens, V vocabulary.
"""

import torch
from torch import Tensor


class SmoothedCrossEntropy(torch.autograd.Function):
    """Keeps one (M, V) tensor, the softmax, and makes one more for the gradient; `F.cross_entropy` with smoothing more.

    One exponential a logit: log Σ exp comes from the largest one, whose probability is at least 1 / V.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        p = logits.softmax(dim=-1)
        log_sum = logits.amax(dim=-1) - p.amax(dim=-1).log()  # (M,)
        nll = (log_sum - logits.gather(1, gold.unsqueeze(1)).squeeze(1)).sum()
        uniform = (log_sum - logits.mean(dim=-1)).sum()  # cross-entropy to the uniform distribution
        ctx.save_for_backward(p, gold)
        ctx.smoothing = smoothing
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx, grad: Tensor | None, _) -> tuple[Tensor | None, None, None]:
        if grad is None:  # nobody asks for the loss
            return None, None, None
        p, gold = ctx.saved_tensors
        result = p - ctx.smoothing / p.size(1)  # the softmax, minus the smoothed distribution
        result.scatter_add_(1, gold.unsqueeze(1), result.new_full((len(gold), 1), ctx.smoothing - 1))
        return result.mul_(grad), None, None


def smoothed_cross_entropy(logits: Tensor, gold: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """logits (M, V) and gold (M,) -> the loss and the unsmoothed negative log-likelihood, both summed over the tokens.

    The reference distribution has 1 − smoothing on gold and smoothing spread over all V, as in `F.cross_entropy`.
    """
    return SmoothedCrossEntropy.apply(logits.float(), gold, smoothing)  # float32, whatever the precision
