from pathlib import Path

import pytest
from tests.unit.collectors.fake_collectors import context
from tests.unit.ledger.journals import StandingClock, append, open_journal

from kwhere.collectors.build_info import BuildInfoCollector, BuildInfoSettings
from kwhere.collectors.collector import CollectorContext
from kwhere.collectors.journal import JournalCollector, JournalCollectorSettings
from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.ledger.journal_stats import JournalStats


def test_journal_without_a_journal_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        JournalCollector(context(), JournalCollectorSettings())


def test_journal_passes_on_its_counts(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    append(journal, 2)
    given = CollectorContext(host=HostFS(), clock=StandingClock(), journal=journal.stats)

    samples = {
        sample.spec.name: sample.value for sample in JournalCollector(given, JournalCollectorSettings()).collect()
    }

    assert samples["kwhere_journal_slots_total"] == 2
    assert samples["kwhere_journal_lost_slots_total"] == 0
    assert samples["kwhere_journal_held_slots"] == 2
    assert samples["kwhere_journal_bytes"] > 0
    assert "kwhere_journal_errors_total" not in samples


def test_journal_errors_are_told_by_cause() -> None:
    stats = JournalStats(5, 1, {"full": 2, "busy": 1}, 4, 4096, 12.5)
    given = CollectorContext(host=HostFS(), clock=StandingClock(), journal=lambda: stats)

    samples = list(JournalCollector(given, JournalCollectorSettings()).collect())

    errors = [(s.labels, s.value, s.created_s) for s in samples if s.spec.name == "kwhere_journal_errors_total"]
    assert errors == [(("busy",), 1, 12.5), (("full",), 2, 12.5)]


def test_build_info_tells_version_and_configuration() -> None:
    given = CollectorContext(host=HostFS(), clock=StandingClock(), config_sha256="ab12")

    samples = list(BuildInfoCollector(given, BuildInfoSettings()).collect())

    assert [(s.spec.name, s.value) for s in samples] == [("kwhere_build_info", 1), ("kwhere_config_info", 1)]
    assert samples[1].labels == ("ab12",)
