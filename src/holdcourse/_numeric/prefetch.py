"""Ask for memory early: what is needed soon comes into the cache while something else is computed.

Reading at random from arrays that do not fit the cache is waiting for memory. The processor has an instruction that
starts a read and does not wait for it; numba does not export it, so it is defined here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray


def prefetch(array: NDArray[np.float64], i: int) -> None:
    """Bring array[i] into the cache, where it will be read and written; without compilation nothing is done."""


def _typed(typing: Any, array: Any, i: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        word = ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [values[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(instruction, [place, word(1), word(3), word(1)])  # to be written; keep it near; it is data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


_instruction: Any = intrinsic(_typed)


@overload(prefetch, strict=False)  # or the annotations, which numba does not read, would have to be repeated
def _compiled(array: Any, i: Any) -> Callable[[Any, Any], None]:
    return lambda array, i: _instruction(array, i)
