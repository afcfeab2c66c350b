"""Version, revision and the digest of the configuration."""

import json
from pathlib import Path

import pytest
from tests.recorded_hosts import open_host, said

from kwhere import __version__
from kwhere.collectors.build_info import plugin, revision

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_version_and_revision_are_always_said() -> None:
    [(name, labels)] = said(plugin, open_host("xeon-2s-dram"))

    assert name == "kwhere_build_info"
    assert labels[0] == __version__
    assert labels[1]


def test_an_installation_from_a_repository_names_its_commit() -> None:
    record = {"url": "https://example.org/kwhere.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}

    assert revision(json.dumps(record)) == COMMIT


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": f"{COMMIT}\n"},
        {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{COMMIT}\n"},
        {
            "HEAD": "ref: refs/heads/main\n",
            "packed-refs": f"# pack-refs\n{'f' * 40} refs/heads/x\n{COMMIT} refs/heads/main\n",
        },
    ],
    ids=["detached", "branch", "packed"],
)
def test_an_editable_installation_names_what_is_checked_out(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / "a b" / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a b" / ".git" / name).write_text(text)
    record = {"url": (tmp_path / "a b").as_uri(), "dir_info": {"editable": True}}

    assert revision(json.dumps(record)) == COMMIT


@pytest.mark.parametrize(
    "record", [None, "", "[]", "{", '{"url": "file:///nowhere", "dir_info": {"editable": true}}', '{"vcs_info": 1}']
)
def test_what_nothing_is_known_of_is_unknown(record: str | None) -> None:
    assert revision(record) == "unknown"
