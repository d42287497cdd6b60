"""Cross-entropy with label smoothing (Szegedy et al. 2016, section 7), in few passes over the logits.

Shapes: M target tokens, V vocabulary.
"""

import torch
from torch import Tensor


class SmoothedCrossEntropy(torch.autograd.Function):
    """Keeps the logits and one number a token; `F.cross_entropy` keeps and makes several (M, V) tensors more."""

    @staticmethod
    def forward(ctx, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        log_total = logits.logsumexp(dim=-1)  # (M,)
        nll = log_total - logits.gather(1, gold.unsqueeze(1)).squeeze(1)
        uniform = log_total - logits.mean(dim=-1)  # cross-entropy to the uniform distribution
        ctx.save_for_backward(logits, log_total, gold)
        ctx.smoothing = smoothing
        ctx.set_materialize_grads(False)
        nll = nll.sum()
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform.sum(), nll

    @staticmethod
    def backward(ctx, grad: Tensor | None, _) -> tuple[Tensor | None, None, None]:
        if grad is None:  # nobody asks for the loss
            return None, None, None
        logits, log_total, gold = ctx.saved_tensors
        result = (logits - log_total.unsqueeze(1)).exp_()  # the softmax, minus the smoothed distribution
        result.sub_(ctx.smoothing / logits.size(1))
        result.scatter_add_(1, gold.unsqueeze(1), result.new_full((len(gold), 1), ctx.smoothing - 1))
        return result.mul_(grad), None, None


def smoothed_cross_entropy(logits: Tensor, gold: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """logits (M, V) and gold (M,) -> the loss and the unsmoothed negative log-likelihood, both summed over the tokens.

    The reference distribution has 1 − smoothing on gold and smoothing spread over all V, as in `F.cross_entropy`.
    """
    return SmoothedCrossEntropy.apply(logits.float(), gold, smoothing)  # float32, whatever the precision
