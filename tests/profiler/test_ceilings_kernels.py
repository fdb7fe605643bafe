"""The ceiling kernels do the work that they are counted for."""

import re

import numba
import numpy as np
import pytest
from llvmlite import binding, ir
from roofcast.kernels import simd
from roofcast.kernels.contract import UnsupportedError
from roofcast.profiler.ceilings import cpu_bandwidth, cpu_compute, register_loop
from roofcast.profiler.ceilings.cpu_clock import measure_clock_hz
from roofcast.profiler.ceilings.cpu_latency import cycle, latency_candidates

THREADS = min(2, numba.get_num_threads())


@pytest.mark.parametrize(("streams", "ahead"), [(1, 0), (2, 0), (2, 512)])
def test_read_sums_every_element_once_per_pass(streams: int, ahead: int) -> None:
    buffers = cpu_bandwidth.Buffers("read", 1 << 18, THREADS)
    (array,) = buffers.arrays
    array[:] = np.random.default_rng(1).integers(0, 4, array.size)
    cpu_bandwidth._reader(streams, ahead)(array, buffers.part, 3, buffers.sink)
    halves = array.reshape(THREADS, -1).sum(axis=1, dtype=np.float64)
    np.testing.assert_array_equal(buffers.sink[:, 0], 3 * halves)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("access", ["write", "copy", "triad"])
def test_writers_write_what_they_say(access: str, streaming: bool) -> None:
    for streams in (1, 4):
        a, b, c = (simd.aligned_empty(THREADS * 4096, np.float32) for _ in range(3))
        a[:], b[:] = np.random.default_rng(2).standard_normal((2, a.size), dtype=np.float32)
        c[:] = np.nan
        sink = np.zeros((THREADS, 32), np.float32)
        cpu_bandwidth._writer(access, streaming, streams)(c, a, b, 4096, 1, sink)
        expected = {"write": np.full_like(a, 3.0), "copy": a, "triad": a + np.float64(3.0) * b}[access]
        np.testing.assert_allclose(c, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("access", list(cpu_bandwidth.ARRAYS))
def test_buffers_keep_to_their_size(access: str) -> None:
    buffers = cpu_bandwidth.Buffers(access, 1 << 20, THREADS)
    assert 0.9 * (1 << 20) <= buffers.total_bytes <= 1 << 20
    assert all(array.ctypes.data % 64 == 0 for array in buffers.arrays)


def test_passes_are_not_merged_by_the_compiler() -> None:
    """Copies of a small set once showed 2 TB/s: the compiler had dropped all passes but one."""
    buffers = cpu_bandwidth.Buffers("copy", 1 << 15, 1)
    kernel = cpu_bandwidth._writer("copy", False, 1)
    kernel(*buffers.arrays, buffers.arrays[0], buffers.part, 2, buffers.sink)
    assert "singlethread" in "".join(kernel.inspect_llvm().values()) or "#MEMBARRIER" in "".join(
        kernel.inspect_asm().values()
    )


def test_fma_rounds_compute_the_recurrence() -> None:
    sink = np.zeros((1, 16))
    kernel = cpu_compute._fma_kernel("fp64")
    kernel(5, 0.5, 1.0, sink)
    count, lanes = register_loop.accumulators(), register_loop.vector_bits() // 64
    values = 1.0 + 0.01 * np.arange(count)
    for _ in range(5 * register_loop._UNROLL):
        values = values * 0.5 + 1.0
    assert sink[0, 0] == pytest.approx(values.sum() * lanes, rel=1e-12)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_fma_loop_holds_the_instructions_it_is_counted_for(precision: str) -> None:
    kernel = cpu_compute._fma_kernel(precision)
    kernel(1, *cpu_compute._FMA_OPERANDS, np.zeros((1, 16)))
    asm = "".join(kernel.inspect_asm().values())
    needed = register_loop.accumulators() * register_loop._UNROLL
    assert len(re.findall(r"vfmadd\w+|fmla", asm)) >= needed or "fma" not in simd.host_features()


def test_compare_takes_every_step() -> None:
    """Plain repeated maxima were merged by the compiler, which showed eight times the rate."""
    kernel = cpu_compute._compare_kernel("int")
    kernel(1, 5, 5, np.zeros((1, 16)))
    asm = "".join(kernel.inspect_asm().values())
    found = len(re.findall(r"vpmaxud|vpminud|umax|umin|pmaxud|pminud", asm))
    needed = register_loop.accumulators() * register_loop._UNROLL
    assert found >= needed or not {"avx512f", "avx2", "neon"} & simd.host_features()


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_dot_products_add_up_or_say_what_is_missing(precision: str) -> None:
    needed = {"bf16": "avx512bf16", "int8": "avx512vnni"}[precision]
    on_arm = precision == "int8" and "dotprod" in simd.host_features()
    if not on_arm and needed not in simd.host_features():
        with pytest.raises(UnsupportedError, match=f"matrix.{precision}"):
            cpu_compute._dot_kernel(precision)
        return
    kernel, products, _ = cpu_compute._dot_kernel(precision)
    sink = np.zeros((1, 16))
    operands = (0x3F803F80, 0x3F803F80) if precision == "bf16" else (0x01020304, 0x01010101)
    kernel(3, *operands, sink)
    count = register_loop.accumulators()
    lanes = products // (2 if precision == "bf16" else 4)
    per_step = 2.0 if precision == "bf16" else 10.0
    starts = (1.0 + 0.01 * np.arange(count)).sum() if precision == "bf16" else np.arange(count).sum()
    expected = lanes * (starts + count * 3 * register_loop._UNROLL * per_step)
    assert sink[0, 0] == pytest.approx(expected, rel=1e-5)


def test_arm_dot_product_compiles_for_arm() -> None:
    """The loop is the same code on Arm; its instruction is seen in code for a Neoverse V2."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = "aarch64-unknown-linux-gnu"
    i64 = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.DoubleType(), [i64] * 3), "loop")
    builder = ir.IRBuilder(function.append_basic_block())
    i32 = ir.IntType(32)
    builder.ret(register_loop.emit_loop(builder, i32, 4, cpu_compute.arm_int8_dot, function.args, i32, 24))
    machine = binding.Target.from_triple(module.triple).create_target_machine(cpu="neoverse-v2", opt=3)
    asm = machine.emit_assembly(binding.parse_assembly(str(module)))
    assert len(re.findall(r"\bsdot\b", asm)) == 24 * register_loop._UNROLL


def test_exponentials_are_computed() -> None:
    (candidate,) = cpu_compute.exp_candidates(1)
    candidate.run()
    x, y = (cell.cell_contents for cell in candidate.run.__closure__[2:4])  # type: ignore[index, attr-defined]
    np.testing.assert_allclose(y, np.exp2(x.astype(np.float64)), rtol=1e-6)
    assert candidate.work == x.size * cpu_compute._EXP_PASSES


@pytest.mark.parametrize("lines", [2, 3, 13, 200])
def test_pointer_chase_visits_every_line_once(lines: int) -> None:
    words = cycle(lines)
    place, seen = 0, []
    for _ in range(lines):
        seen.append(place)
        place = int(words[place])
    assert place == 0
    assert sorted(seen) == list(range(0, 8 * lines, 8))


def test_latency_candidate_counts_its_steps() -> None:
    (candidate,) = latency_candidates(1 << 14)
    candidate.run()
    assert candidate.working_set_bytes == 1 << 14
    assert candidate.work > 0


def test_clock_is_that_of_a_cpu() -> None:
    assert 1e8 < measure_clock_hz() < 1e10
