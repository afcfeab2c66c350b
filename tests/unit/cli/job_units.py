"""Units as the API tells of them, for tests of the command line: a job on two nodes with GPUs, and a plain one."""

from typing import Any

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"

PLAIN: dict[str, Any] = {
    "cluster": "hpc1",
    "manager": "slurm",
    "unit": "4243",
    "run": "4243@1764410400",
    "name": "preprocess",
    "user": "bob",
    "project": "vision",
    "state": "failed",
    "nodes": ["n1"],
    "submitted_at": "2026-11-29T09:58:00Z",
    "started_at": "2026-11-29T10:00:00Z",
    "ended_at": "2026-11-29T10:30:00Z",
    "allocation": {"cpus": 4.0, "memory_bytes": 8 * GIB, "gpus": {}},
    "power_watts": None,
    "cpu_seconds": {"user": 6840.0, "system": 360.0},
    "cpu_efficiency_ratio": 1.0,
    "memory_peak_bytes": 6 * GIB,
    "memory_efficiency_ratio": 0.75,
    "gpu_busy_seconds": None,
    "energy_joules": {"cpu": {"dynamic": 36_000.0, "idle": 18_000.0}, "total": 54_000.0},
    "energy_joules_total": 54_000.0,
    "emissions_grams": 0.84,
    "emissions": [
        {
            "provider": "static",
            "zone": "FR",
            "basis": "average",
            "scope": "lifecycle",
            "system": "production",
            "quality": "static",
            "grams": 0.84,
            "reporting": True,
        }
    ],
    "cost": 0.003,
    "cost_currency": "EUR",
    "costs": [{"currency": "EUR", "amount": 0.003, "is_whole": True}],
    "method": "counter",
    "methods": [{"component": "cpu", "method": "counter", "source": "powercap"}],
    "quality": [],
    "node_runs": [],
    "labels": {},
    "queue": "cpu",
    "gpus": [],
    "findings": [],
}


def gpu(node: str, index: int, **changes: object) -> dict[str, Any]:
    """Return a GPU that was busy for three of four hours."""
    return {
        "node": node,
        "gpu": index,
        "uuid": f"GPU-{node}-{index}",
        "mig": None,
        "model": H100,
        "profile": None,
        "source": "prolog",
        "utilization_ratio": 0.75,
        "energy_joules": 5_040_000.0,
        "memory_peak_bytes": 60 * GIB,
        "memory_total_bytes": 80 * GIB,
        **changes,
    }


def node_run(node: str, ratio: float, peak_gib: float) -> dict[str, Any]:
    """Return what was used of 16 CPUs and 64 GiB of a node in four hours."""
    return {
        "node": node,
        "run": "4242@1764417600",
        "started_at": "2026-11-29T12:00:00Z",
        "ended_at": "2026-11-29T16:00:00Z",
        "power_watts": None,
        "energy_joules": {"cpu": {"dynamic": 1_440_000.0, "idle": 360_000.0}, "total": 6_840_000.0},
        "cpu_seconds": ratio * 16 * 14_400,
        "cpu_efficiency_ratio": ratio,
        "memory_peak_bytes": int(peak_gib * GIB),
        "memory_allocated_bytes": 64 * GIB,
    }


JOB: dict[str, Any] = {
    **PLAIN,
    "unit": "4242",
    "run": "4242@1764417600",
    "name": "train resnet",
    "user": "alice",
    "state": "completed",
    "nodes": ["n1", "n2"],
    "submitted_at": "2026-11-29T11:00:00Z",
    "started_at": "2026-11-29T12:00:00Z",
    "ended_at": "2026-11-29T16:00:00Z",
    "allocation": {"cpus": 32.0, "memory_bytes": 128 * GIB, "gpus": {H100: 2.0}},
    "cpu_seconds": {"user": 220_000.0, "system": 10_400.0},
    "cpu_efficiency_ratio": 0.5,
    "memory_peak_bytes": 48 * GIB,
    "memory_efficiency_ratio": 0.5,
    "energy_joules": {
        "cpu": {"dynamic": 2_880_000.0, "idle": 720_000.0},
        "gpu": {"dynamic": 9_000_000.0, "idle": 1_080_000.0},
        "total": 13_680_000.0,
    },
    "energy_joules_total": 13_680_000.0,
    "emissions_grams": 212.8,
    "cost": 0.76,
    "costs": [{"currency": "EUR", "amount": 0.76, "is_whole": True}],
    "methods": [
        {"component": "cpu", "method": "counter", "source": "powercap"},
        {"component": "gpu", "method": "counter", "source": "nvml"},
    ],
    "node_runs": [node_run("n1", 0.75, 48), node_run("n2", 0.25, 16)],
    "labels": {"job": "4200_1", "array_job": "4200"},
    "queue": "gpu",
    "gpu_allocated_seconds": 28_800.0,
    "gpu_utilization_ratio": 0.375,
    "gpus": [gpu("n1", 0), gpu("n2", 0, utilization_ratio=0.0, memory_peak_bytes=None)],
    "findings": [
        {
            "kind": "gpu_unused",
            "text": "held n2 GPU 0 idle for 04:00:00, 1.40 kWh; never used it",
            "action": "ask for fewer GPUs",
            "grave": True,
            "since": None,
        }
    ],
    "quality": ["gap"],
}


def waiting(unit: str) -> dict[str, Any]:
    """Return a job that waits in a queue."""
    return {
        "cluster": "hpc1", "manager": "slurm", "unit": unit, "name": "later", "user": "alice", "project": "vision",
        "group": None, "queue": "gpu", "state": "pending", "reason": None, "submitted_at": "2026-11-29T11:00:00Z",
        "asked": {"cpus": 4.0, "memory_bytes": None, "gpus": {}, "nodes": 1}, "tasks": 1, "labels": {},
    }  # fmt: skip
