"""The face in the names of AMD's device-metrics-exporter, over the GPUs that the agent reads anyway."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kwhere.agent.amd_face import AmdFace
from kwhere.agent.http_settings import HttpSettings
from kwhere.core.clock import SystemClock
from kwhere.core.errors import ConfigError
from kwhere.devices.gpu import GpuSnapshot, GpuSource, Vendor
from kwhere.graphics.amd_names import AmdPage, Labels, Place
from kwhere.graphics.amd_names_settings import AmdExporterSettings
from kwhere.sampling.totals import Totals, UnitTotals

ReadTotals = Callable[[], Totals | None]


class AmdExporterFace:
    """The face as a part of an agent."""

    def __init__(self, settings: AmdExporterSettings, gpus: Iterable[GpuSource], totals: ReadTotals, host: str) -> None:
        source = next((one for one in gpus if one.vendor is Vendor.AMD), None)
        snapshot = source.snapshot if source is not None else partial(GpuSnapshot, Vendor.AMD)
        writer = AmdPage(host, prefix=settings.prefix, short_clock_types=settings.short_clock_types)
        http = HttpSettings(
            listen_addresses=(settings.address,), config_file=settings.web_config_file, allow_unprotected=True
        )
        self._face = AmdFace(http, SystemClock(), lambda: writer.render(snapshot(), holders(totals())))

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the addresses it answers at."""
        return self._face.urls

    def start(self) -> None:
        """Begin to serve. Raises ConfigError."""
        try:
            self._face.start()
        except ConfigError as error:
            text = str(error).replace("web.listen_addresses", "amd_exporter.address")
            raise ConfigError(text.replace("web.config_file", "amd_exporter.web_config_file")) from error

    def stop(self) -> None:
        """End."""
        self._face.stop()


def amd_faces(
    settings: AmdExporterSettings, gpus: Iterable[GpuSource], totals: ReadTotals, host: str
) -> list[AmdExporterFace]:
    """Return the face, where it is turned on."""
    return [AmdExporterFace(settings, gpus, totals, host)] if settings.enabled else []


def holders(totals: Totals | None) -> Mapping[Place, Labels]:
    """Return the labels of who holds each GPU or partition now; of several holders of one place, the first."""
    found: dict[Place, Labels] = {}
    for unit in totals.units if totals is not None else ():
        for gpu in unit.gpus:
            if gpu.share_ratio > 0:
                found.setdefault((gpu.device, gpu.instance), _labels_of(unit))
    return found


def _labels_of(unit: UnitTotals) -> Labels:
    info, told = unit.tracked.info, dict(unit.tracked.info.labels)
    if unit.key.manager == "kubernetes":
        return {"pod": told.get("kube_pod", ""), "namespace": told.get("kube_namespace", "")}
    if unit.key.manager in ("slurm", "oar"):
        partition = told.get("slurm_partition", "")
        return {"job_id": unit.key.unit, "job_user": info.user or "", "job_partition": partition}
    return {}
