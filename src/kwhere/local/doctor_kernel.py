"""Checks of what explains a unit's speed: pressure, frequency, temperature."""

from collections import Counter
from collections.abc import Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.frequency import read_frequencies
from kwhere.kernel.pressure import RESOURCES, parse_pressure
from kwhere.kernel.thermal import read_temperatures
from kwhere.local.doctor import Check, Examination, missing, ok
from kwhere.local.doctor_place import Place
from kwhere.local.doctor_remedies import kernel_argument


def check_pressure(place: Place) -> Check:
    """Say whether the kernel counts pressure stalls."""
    told, reason = [], ""
    for resource in RESOURCES:
        file = f"proc/pressure/{resource}"
        try:
            parse_pressure(place.fs.read_text(file), file)
            told.append(resource)
        except (Unavailable, SourceError) as error:
            reason = reason or str(error)
    if told:
        return ok("pressure", f"told for {', '.join(told)}")
    remedy = kernel_argument("psi=1", place.finds_program)
    why = f"The kernel does not count stalls ({reason}): charts of pressure stay empty."
    return missing("pressure", "off", why, remedy)


def check_frequency(place: Place) -> Check:
    """Say whether CPUs tell their frequency and governor."""
    frequencies = read_frequencies(place.fs)
    governors = Counter(cpu.governor for cpu in frequencies.values() if cpu.governor)
    if not frequencies:
        return missing("frequency", "not told", "Fluctuating run times cannot be explained by the CPUs' speed.")
    if not governors:
        return ok("frequency", f"told for {len(frequencies)} CPUs", "No governor is told, as is usual for guests.")
    names = ", ".join(f"{name} on {count}" for name, count in governors.most_common())
    return ok("frequency", f"told for {len(frequencies)} CPUs, governor {names}")


def check_temperatures(place: Place) -> Check:
    """Say which sensors tell temperatures."""
    temperatures = read_temperatures(place.fs)
    if not temperatures:
        return missing("temperature", "no sensor", "Usual in virtual machines; on metal a sensor driver is not loaded.")
    chips: Sequence[tuple[str, int]] = Counter(temperature.chip for temperature in temperatures).most_common()
    return ok("temperature", f"{len(temperatures)} sensors: {', '.join(f'{chip} {count}' for chip, count in chips)}")


CHECKS = (
    Examination("pressure", "Kernel", check_pressure),
    Examination("frequency", "Kernel", check_frequency),
    Examination("temperature", "Kernel", check_temperatures),
)
