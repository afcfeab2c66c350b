import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_node import UUIDS, gpu, held, job, mig_uuid, node, unit

from kwhere.core.errors import Unavailable
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_mapping_settings import PrologNumbers
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_holds import GpuNode, claims_of
from kwhere.discovery.gpu_names import Place
from kwhere.discovery.gpu_prolog import PrologJob, holds_of, is_prolog_name, parse_prolog, read_files
from kwhere.discovery.gres_conf import GresBits

MIG = gpu(1, minor=0, instances=[(7, 0, "1g.5gb"), (1, 0, "3g.20gb")])
DEVICES = [gpu(0, minor=1), MIG]
NODE = node(DEVICES, job(123), job(456))


def found(directory: Path, here: GpuNode = NODE, numbers: PrologNumbers = PrologNumbers.INDEX) -> dict[str, list[str]]:
    holds, _ = holds_of(read_files([directory]), here, numbers, GresBits(((Place(UUIDS[0]),),)))
    return held(holds)


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        pytest.param("123\n\n456\r\n", ("123", "456"), id="case_gpu_57"),
        pytest.param("", (), id="case_gpu_56-empty"),
        pytest.param("\r\n \n", (), id="case_gpu_56-blank"),
        pytest.param("123 1000\n", ("123",), id="jobstats-with-uid"),
        pytest.param("  123\t\n", ("123",), id="white-space"),
        pytest.param("123", ("123",), id="no-newline"),
        pytest.param("123\n123\n", ("123",), id="twice"),
        pytest.param('{"SLURM_JOB_ID": "77", "CUDA_VISIBLE_DEVICES": ""}', ("77",), id="case_gpu_68-AMD"),
        pytest.param('{"SLURM_JOB_ID": 77}', ("77",), id="AMD-number"),
        pytest.param('{"SLURM_JOB_ID": "77", "SLURM_SCRIPT_CONTEXT": "epilog_slurmd"}', (), id="AMD-epilog"),
        pytest.param('{"SLURM_JOB_ID": ""}', (), id="AMD-no-job"),
        pytest.param('{"SLURM_JOB_ID": ', (), id="AMD-half-written"),
        pytest.param('{"SLURM_JOB_ID": true}', (), id="AMD-nonsense"),
    ],
)
def test_jobs_of_a_file(text: str, jobs: tuple[str, ...]) -> None:
    assert parse_prolog("0", text).jobs == jobs


@pytest.mark.parametrize(
    ("name", "places"),
    [
        pytest.param("0", ["0"], id="index"),
        pytest.param("1.7", [mig_uuid(1, 0)], id="case_gpu_34-index-and-instance"),
        pytest.param("1.1", [mig_uuid(1, 1)], id="case_gpu_34-instance-1"),
        pytest.param("1-7", [mig_uuid(1, 0)], id="case_users_58-with-a-dash"),
        pytest.param("1", [], id="a-whole-GPU's-file-is-not-for-its-instances"),
        pytest.param("0.7", [], id="no-such-instance"),
        pytest.param(UUIDS[0], ["0"], id="uuid"),
        pytest.param(mig_uuid(1, 1), [mig_uuid(1, 1)], id="case_gpu_34-MIG-uuid"),
        pytest.param("9", [], id="no-such-GPU"),
        pytest.param("0.tmp", [], id="somebody-else's-file"),
    ],
)
def test_which_gpu_a_file_is_about(tmp_path: Path, name: str, places: list[str]) -> None:
    (tmp_path / name).write_text("123\n")

    assert found(tmp_path).get("123", []) == places


def test_case_gpu_59_a_sites_numbers_may_be_minors(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("123\n")

    assert found(tmp_path, numbers=PrologNumbers.MINOR) == {"123": ["0"]}


def test_a_sites_numbers_may_be_slurms(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("123\n")

    assert found(tmp_path, numbers=PrologNumbers.SLURM) == {"123": ["0"]}


def test_case_gpu_57_two_jobs_share_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("123\n\n456\r\n")
    holds, jobs = holds_of(read_files([tmp_path]), NODE, PrologNumbers.INDEX, GresBits())

    assert [(claim.share, claim.exclusive, claim.source) for claim in claims_of(holds)] == [
        (500, False, ClaimSource.PROLOG)
    ] * 2
    assert jobs == [PrologJob(Place(UUIDS[0]), "123"), PrologJob(Place(UUIDS[0]), "456")]


def test_case_gpu_56_an_empty_file_takes_no_other_gpus_job(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("123\n")
    (tmp_path / "1.7").write_text("")

    assert found(tmp_path) == {"123": ["0"]}


def test_a_file_that_an_epilog_forgot_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("99\n")

    assert found(tmp_path) == {}


def test_a_services_name_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("123\n")

    assert found(tmp_path, node(DEVICES, unit("systemd", "123"))) == {}


def test_a_job_under_its_sluid_is_found(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("s5K1KKYAYG5D00\n")

    assert found(tmp_path, node(DEVICES, unit("slurm", "42", slurm_sluid="s5K1KKYAYG5D00"))) == {"42": ["0"]}


def test_case_gpu_63_one_job_at_two_slurmd_of_a_host(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("123\n")
    runs = [job(123, run=f"123@5.{name}", node_name=name) for name in ("n1", "n2")]

    holds, _ = holds_of(read_files([tmp_path]), node(DEVICES, *runs), PrologNumbers.INDEX, GresBits())

    assert [(claim.unit.run, claim.share) for claim in claims_of(holds)] == [("123@5.n1", 500), ("123@5.n2", 500)]


def test_amds_numbers_begin_again_at_128(tmp_path: Path) -> None:
    (tmp_path / "129").write_text(json.dumps({"SLURM_JOB_ID": "123"}))
    here = node([gpu(n, vendor=Vendor.AMD, minor=None) for n in range(2)], job(123))

    assert found(tmp_path, here) == {"123": ["1"]}


def test_directories_and_other_names_are_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "README").write_text("123")

    assert read_files([tmp_path, tmp_path / "none"]) == []


def test_a_file_like_no_other_takes_none_of_the_others_down(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("123\n")
    (tmp_path / "1").write_bytes(bytes(1 << 17))

    assert found(tmp_path) == {"123": ["0"]}


def test_a_directory_that_cannot_be_looked_into_is_said_to_be_closed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="File name too long"):
        read_files([tmp_path / ("x" * 300)])


def test_where_nothing_can_be_read_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(bytes(1 << 17))

    with pytest.raises(Unavailable, match=r"/1: expected a small file"):
        read_files([tmp_path])


@given(st.text(max_size=60))
def test_any_text_is_jobs_or_none(text: str) -> None:
    jobs = parse_prolog("0", text).jobs

    assert all(word and not word.isspace() and "\r" not in word for word in jobs)


@given(st.text(max_size=20))
def test_any_name_is_looked_at(name: str) -> None:
    assert is_prolog_name(name) in (True, False)
