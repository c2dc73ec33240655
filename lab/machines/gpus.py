"""The pretended GPUs of a host: where each sits on the PCI bus."""

PCI_BUSES = (0x1B, 0x29, 0x45, 0x4E, 0x9B, 0xAE, 0xB3, 0xD1)


def pci_address(gpu: int) -> str:
    """`0000:BB:00`, as the driver prints it, of GPU 0..7; ValueError otherwise."""
    if not 0 <= gpu < len(PCI_BUSES):
        raise ValueError(f"GPU {gpu} asked for; a host has GPUs 0 to {len(PCI_BUSES) - 1}")
    return f"0000:{PCI_BUSES[gpu]:02x}:00"


def device_nodes(gpus: int) -> list[str]:
    """Device files of a host with that many GPUs."""
    return [f"nvidia{n}" for n in range(gpus)] + (["nvidiactl", "nvidia-uvm"] if gpus else [])
