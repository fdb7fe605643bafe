"""How many fused multiply-adds a core can start per cycle, by microarchitecture.

The theoretical peak of the vector units is clock x pipes x (pipe bits / element bits) x 2. The system does not tell
the pipes, so they stand here with their source; a CPU that is not listed has no theoretical peak, only a measured one.
"""

from __future__ import annotations

from dataclasses import dataclass

from .cpu_facts import CpuIdentity


@dataclass(frozen=True)
class Microarchitecture:
    """A core design, its fused multiply-add pipes and their width in bits; None where not known."""

    name: str
    fma_pipes: int | None
    fma_pipe_bits: int | None


# AMD, "Software Optimization Guide" for families 17h and 19h and for the Zen 4 and Zen 5 microarchitectures,
# chapter on the floating-point unit: two FMA pipes in each, 256 bits wide from Zen 2 to Zen 4 (512-bit work takes two
# passes there), 512 bits in the server and desktop parts of Zen 5.
_AMD = {
    (0x17, 0x01): Microarchitecture("Zen", 2, 128),
    (0x17, 0x31): Microarchitecture("Zen 2", 2, 256),
    (0x17, 0x71): Microarchitecture("Zen 2", 2, 256),
    (0x19, 0x01): Microarchitecture("Zen 3", 2, 256),
    (0x19, 0x21): Microarchitecture("Zen 3", 2, 256),
    (0x19, 0x50): Microarchitecture("Zen 3", 2, 256),
    (0x19, 0x11): Microarchitecture("Zen 4", 2, 256),
    (0x19, 0x61): Microarchitecture("Zen 4", 2, 256),
    (0x19, 0x74): Microarchitecture("Zen 4", 2, 256),
    (0x19, 0xA0): Microarchitecture("Zen 4c", 2, 256),
    (0x1A, 0x02): Microarchitecture("Zen 5", 2, 512),
    (0x1A, 0x11): Microarchitecture("Zen 5c", 2, 512),
    (0x1A, 0x44): Microarchitecture("Zen 5", 2, 512),
}
# Intel 64 and IA-32 Architectures Optimization Reference Manual: ports 0 and 1 join to one 512-bit pipe and
# port 5 is the second in server cores; client cores have ports 0 and 1 at 256 bits.
_INTEL = {
    (6, 0x3F): Microarchitecture("Haswell", 2, 256),
    (6, 0x4F): Microarchitecture("Broadwell", 2, 256),
    (6, 0x5E): Microarchitecture("Skylake", 2, 256),
    (6, 0x8E): Microarchitecture("Kaby Lake", 2, 256),
    (6, 0x9E): Microarchitecture("Coffee Lake", 2, 256),
    # Some parts of this model have the second 512-bit pipe and some have not.
    (6, 0x55): Microarchitecture("Skylake or Cascade Lake server", None, None),
    (6, 0x6A): Microarchitecture("Ice Lake server", 2, 512),
    (6, 0x8F): Microarchitecture("Sapphire Rapids", 2, 512),
    (6, 0xCF): Microarchitecture("Emerald Rapids", 2, 512),
    (6, 0xAD): Microarchitecture("Granite Rapids", 2, 512),
}
# Arm, "Software Optimization Guide" of each Neoverse core, table of the vector pipes that take FMLA.
_ARM = {
    "Neoverse N1": Microarchitecture("Neoverse N1", 2, 128),
    "Neoverse V1": Microarchitecture("Neoverse V1", 4, 128),
    "Neoverse N2": Microarchitecture("Neoverse N2", 2, 128),
    "Neoverse V2": Microarchitecture("Neoverse V2", 4, 128),
}


def identify(identity: CpuIdentity, flags: tuple[str, ...]) -> Microarchitecture | None:
    """Return the core design of a CPU, or None if it is not listed.

    A pipe wider than the vector registers in use is narrowed: a virtual machine may hide AVX-512.
    """
    if identity.family is not None and identity.model_number is not None:
        table = {"AuthenticAMD": _AMD, "GenuineIntel": _INTEL}.get(identity.vendor, {})
        known = table.get((identity.family, identity.model_number))
        if known and known.fma_pipe_bits == 512 and "avx512" not in flags:
            return Microarchitecture(known.name, known.fma_pipes, 256)
        return known
    return next((known for name, known in _ARM.items() if identity.model.endswith(name)), None)
