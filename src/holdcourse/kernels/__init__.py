"""What we believe about the cost before measuring: how alike two actions are, and two contexts.

A `Kernel` is a product, ``variance * action(x, x') * context(e, e')``, over scikit-learn's kernels, with the
scaling of the inputs declared once. Sums of such products describe costs with several causes: ``slow + fast``.

>>> from sklearn.gaussian_process.kernels import RBF, ExpSineSquared
>>> import holdcourse as hc
>>> daily = hc.Kernel(action=RBF(0.2), context=ExpSineSquared(1.0, periodicity=24.0), variance=2.0)
>>> hc.Kernel.from_json(daily.to_json()) == daily
True

Noise is no part of a kernel: it is declared where the posterior is made. scikit-learn is imported only when a kernel
is read back from JSON; until then we hold what the user has built with it.
"""

from __future__ import annotations

from holdcourse.kernels.product import AnyKernel, Kernel, KernelSum, check_kernel, summed, zscore

__all__ = ["AnyKernel", "Kernel", "KernelSum", "check_kernel", "summed", "zscore"]
