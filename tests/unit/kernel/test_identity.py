"""What `/proc/cpuinfo` says of the processor, for the model."""

from kwhere.kernel.identity import parse_cpu_model


def test_an_arm_board_says_implementer_part_and_board() -> None:
    text = (
        "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
        "CPU variant\t: 0x0\nCPU part\t: 0xd08\nCPU revision\t: 3\n\nHardware\t: BCM2835\n"
        "Model\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
    )

    found = parse_cpu_model(text)

    assert (found.code, found.board, found.name) == ("0x41//0xd08", "Raspberry Pi 4 Model B Rev 1.4", None)
    assert not found.is_guest


def test_a_guest_says_so_in_its_flags() -> None:
    text = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nstepping : 7\nflags : fpu hypervisor lm\n"

    found = parse_cpu_model(text)

    assert (found.code, found.is_guest) == ("GenuineIntel/6/85/7", True)
    assert parse_cpu_model("").code == ""
    assert parse_cpu_model("vendor_id : X").code == "X///"
