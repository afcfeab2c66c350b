"""A kubelet's pod-resources service: Google's gRPC server and protocol buffers, on a unix socket."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TEXT, _MESSAGE, _INTEGER = 9, 11, 3
_ONE, _MANY = 1, 3
_SCHEMA: dict[str, list[tuple[int, str, int, int, str]]] = {
    "List": [(1, "pod_resources", _MANY, _MESSAGE, "Pod")],
    "Allocatable": [(1, "devices", _MANY, _MESSAGE, "Devices"), (2, "cpu_ids", _MANY, _INTEGER, "")],
    "Pod": [
        (1, "name", _ONE, _TEXT, ""),
        (2, "namespace", _ONE, _TEXT, ""),
        (3, "containers", _MANY, _MESSAGE, "Container"),
    ],
    "Container": [
        (1, "name", _ONE, _TEXT, ""),
        (2, "devices", _MANY, _MESSAGE, "Devices"),
        (3, "cpu_ids", _MANY, _INTEGER, ""),
        (5, "dynamic_resources", _MANY, _MESSAGE, "Dynamic"),
    ],
    "Devices": [
        (1, "resource_name", _ONE, _TEXT, ""),
        (2, "device_ids", _MANY, _TEXT, ""),
        (3, "topology", _ONE, _MESSAGE, "Topology"),
    ],
    "Topology": [(1, "nodes", _MANY, _MESSAGE, "Numa")],
    "Numa": [(1, "ID", _ONE, _INTEGER, "")],
    "Dynamic": [
        (2, "claim_name", _ONE, _TEXT, ""),
        (3, "claim_namespace", _ONE, _TEXT, ""),
        (4, "claim_resources", _MANY, _MESSAGE, "Claim"),
    ],
    "Claim": [
        (1, "cdi_devices", _MANY, _MESSAGE, "Cdi"),
        (2, "driver_name", _ONE, _TEXT, ""),
        (3, "pool_name", _ONE, _TEXT, ""),
        (4, "device_name", _ONE, _TEXT, ""),
    ],
    "Cdi": [(1, "name", _ONE, _TEXT, "")],
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, label, times, kind, other in fields:
            message.field.add(
                name=label, number=number, label=times, type=kind, type_name=f".v1.{other}" if other else None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in _SCHEMA}


MESSAGES = _messages()


def devices(resource: str, *ids: str) -> dict[str, Any]:
    """Return devices of a container; NUMA node 1."""
    return {"resource_name": resource, "device_ids": list(ids), "topology": {"nodes": [{"ID": 1}]}}


def container(name: str, *held: dict[str, Any], claims: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return a container with some CPUs of its own."""
    return {"name": name, "devices": list(held), "cpu_ids": [0, 1, 300], "dynamic_resources": list(claims)}


def claim(name: str, device: str, *cdi: str, driver: str = "gpu.nvidia.com", namespace: str = "ml") -> dict[str, Any]:
    """Return a resource claim of one device."""
    resource = {
        "cdi_devices": [{"name": one} for one in cdi],
        "driver_name": driver,
        "pool_name": "node-1",
        "device_name": device,
    }
    return {"claim_name": name, "claim_namespace": namespace, "claim_resources": [resource]}


def pod(namespace: str, name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """Return a pod."""
    return {"name": name, "namespace": namespace, "containers": list(containers)}


@dataclass
class Kubelet:
    """What kubelet would say; `allocatable` None: it does not know the question, as before Kubernetes 1.23."""

    path: Path
    pods: list[dict[str, Any]] = field(default_factory=list)
    allocatable: list[dict[str, Any]] | None = None
    asked: int = 0
    fail: grpc.StatusCode | None = None
    hold: Callable[[], object] = lambda: None

    def list(self, request: bytes, context: Any) -> bytes:
        self.asked += 1
        self.hold()
        if self.fail is not None:
            context.abort(self.fail, "as the test wants")
        return encode("List", {"pod_resources": self.pods})

    def allocatable_devices(self, request: bytes, context: Any) -> bytes:
        if self.allocatable is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
        return encode("Allocatable", {"devices": self.allocatable, "cpu_ids": [1, 2]})


def encode(name: str, values: dict[str, Any]) -> bytes:
    """Return a message as protocol buffers write it."""
    data: bytes = MESSAGES[name](**values).SerializeToString()
    return data


@contextmanager
def serving(directory: Path) -> Iterator[Kubelet]:
    """Serve in a directory until the block ends."""
    kubelet = Kubelet(directory / "kubelet.sock")
    handlers = {
        "List": grpc.unary_unary_rpc_method_handler(kubelet.list),
        "GetAllocatableResources": grpc.unary_unary_rpc_method_handler(kubelet.allocatable_devices),
    }
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
    server.add_insecure_port(f"unix:{kubelet.path}")
    server.start()
    try:
        yield kubelet
    finally:
        server.stop(0).wait()
