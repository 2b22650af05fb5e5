"""Small kernels that the toolchain tests interpret and compile."""

import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a,
    b,
    product,
    rows,
    ROWS: tl.constexpr,
    INNER: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """product[rows, COLUMNS] = a[rows, INNER] @ b[INNER, COLUMNS], one program per ROWS rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, INNER)
    column = tl.arange(0, COLUMNS)
    inside = row[:, None] < rows
    left = tl.load(a + row[:, None] * INNER + inner[None, :], mask=inside, other=0.0)
    right = tl.load(b + inner[:, None] * COLUMNS + column[None, :])
    result = tl.dot(left, right, input_precision="ieee")
    tl.store(
        product + row[:, None] * COLUMNS + column[None, :],
        result.to(product.dtype.element_ty),
        mask=inside,
    )


@triton.jit
def cast_kernel(source, target, SIZE: tl.constexpr):
    """target[i] = source[i] in target's dtype, SIZE elements."""
    index = tl.arange(0, SIZE)
    tl.store(target + index, tl.load(source + index).to(target.dtype.element_ty))


@triton.jit
def arithmetic_kernel(a, b, out, SIZE: tl.constexpr):
    """Rows of out[8, SIZE]: a+b, a-b, a*b, -a, |a|, max(a, b), where(a < b, a, b), a + 1.5."""
    index = tl.arange(0, SIZE)
    x = tl.load(a + index)
    y = tl.load(b + index)
    tl.store(out + index, x + y)
    tl.store(out + SIZE + index, x - y)
    tl.store(out + 2 * SIZE + index, x * y)
    tl.store(out + 3 * SIZE + index, -x)
    tl.store(out + 4 * SIZE + index, tl.abs(x))
    tl.store(out + 5 * SIZE + index, tl.maximum(x, y))
    tl.store(out + 6 * SIZE + index, tl.where(x < y, x, y))
    tl.store(out + 7 * SIZE + index, x + 1.5)


@triton.jit
def reduction_kernel(source, out, SIZE: tl.constexpr):
    """out[3, SIZE]: the sum and the maximum (at the rows' starts), and the running sum."""
    index = tl.arange(0, SIZE)
    x = tl.load(source + index)
    tl.store(out, tl.sum(x, axis=0))
    tl.store(out + SIZE, tl.max(x, axis=0))
    tl.store(out + 2 * SIZE + index, tl.cumsum(x, axis=0))


@triton.jit
def failing_kernel(source):
    """Refused while it is traced: no compiler takes it further."""
    tl.static_assert(False, "this kernel never compiles")
    tl.store(source, 0.0)
