"""Puts together what tells a host's guests their energy, and what a guest's journal says of its host."""

from pathlib import Path

from kwhere.agent.guest_choice import is_fed
from kwhere.agent.guest_settings import GuestSettings
from kwhere.agent.parented_journal import ParentedJournal
from kwhere.agent.runtime import Face
from kwhere.core.errors import ConfigError
from kwhere.kernel.hostfs import HostFS
from kwhere.ledger.journal import Journal
from kwhere.meters.hypervisor import HypervisorMeter
from kwhere.meters.registry import Meters
from kwhere.sampling.guest_book import GuestBook
from kwhere.sampling.slot_sink import NoJournal, SlotSink
from kwhere.sampling.step import Sampler


def guest_book(settings: GuestSettings) -> GuestBook | None:
    """Return the counters of guests; None where none is told anything."""
    return GuestBook(lambda unit: is_fed(settings, unit)) if settings.is_on else None


def slot_sink(journal: Journal | None, meters: Meters) -> SlotSink:
    """Return where slots go: the journal, which in a guest names the host that feeds it."""
    if journal is None:
        return NoJournal()
    feed = next((meter for meter in meters.meters if isinstance(meter, HypervisorMeter)), None)
    return journal if feed is None else ParentedJournal(journal, lambda: feed.parent)


def guest_faces(settings: GuestSettings, host: str, sampler: Sampler, fs: HostFS, state_dir: Path) -> list[Face]:
    """Return what tells guests their energy, by each way that is set. Raises ConfigError."""
    book = sampler.parts.guests
    if book is None:
        return []
    if "/" in host:
        raise ConfigError(f"agent.node: guests are told it, so it must not hold a `/`: {host!r}")
    # what most hosts do not need is not loaded there
    from kwhere.agent.guest_feeds import GuestFeeds

    feeds = GuestFeeds(settings, host, sampler, book, state_dir)
    faces: list[Face] = [feeds]
    if settings.listen_addresses:
        from kwhere.agent.guest_http import GuestHttp

        faces.append(GuestHttp(settings, lambda: feeds.told, sampler.parts.clock))
    if settings.vsock_port is not None:
        from kwhere.agent.guest_vsock import GuestCids, GuestVsock

        cids = GuestCids(settings, lambda: feeds.told, fs)
        faces.append(GuestVsock(settings.vsock_port, cids, sampler.parts.clock))
    return faces
