"""Facts about the CPU: model, vector extensions and width, clock, hypervisor."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from .host_text import read_text, sysctl

_FLAGS_OF_INTEREST = (
    ("avx2", ("avx2",)),
    ("fma", ("fma",)),
    ("avx512", ("avx512f",)),
    ("avx512_vnni", ("avx512_vnni", "avx512vnni")),
    ("avx512_bf16", ("avx512_bf16",)),
    ("avx512_fp16", ("avx512_fp16",)),
    ("avx_vnni", ("avx_vnni",)),
    ("amx", ("amx_tile",)),
    ("amx_bf16", ("amx_bf16",)),
    ("amx_int8", ("amx_int8",)),
    ("neon", ("asimd", "neon")),
    ("dotprod", ("asimddp", "dotprod")),
    ("arm_bf16", ("bf16",)),
    ("i8mm", ("i8mm",)),
    ("sve", ("sve",)),
    ("sve2", ("sve2",)),
    ("sme", ("sme",)),
)
# MIDR implementer and part numbers, from Arm's Technical Reference Manuals of each core (register MIDR_EL1).
_ARM_IMPLEMENTERS = {0x41: "Arm", 0x46: "Fujitsu", 0x4E: "NVIDIA", 0x51: "Qualcomm", 0x61: "Apple", 0xC0: "Ampere"}
_ARM_PARTS = {
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD83): "Neoverse V3AE",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD8E): "Neoverse N3",
}


@dataclass(frozen=True)
class CpuIdentity:
    """Who made the CPU; family and model are x86's, None elsewhere."""

    model: str
    vendor: str
    family: int | None = None
    model_number: int | None = None


def cpuinfo_fields(root: Path = Path("/")) -> dict[str, str]:
    """Return the first processor's fields of /proc/cpuinfo, keys in lower case."""
    fields: dict[str, str] = {}
    for line in read_text(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if not key.strip():
            if fields:
                break
            continue
        fields.setdefault(key.strip().lower(), value.strip())
    return fields


def cpu_identity(fields: dict[str, str]) -> CpuIdentity:
    """Name the CPU from /proc/cpuinfo, from macOS, or, last because it takes a second, through py-cpuinfo."""
    if "model name" in fields and "vendor_id" in fields:
        family, number = fields.get("cpu family", ""), fields.get("model", "")
        return CpuIdentity(
            fields["model name"],
            fields["vendor_id"],
            int(family) if family.isdigit() else None,
            int(number) if number.isdigit() else None,
        )
    if "cpu implementer" in fields:
        implementer, part = int(fields["cpu implementer"], 16), int(fields.get("cpu part", "0"), 16)
        vendor = _ARM_IMPLEMENTERS.get(implementer, f"implementer {implementer:#x}")
        model = fields.get("model name") or _ARM_PARTS.get((implementer, part)) or f"part {part:#x}"
        return CpuIdentity(f"{vendor} {model}" if not model.startswith(vendor) else model, vendor)
    if brand := sysctl("machdep.cpu.brand_string"):
        return CpuIdentity(brand, "Apple" if brand.startswith("Apple") else sysctl("machdep.cpu.vendor"))
    return _ask_py_cpuinfo()


def _ask_py_cpuinfo() -> CpuIdentity:
    try:
        from cpuinfo import get_cpu_info

        info = get_cpu_info()
    except Exception:
        info = {}
    model = info.get("brand_raw") or platform.processor() or platform.machine() or "unknown"
    return CpuIdentity(model, info.get("vendor_id_raw", ""))


def simd_flags(fields: dict[str, str]) -> tuple[str, ...]:
    """Return the vector extensions of interest that the CPU has, in this module's names."""
    words = set((fields.get("flags") or fields.get("features") or "").lower().split())
    if not words and platform.machine() in ("arm64", "aarch64"):
        words = {"asimd"}
        words |= {name for name, key in (("asimddp", "DotProd"), ("bf16", "BF16"), ("i8mm", "I8MM")) if _arm_has(key)}
    if not words and (leaf := sysctl("machdep.cpu.leaf7_features")):
        words = set(f"{leaf} {sysctl('machdep.cpu.features')}".lower().split())
    return tuple(name for name, spellings in _FLAGS_OF_INTEREST if words & set(spellings))


def simd_bits(flags: tuple[str, ...], architecture: str, root: Path = Path("/")) -> int:
    """Return the width of the widest vector registers for general code, in bits.

    For SVE the kernel tells the vector length in bytes; where it does not, NEON's 128 bits are certain.
    """
    if "avx512" in flags:
        return 512
    if "avx2" in flags:
        return 256
    if "sve" in flags:
        length = read_text(root / "proc/sys/abi/sve_default_vector_length")
        return max(128, int(length) * 8) if length.isdigit() else 128
    return 128 if architecture in ("x86_64", "amd64", "AMD64", "aarch64", "arm64") else 64


def hypervisor(fields: dict[str, str], root: Path = Path("/")) -> str | None:
    """Return the hypervisor's or virtual machine's name, "unknown" if there is one without a name, None without."""
    words = fields.get("flags", "").split()
    named = read_text(root / "sys/hypervisor/type")
    product = f"{read_text(root / 'sys/class/dmi/id/sys_vendor')} {read_text(root / 'sys/class/dmi/id/product_name')}"
    for key in ("KVM", "VMware", "VirtualBox", "Hyper-V", "QEMU", "Xen", "Amazon EC2", "Google Compute Engine"):
        if key.lower() in product.lower() and ("hypervisor" in words or "cpu implementer" in fields):
            return key
    if named:
        return named
    return "unknown" if "hypervisor" in words else None


def governor(root: Path = Path("/")) -> str | None:
    """Return the first core's frequency governor, None where the kernel does not set the clock."""
    return read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None


def clocks_hz(fields: dict[str, str], root: Path = Path("/")) -> tuple[float | None, float | None]:
    """Return the current and the greatest clock in Hz, None where the system does not tell.

    A virtual machine usually shows the base clock of the host only; `profiler.ceilings` measures the real one.
    """
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    current, greatest = read_text(folder / "scaling_cur_freq"), read_text(folder / "cpuinfo_max_freq")
    shown = re.fullmatch(r"[0-9.]+", fields.get("cpu mhz", ""))
    now = float(current) * 1e3 if current.isdigit() else float(shown[0]) * 1e6 if shown else None
    return now, float(greatest) * 1e3 if greatest.isdigit() else None


def _arm_has(feature: str) -> bool:
    return sysctl(f"hw.optional.arm.FEAT_{feature}") == "1"
